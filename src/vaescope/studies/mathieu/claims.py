"""What Mathieu and others claim (Disentangling disentanglement), and the rules that test it."""

from __future__ import annotations

from vaescope.studies.claims import StudyClaim
from vaescope.studies.rules import Between, Larger, Steady, Trend, Untested

SCORE = {"measure": "FactorVAE score"}
ISOTROPIC, FIXED, LEARNED = ({"prior": f"Gaussian, {kind}"} for kind in ("isotropic", "fixed", "learned"))
MATCH, CODED = {"measure": "KL(p, q)"}, {"measure": "I(x; z)"}
SPARSE = {"prior": ("sparse, gamma 0.8, variance 0.05", "sparse, gamma 0.8, variance 0.0025")}
GAUSSIAN = {"prior": "Gaussian, gamma 0"}
SPARSITY, LIKELIHOOD, MMD = ({"measure": name} for name in ("sparsity", "log-likelihood", "MMD"))
REGULARISED = {"alpha": (100.0, 300.0, 1000.0)}
SAME_BETA = "Compared at the same beta, where the source compares at the same reconstruction loss."

FIGURE_2 = (
    StudyClaim(
        "A non-isotropic Gaussian prior disentangles better than the isotropic one.",
        "section 6.1, Figure 2, left",
        Larger({**SCORE, **FIXED}, {**SCORE, **ISOTROPIC}, by=("data", "beta")),
        aside=SAME_BETA,
    ),
    StudyClaim(
        "A prior whose variances are learned disentangles better still.",
        "section 6.1, Figure 2, left",
        Larger({**SCORE, **LEARNED}, {**SCORE, **FIXED}, by=("data", "beta")),
        aside=SAME_BETA,
    ),
    StudyClaim(
        "With a Student-t prior fewer degrees of freedom disentangle better than a Gaussian.",
        "section 6.1, Figure 2, right",
        Larger(
            {**SCORE, "prior": tuple(f"Student-t, {degrees} degrees" for degrees in (3, 5, 10)), "beta": 1.0},
            {**SCORE, **ISOTROPIC, "beta": 1.0},
            by=("data",),
        ),
    ),
    StudyClaim(
        "With an isotropic prior a larger beta brings no gain in disentanglement.",
        "section 6.1",
        Steady({**SCORE, **ISOTROPIC}, within=0.1, by=("data",)),
    ),
)
FIGURE_3 = (
    StudyClaim(
        "A larger beta makes the codes of different points overlap more.",
        "section 6.2, Figure 3",
        Trend("beta", True, CODED, by=("steps", "alpha")),
        aside="Measured as the information of a code about its point, which overlap reduces.",
    ),
    StudyClaim(
        "Too large a beta causes a mismatch of the aggregate posterior and the prior.",
        "section 6.2, Figure 3, top right",
        Larger({**MATCH, "beta": 2.0}, {**MATCH, "beta": 0.01}, by=("steps", "alpha")),
    ),
    StudyClaim(
        "A larger alpha always improves the match of the aggregate posterior and the prior.",
        "section 6.2, Figure 3",
        Trend("alpha", True, MATCH, by=("steps", "beta")),
    ),
    StudyClaim(
        "Large values of alpha do not make the encodings collapse to a mode.",
        "section 6.2, Figure 3",
        Between({**CODED, "alpha": 8.0, "beta": (0.0, 0.01)}, low=1.386),
        aside="1.386 nats, the logarithm of 4, is what tells the four clusters apart.",
    ),
)
FIGURE_4 = (
    StudyClaim(
        "A sparse prior in place of a Gaussian one makes codes sparser.",
        "section 6.3, Figure 4, left",
        Larger({**SPARSITY, **SPARSE, **REGULARISED}, {**SPARSITY, **GAUSSIAN, **REGULARISED}, by=("alpha",)),
    ),
    StudyClaim(
        "With the sparse prior, sparsity is far lower for alpha 0 than for alpha above 0.",
        "section 6.3, Figure 4, left",
        Larger({**SPARSITY, **SPARSE, **REGULARISED}, {**SPARSITY, **SPARSE, "alpha": 0.0}, by=("prior",)),
    ),
    StudyClaim(
        "The sparse prior does not harm the reconstruction.",
        "section 6.3, Figure 4, centre",
        Larger({**LIKELIHOOD, **SPARSE}, {**LIKELIHOOD, **GAUSSIAN}, by=("alpha",), ratio=0.98),
        aside="A loss of 2% is allowed.",
    ),
    StudyClaim(
        "Large values of alpha worsen the reconstruction.",
        "section 6.3, Figure 4, centre",
        Trend("alpha", True, LIKELIHOOD, by=("prior",)),
    ),
    StudyClaim(
        "The divergence from the prior is lower for the Gaussian than for the sparse prior.",
        "section 6.3, Figure 4, right",
        Larger({**MMD, **SPARSE}, {**MMD, **GAUSSIAN}, by=("alpha",)),
    ),
    StudyClaim(
        "Too low or too high a beta harms sparsity.",
        "section 6.3",
        Untested(),
        aside="Beta is 1 in every model here.",
    ),
)
FIGURE_5 = (
    StudyClaim(
        "With the sparse prior, different classes use different sets of latents.",
        "section 6.3, Figure 5, top",
        Larger({**SPARSE, "class": "mean"}, {**GAUSSIAN, "class": "mean"}, by=("data", "alpha")),
        aside="Measured as Hoyer's sparsity of a class' mean magnitudes.",
    ),
    StudyClaim(
        "Moving a latent that a class uses changes one meaningful feature of its items.",
        "section 6.3, Figure 5, bottom",
        Untested(),
        aside="This is judged by eye: see the picture.",
    ),
)
