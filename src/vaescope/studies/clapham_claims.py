"""What Clapham and Grzes claim (Posterior collapse in variational gradient origin networks), and the rules for it."""

from __future__ import annotations

from vaescope.studies.claims import StudyClaim
from vaescope.studies.rules import Alike, Between, Both, Larger, Steady, Trend, Untested

VAE, VGON = {"model": "VAE"}, {"model": "VGON"}
NO_NORB = "The source has smallNORB too, which is not here."
MEANS, VARIANCES = {"representation": "mean"}, {"representation": "variance"}
TWO = {"models": "VAE and VGON"}
# Betas at which neither model has fully collapsed on MNIST, and of these the furthest from each.
FARTHEST = {"0.5": "20", "1": "20", "5": "20", "10": "0.5", "20": "0.5"}
BETAS = ("0.5", "1", "5", "10", "20", "25", "30")
VGON_ALONE = {"models": "VGON"}
SAME = 0.99  # a CKA above it is that of a representation with itself, but for rounding and little noise
SHAPE = ("sd of means", "mean of variances")


def _cell(beta: str, other: str) -> dict[str, object]:
    return {"data": "MNIST", **TWO, **MEANS, "beta": beta, "other beta": other}


FIGURE_3 = (
    StudyClaim(
        "The KL divergence of both models falls as beta grows.",
        "section IV.A, Figure 3",
        Trend("beta", True, {"measure": "KLD"}, by=("data", "model")),
        aside=NO_NORB,
    ),
    StudyClaim(
        "VAE and VGON come to very similar values of the KL divergence.",
        "section IV.A, Figure 3",
        Alike(VAE, VGON, by=("data", "beta"), within=0.1, about=0.2),
        aside="Values within 20% or 0.1 nats of each other count as very similar.",
    ),
)
FIGURE_4 = (
    StudyClaim(
        "Latents go from active at low values of beta to passive at high ones, in both models.",
        "section IV.B, Figures 4 and 5",
        Both(
            (
                Trend("beta", True, {"type": "active"}, by=("data", "model", "type")),
                Trend("beta", False, {"type": "passive"}, by=("data", "model", "type")),
            )
        ),
        aside=NO_NORB,
    ),
    StudyClaim(
        "The numbers of active, mixed and passive latents are very similar in both models throughout.",
        "section IV.B, Figures 4 and 5",
        Alike(VAE, VGON, by=("data", "beta", "type"), within=1.0),
        aside="Counts within one latent of each other count as very similar.",
    ),
    StudyClaim(
        "On MNIST the VGON has far fewer passive latents than the VAE until very large values of beta.",
        "section IV.B, Figure 4b",
        Larger(
            {"data": "MNIST", **VAE, "type": "passive", "beta": (0.5, 1.0, 5.0, 10.0)},
            {"data": "MNIST", **VGON, "type": "passive", "beta": (0.5, 1.0, 5.0, 10.0)},
            by=("beta",),
        ),
    ),
    StudyClaim(
        "At very large values of beta both models collapse entirely.",
        "section IV.B, Figures 4b and 5b",
        Between({"type": "passive", "beta": 30.0}, low=9.5),
    ),
)
FIGURE_6 = (
    StudyClaim(
        "Means of active latents take many values, and their variances are tight around 0.",
        "section IV.C, Figure 6",
        Both(
            (
                Between({"latent": "active", "measure": "sd of means"}, low=0.5),
                Between({"latent": "active", "measure": ("mean of variances", "sd of variances")}, high=0.1),
            )
        ),
        aside="0.1 is the threshold of the rule for active latents.",
    ),
    StudyClaim(
        "Means of passive latents are tight around 0, and their variances are tight around 1.",
        "section IV.C, Figure 7",
        Both(
            (
                Between({"latent": "passive", "measure": ("mean of means",)}, low=-0.1, high=0.1),
                Between({"latent": "passive", "measure": ("sd of means", "sd of variances")}, high=0.1),
                Between({"latent": "passive", "measure": "mean of variances"}, low=0.9, high=1.1),
            )
        ),
    ),
    StudyClaim(
        "Mixed latents of type 1 have a variance tight around one value between 0 and 1, on MNIST and dSprites.",
        "section IV.C, Figures 8 and 9",
        Both(
            (
                Between({"latent": "mixed, type 1", "measure": "mean of variances"}, low=0.1, high=0.9),
                Between({"latent": "mixed, type 1", "measure": "sd of variances"}, high=0.1),
            )
        ),
        aside="They are picked by a rule from all betas, where the source picks them by hand at beta 25.",
    ),
    StudyClaim(
        "Mixed latents of type 2 have variances around 0 for some items and around 1 for others, on smallNORB.",
        "section IV.C, Figure 9",
        Untested(),
        aside="smallNORB is not here.",
    ),
    StudyClaim(
        "VAE and VGON are very closely aligned for each type of latent.",
        "section IV.C, Figures 6 to 9",
        Alike(
            {**VAE, "latent": ("active", "passive"), "measure": SHAPE},
            {**VGON, "latent": ("active", "passive"), "measure": SHAPE},
            by=("data", "latent", "measure"),
            within=0.1,
        ),
        aside="Compared for active and passive latents, which are picked at different values of beta.",
    ),
)
FIGURE_10 = (
    StudyClaim(
        "Means of the two models become less similar as their values of beta lie further apart, except on dSprites.",
        "section IV.D, Figure 10",
        Both(
            tuple(
                Larger(_cell(beta, beta), _cell(*pair))
                for beta, far in FARTHEST.items()
                for pair in ((beta, far), (far, beta))
            )
        ),
        aside="Tested on MNIST up to beta 20, each diagonal cell against the two that are furthest from it.",
    ),
    StudyClaim(
        "On dSprites there is no explicit diagonal.",
        "section IV.D, Figure 10b",
        Steady({"data": "dSprites", **TWO, **MEANS}, within=0.2),
    ),
    StudyClaim(
        "Means of models that have both collapsed are similar.",
        "section IV.D, Figure 10c, of smallNORB",
        Between({"data": "MNIST", **TWO, **MEANS, "beta": ("25", "30"), "other beta": ("25", "30")}, low=0.8),
        aside="Tested on MNIST, where the VGON has collapsed at these values; smallNORB is not here.",
    ),
    StudyClaim(
        "Variances of the two models have little in common at every beta, on MNIST and dSprites.",
        "section IV.D, Figures 11a and 11b",
        Between({**TWO, **VARIANCES}, high=0.5),
    ),
    StudyClaim(
        "Means of the two models are more similar than their variances.",
        "section IV.D, Figures 10 and 11",
        Larger({**TWO, **MEANS}, {**TWO, **VARIANCES}, by=("data", "beta", "other beta")),
        enough=0.9,
        aside="Nine of ten cells must agree, as the source speaks of the whole.",
    ),
)
FIGURE_12 = (
    StudyClaim(
        "Variances of a VGON differ from themselves, because its codes need a sample.",
        "section IV.D, Figures 12d, 13d and 14d",
        Both(
            tuple(Between({**VGON_ALONE, **VARIANCES, "beta": beta, "other beta": beta}, high=SAME) for beta in BETAS)
        ),
        aside=f"A CKA of at most {SAME:g} with another draw of the noise counts as different.",
    ),
)
