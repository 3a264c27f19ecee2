"""What Rolinek, Zietlow and Martius claim (VAEs pursue PCA directions), and the rules that test it."""

from __future__ import annotations

from vaescope.studies.claims import StudyClaim
from vaescope.studies.rules import AsPublished, Between, Both, Extreme, Larger

DTO, DISENT = {"measure": "DtO"}, {"measure": "Disent."}
DIAGONAL = ("beta-VAE", "VAE")
ROTATED = ("AE", "beta-VAE_Sigma")
COST = {"quantity": "least cost x e^C"}

TABLE_1 = (
    StudyClaim(
        "After a short initial phase the polarised regime dominates the training: the KL is within 3% of its "
        "approximation for the published share of the training, 90.6% to 99.9%.",
        "section 5.2, Table 1",
        AsPublished(within=1.0),
        aside="One percent of the training is allowed in addition to our standard errors; published shares have none.",
    ),
)
TABLE_2 = (
    StudyClaim(
        "Decoders of models with a diagonal posterior are nearer to orthogonal than those of autoencoders and of "
        "models with a full covariance.",
        "section 5.3, Table 2",
        Larger({**DTO, "model": ROTATED}, {**DTO, "model": DIAGONAL}, by=("data",)),
    ),
    StudyClaim(
        "The beta-VAE has the highest disentanglement score on each data set with factors.",
        "section 5.3, Table 2 (bold)",
        Larger({**DISENT, "model": "beta-VAE"}, {**DISENT, "model": ("VAE", *ROTATED)}, by=("data",)),
    ),
    StudyClaim(
        "The distances and scores of trained models are those of Table 2.",
        "section 5.3, Table 2",
        AsPublished({"model": (*DIAGONAL, *ROTATED)}),
        aside="The source does not say over how many runs its spreads are: as many as ours are assumed. The rows of "
        "random decoders, which nothing trains, are not counted.",
    ),
)
FIGURE_4 = (
    StudyClaim(
        "Over restarts of one beta-VAE on dSprites, a lower distance to orthogonality comes with a higher "
        "disentanglement score.",
        "section 5.3, Figure 4",
        Between({"data": "dSprites", "measure": "correlation"}, high=-0.5),
    ),
)
SCALES = (
    StudyClaim(
        "The more equal the variances of the principal directions, the less orthogonal the decoder and the lower the "
        "score: at the ratios 1, 1.2 and 1.5 the published numbers.",
        "supplement C, known second-hand",
        AsPublished({"ratio": (1.0, 1.2, 1.5)}, within=0.05),
    ),
)
TOY = (
    StudyClaim(
        "The coefficients, least costs and best ratio of the two decoders are 50, 3, 24.5 and 3/50, and 61/2, 45/2 and "
        "52.4.",
        "section 4, equations 24 to 26",
        AsPublished(within=0.05),
        aside="Nothing is trained: the numbers are compared to the printed digits.",
    ),
    StudyClaim(
        "Rotating the code of the same decoder raises the cost of its noise.",
        "section 4, equations 25 and 26",
        Larger({**COST, "decoder": "M2"}, {**COST, "decoder": "M1"}),
    ),
    StudyClaim(
        "The cost is least where the decoder's columns are orthogonal.",
        "section 4, equations 27 and 28",
        Both(
            (Extreme(COST, {"decoder": "orthogonal"}), Between({"quantity": "DtO", "decoder": "orthogonal"}, high=1e-6))
        ),
    ),
)
