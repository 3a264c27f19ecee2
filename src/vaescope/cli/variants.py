"""Every variant in one line with its source: what `vaescope fit --help` ends with; tests compare it with the tables."""

from __future__ import annotations

# Part -> name -> (what it is, where it is from).
VARIANTS: dict[str, dict[str, tuple[str, str]]] = {
    "model": {
        "vae": ("encoder, posterior, prior, decoder, likelihood", "Bonheme, eq. 3.5"),
        "conditional": ("the label joined to x and to z", "Pastrana, section 4.3"),
        "identifiable": ("iVAE: told the factors, with a prior given them", "Bonheme, eq. 4.31, Table A.2"),
        "vgon": ("no encoder: the code is a gradient at the origin", "Clapham and Grzes, eq. 6"),
        "autoencoder": ("a code without noise, no prior", "Bonheme, figure 8.6"),
    },
    "objective": {
        "beta": ("reconstruction + beta KL; beta = 1 is the ELBO", "Bonheme, eq. 4.25"),
        "annealed": ("reconstruction + gamma |KL - C(t)|", "Bonheme, eq. 4.26"),
        "factor": ("reconstruction + KL + gamma TC by a critic", "Bonheme, eq. 4.28"),
        "beta_tc": ("reconstruction + KL + (beta - 1) TC by minibatches", "Bonheme, eq. 4.29"),
        "dip_i": ("and a penalty on the covariance of the means", "Bonheme, eq. 4.30"),
        "dip_ii": ("and a penalty on the covariance of the codes", "Bonheme, eq. 4.30"),
        "decomposition": ("reconstruction + beta KL + alpha D(q(z), p(z))", "Mathieu et al., eq. 7"),
        "maximum_entropy": ("the beta-VAE as an ELBO with an entropy bonus", "Mathieu et al., eq. 5"),
    },
    "posterior": {
        "diagonal": ("independent Gaussians", "Bonheme, eq. 2.16"),
        "full": ("a Gaussian with a full covariance", "Rolinek et al., Table 2"),
        "deterministic": ("a point", "Bonheme, figure 8.6"),
    },
    "prior": {
        "standard": ("N(0, I)", "Bonheme, eq. 2.19"),
        "anisotropic": ("diagonal; variances fixed or learned", "Mathieu et al., section 6.1"),
        "student_t": ("a product of Student-t", "Mathieu et al., section 6.1"),
        "mixture": ("Gaussian clusters", "Mathieu et al., section 6.2"),
        "sparse": ("each latent off, near 0, or on", "Mathieu et al., section 6.3"),
        "conditional": ("a Gaussian given what the model is told", "Bonheme, eq. 5.3, Table A.2"),
    },
    "likelihood": {
        "bernoulli": ("pixels in [0, 1]", "Bonheme, section 3.3"),
        "gaussian": ("one variance, fixed or learned", "Bonheme, eq. 4.5"),
        "laplace": ("one scale", "Mathieu et al., section 6.3"),
    },
}


def listing() -> str:
    """All of them, a paragraph for each part and a line for each variant; the mark \\b keeps lines as they are."""
    blocks = []
    for part, names in VARIANTS.items():
        width = max(map(len, names))
        lines = [f"  {name:<{width}}  {what} ({source})" for name, (what, source) in names.items()]
        blocks.append("\n".join(["\b", part.capitalize(), *lines]))
    return "\n\n".join(blocks)
