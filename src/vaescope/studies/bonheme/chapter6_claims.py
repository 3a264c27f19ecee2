"""What chapters 5 and 6 and appendix B of the thesis claim, and the rules that test it."""

from __future__ import annotations

from vaescope.studies.claims import StudyClaim
from vaescope.studies.numbers import Where
from vaescope.studies.rules import (
    AddsUp,
    Alike,
    AsPublished,
    Between,
    Both,
    Closer,
    Larger,
    Steady,
    Trend,
)

ALPHA = 0.1  # the thesis' threshold of "close to" a value (section 6.4.1)
ZERO, LEARNED = {"prior mean": "0"}, {"prior mean": "learned"}
ACTIVE, MIXED, PASSIVE = {"type": "active"}, {"type": "mixed"}, {"type": "passive"}
MEAN, SAMPLED = {"representation": "mean"}, {"representation": "sampled"}
RATIO, PRIOR, VARIANCE = ({"measure": name} for name in ("variance over prior's", "prior variance", "variance"))
TC, MI, RANK = ({"measure": name} for name in ("total correlation", "mutual information", "effective rank"))
ALL, ONLY_ACTIVE = {"latents": "all"}, {"latents": "active"}
DIP, BETA_TC = {"objective": "DIP-VAE II"}, {"objective": "beta-TC VAE"}
LARGEST = {"figure": "6.9", "measure": "largest |correlation|"}
OFTEN = {"figure": "6.10", "measure": "share of |correlations| above 0.2"}
WITH_ACTIVE = {"figure": "6.11", "measure": "mean |correlation| with active latents"}


def _both_types(prior: Where) -> Between:
    return Between({**prior, "measure": "latents", "type": ("active", "passive")}, low=1)


CHAPTER_5 = (
    StudyClaim(
        "Identifiable VAEs whose prior has mean 0 have active and passive latents.",
        "section 5.3.1, figures 5.1 and 5.2",
        _both_types(ZERO),
    ),
    StudyClaim(
        "With the prior's mean at 0, means of passive latents stay near 0, and their variances follow the prior's, "
        "which stay near 0.",
        "section 5.3.1, figure 5.1",
        Both(
            (
                Between({**ZERO, **PASSIVE, "measure": "largest |mean|"}, high=ALPHA),
                Between({**ZERO, **PASSIVE, **RATIO}, low=1 - ALPHA, high=1 + ALPHA),
                Between({**ZERO, **PASSIVE, **PRIOR}, high=ALPHA),
            )
        ),
    ),
    StudyClaim(
        "With the prior's mean at 0, variances of active latents stay near 0 and depart from the prior's.",
        "section 5.3.1, figure 5.2",
        Both(
            (
                Between({**ZERO, **ACTIVE, **VARIANCE}, high=ALPHA),
                Larger({**ZERO, **ACTIVE, **PRIOR}, {**ZERO, **ACTIVE, **VARIANCE}),
            )
        ),
    ),
    StudyClaim(
        "With the prior's mean at 0, the prior variance of an active latent follows the square of its mean.",
        "section 5.3.1, figure 5.2, proposition 5.2.1",
        Both(
            (
                Alike({**ZERO, **ACTIVE, **PRIOR}, {**ZERO, **ACTIVE, "measure": "squared mean"}, about=0.2),
                Between({**ZERO, **ACTIVE, "measure": "correlation of prior and squared mean"}, low=0.8),
            )
        ),
        aside="The numbers 20 and 400 of the text are of one latent and are not compared.",
    ),
    StudyClaim(
        "Active and passive latents remain when the prior's mean is learned.",
        "section 5.3.2, figures 5.3 and 5.4",
        _both_types(LEARNED),
    ),
    StudyClaim(
        "With a learned mean, the mean and variance of passive latents are very close to the prior's, and small.",
        "section 5.3.2, figure 5.3",
        Both(
            (
                Between({**LEARNED, **PASSIVE, "measure": "squared mean"}, high=0.01),
                Between({**LEARNED, **PASSIVE, **RATIO}, low=1 - ALPHA, high=1 + ALPHA),
                Between({**LEARNED, **PASSIVE, **PRIOR}, high=ALPHA),
            )
        ),
        aside="'squared mean' is the squared difference from the prior's mean.",
    ),
    StudyClaim(
        "With a learned mean, active latents have a variance near 0 that departs from the prior's, and a prior "
        "variance that is lower than with the mean at 0.",
        "section 5.3.2, figure 5.4",
        Both(
            (
                Between({**LEARNED, **ACTIVE, **VARIANCE}, high=ALPHA),
                Larger({**LEARNED, **ACTIVE, **PRIOR}, {**LEARNED, **ACTIVE, **VARIANCE}),
                Larger({**ZERO, **ACTIVE, **PRIOR}, {**LEARNED, **ACTIVE, **PRIOR}),
            )
        ),
    ),
)
FIGURE_6_2 = (
    StudyClaim(
        "Passive latents have mean 0 in both representations, and a variance near 0 in the mean and near 1 in the "
        "sampled one.",
        "section 6.3.2, figures 6.2a and 6.3a, theorem 6.3.1",
        AsPublished(PASSIVE, within=0.05),
    ),
    StudyClaim(
        "Active latents have similar distributions in the mean and the sampled representation.",
        "section 6.3.2, figures 6.2c and 6.3c",
        Alike({**ACTIVE, **MEAN, **VARIANCE}, {**ACTIVE, **SAMPLED, **VARIANCE}, about=0.1),
        aside="Compared by their variances.",
    ),
    StudyClaim(
        "The variance of mixed latents in the mean representation is above that of passive ones, and grows in the "
        "sampled one.",
        "section 6.3.2, figures 6.2b and 6.3b",
        Both(
            (
                Larger({**MIXED, **MEAN, **VARIANCE}, {**PASSIVE, **MEAN, **VARIANCE}),
                Larger({**MIXED, **SAMPLED, **VARIANCE}, {**MIXED, **MEAN, **VARIANCE}),
            )
        ),
    ),
)
GUESS = {"representation": "none", "latents": "uniform guess"}
FIGURE_6_4 = (
    StudyClaim(
        "From sampled passive latents a classifier predicts no better than a random one.",
        "section 6.4.1, figure 6.4b",
        Alike({**SAMPLED, "latents": "passive"}, GUESS, by=("data", "beta"), within=0.005),
    ),
    StudyClaim(
        "From sampled mixed latents it predicts slightly better than a random one.",
        "section 6.4.1, figure 6.4b",
        Larger({**SAMPLED, "latents": "mixed"}, GUESS, by=("data", "beta")),
    ),
    StudyClaim(
        "From sampled active and mixed latents together it predicts as well as from all.",
        "section 6.4.1, figure 6.4b",
        Alike({**SAMPLED, "latents": "active+mixed"}, {**SAMPLED, "latents": "full"}, by=("data", "beta"), about=0.05),
    ),
    StudyClaim(
        "Passive latents of the means become more informative as the regularisation grows.",
        "section 6.4.1, figure 6.4a",
        Trend("beta", False, {**MEAN, "latents": "passive"}, by=("data",)),
    ),
    StudyClaim(
        "In the means, passive and active latents predict better than mixed and active ones.",
        "section 6.4.1, figure 6.4a",
        Larger({**MEAN, "latents": "active+passive"}, {**MEAN, "latents": "active+mixed"}, by=("data", "beta")),
    ),
)
COUNTED = {"objective": ("beta-VAE", "beta-TC VAE", "FactorVAE", "DIP-VAE II")}
FIGURE_6_5 = (
    StudyClaim(
        "At the lowest strength the number of passive latents is generally close to zero.",
        "section 6.4.1, figure 6.5",
        Both(
            (
                Between({**PASSIVE, "objective": ("beta-VAE", "beta-TC VAE", "DIP-VAE II"), "strength": 1}, high=1),
                Between({**PASSIVE, "objective": "FactorVAE", "strength": 10}, high=1),
            )
        ),
        aside="Tested on dSprites, one of six data sets; at most one latent counts as close to zero.",
    ),
    StudyClaim(
        "The number of passive and mixed latents together grows with the strength.",
        "section 6.4.1, figure 6.5",
        Trend("strength", True, {**ACTIVE, **COUNTED}, by=("objective",)),
        aside="The numbers are those of the active latents, which are the rest of ten.",
    ),
    StudyClaim(
        "The number of passive latents alone grows with the strength.",
        "captions of figures 6.7 and 6.8, of DIP-VAE II and beta-TC VAE",
        Trend("strength", False, {**PASSIVE, **COUNTED}, by=("objective",)),
    ),
)
FIGURE_6_6 = (
    StudyClaim(
        "On dSprites the number of passive latents of DIP-VAE II grows with its strength, and the mutual information "
        "of the sampled codes falls.",
        "section 6.4.4, figure 6.7a",
        Both(
            (
                Trend("strength", False, {**DIP, "measure": "passive latents"}, by=("data", "measure")),
                Trend("strength", True, {**DIP, **MI, **SAMPLED, **ALL}, by=("data", "measure")),
            )
        ),
    ),
    StudyClaim(
        "Without passive and mixed latents the mutual information of mean and sampled codes is more similar.",
        "section 6.4.4, figures 6.7b and 6.7c",
        Closer({**DIP, **MEAN, **MI}, {**DIP, **SAMPLED, **MI}, ONLY_ACTIVE, ALL, by=("data", "strength")),
    ),
    StudyClaim(
        "Without passive and mixed latents the total correlation of mean and sampled codes is more similar.",
        "section 6.4.4, figures 6.8b and 6.8c",
        Closer({**MEAN, **TC}, {**SAMPLED, **TC}, ONLY_ACTIVE, ALL, by=("data", "objective", "strength")),
        aside="The figure is of beta-TC VAE on noisy dSprites; tested on dSprites.",
    ),
    StudyClaim(
        "Mean codes have a higher total correlation than sampled ones at the largest strengths.",
        "section 6.4.3, figure 6.6a",
        Larger(
            {**MEAN, **TC, **ALL, "strength": (6, 8, 10, 20, 50)},
            {**SAMPLED, **TC, **ALL, "strength": (6, 8, 10, 20, 50)},
            by=("data", "objective", "strength"),
        ),
        aside="The figure is of beta-TC VAE on smallNORB, which is not here.",
    ),
    StudyClaim(
        "Passive latents, more than mixed ones, raise the total correlation of the mean codes.",
        "section 6.4.4, figure 6.8",
        Closer(
            {**MEAN, **TC},
            {**SAMPLED, **TC},
            {"latents": "without passive"},
            ALL,
            by=("data", "objective", "strength"),
        ),
        aside="A difference that does not shrink without passive latents is not due to them.",
    ),
    StudyClaim(
        "The effective rank of the mean codes is close to the number of latents less the passive ones.",
        "section 6.4.3, figure 6.6c",
        AddsUp(
            {**MEAN, **RANK, **ALL},
            {"measure": "passive latents", **ALL},
            total=10,
            within=1,
            by=("data", "objective", "strength"),
        ),
        aside="The figure is of beta-TC VAE on colour dSprites; tested on dSprites, with one latent allowed.",
    ),
    StudyClaim(
        "The effective rank of the sampled codes is close to the number of latents.",
        "section 6.4.3, figure 6.6c",
        Between({**SAMPLED, **RANK, **ALL}, low=9.5, high=10),
    ),
)
FIGURE_6_9 = (
    StudyClaim(
        "Passive latents have stronger correlations with another latent than other types do.",
        "section 6.5, figure 6.9",
        Larger({**LARGEST, **PASSIVE}, {**LARGEST, "type": ("active", "mixed")}),
        aside="Of each latent the strongest correlation counts, whatever the type of the other.",
    ),
    StudyClaim(
        "During training, correlations above 0.2 are more frequent for passive latents than for active ones.",
        "section 6.5, figure 6.10",
        Larger({**OFTEN, **PASSIVE}, {**OFTEN, **ACTIVE}),
    ),
    StudyClaim(
        "Passive latents are the most often correlated ones, mixed latents included.",
        "caption of figure 6.10",
        Larger({**OFTEN, **PASSIVE}, {**OFTEN, "type": ("active", "mixed")}),
    ),
    StudyClaim(
        "Active latents are correlated with passive ones, and very little with others.",
        "section 6.5, figure 6.11",
        Larger({**WITH_ACTIVE, **PASSIVE}, {**WITH_ACTIVE, "type": ("active", "mixed")}),
    ),
    StudyClaim(
        "Four of ten latents are passive on colour dSprites; on dSprites three are passive, three mixed, four active.",
        "section 6.5, figures 6.9 and 6.10",
        AsPublished({"measure": "latents"}, within=0.5),
        aside="The published counts are of one model each.",
    ),
)
APPENDIX_B = (
    StudyClaim(
        "The annealed VAE has a near constant number of passive latents, whatever its capacity.",
        "appendix B.1, figure B.1",
        Steady({"measure": "passive latents"}, within=1, by=("data",)),
    ),
    StudyClaim(
        "The total correlation and the mutual information of the means grow with the capacity.",
        "appendix B.1, figures B.2 and B.3",
        Both(tuple(Trend("strength", False, {**MEAN, **ALL, **one}, by=("data", "measure")) for one in (TC, MI))),
    ),
    StudyClaim(
        "Removing passive latents lowers the total correlation and the mutual information of the means.",
        "appendix B.1, figure B.5",
        Both(
            tuple(
                Larger({**MEAN, **ALL, **one}, {**MEAN, **ONLY_ACTIVE, **one}, ("data", "strength")) for one in (TC, MI)
            )
        ),
    ),
    StudyClaim(
        "On Cars3D 4 latents are passive at a capacity of 25 and 3 at 100.",
        "appendix B.1, figure B.4",
        AsPublished({"data": "Cars3D"}, within=0.5),
        aside="Cars3D is not here.",
    ),
)
