"""What chapter 7 and appendix C of the thesis claim, and the rules that test it."""

from __future__ import annotations

from vaescope.studies.claims import StudyClaim
from vaescope.studies.rules import Alike, AsPublished, Between, Both, Larger, Steady, Trend

UNSHARED = {"pair": "A and D, 0% shared"}
CKA, PROCRUSTES = {"measure": "CKA"}, {"measure": "Procrustes"}
ENCODER, DECODER = {"layers": "encoder"}, {"layers": "decoder"}
HEATMAP = ("figure", "data", "models")
HIGH = 0.8  # the caption of figure 7.10 calls 0.8 and above high


def _figures(*names: str) -> dict[str, object]:
    return {"figure": names}


FIGURE_7_1 = (
    StudyClaim(
        "Where 80% or 50% of the features are shared, CKA and Procrustes are close to the shared fraction.",
        "section 7.2.2, figures 7.1a and 7.1b",
        AsPublished(within=0.05),
        aside="With 10,000 items; the source does not name the number.",
    ),
    StudyClaim(
        "Where no feature is shared, Procrustes highly overestimates the similarity, while CKA drops rapidly.",
        "section 7.2.2, figure 7.1c",
        Both(
            (
                Trend("items", True, {**UNSHARED, **CKA}, by=("measure",)),
                Larger({**UNSHARED, **PROCRUSTES}, {**UNSHARED, **CKA}, by=("items",), ratio=1.4),
                Between({**UNSHARED, **CKA, "items": (1000, 2000, 5000, 10000)}, high=0.05),
            )
        ),
        aside="Procrustes must be 1.4 times CKA at each number of items, and CKA below 0.05 from 1,000 items on.",
    ),
    StudyClaim(
        "Procrustes needs more items than CKA.",
        "section 7.2.2",
        Larger(
            {**PROCRUSTES, "items": (50, 100, 200, 500, 1000)},
            {**CKA, "items": (50, 100, 200, 500, 1000)},
            ("pair", "items"),
        ),
        aside="Both fall to the shared fraction; the one that is higher at the same number of items needs more.",
    ),
)
FIGURE_7_2 = (
    StudyClaim(
        "The encoder is learned before the decoder: early in training its layers are more like their final state.",
        "section 7.4.1, figure 7.2",
        Larger(
            {**_figures("7.2a", "7.2b", "7.2c"), **ENCODER}, {**_figures("7.2a", "7.2b", "7.2c"), **DECODER}, HEATMAP
        ),
    ),
    StudyClaim(
        "Samples of a collapsed model are unlike the encoder of a well-behaved one, in contrast to the latter's own.",
        "section 7.4.1, figure 7.3",
        Larger(
            {**_figures("7.3a", "7.3b"), "layers": "rows' samples with encoder"},
            {**_figures("7.3a", "7.3b"), "layers": "columns' samples with encoder"},
            HEATMAP,
        ),
    ),
    StudyClaim(
        "Encoders trained with different objectives are highly similar.",
        "section 7.4.1, figure 7.4",
        Between({**_figures("7.4a", "7.4b", "7.4c"), **ENCODER}, low=HIGH),
    ),
    StudyClaim(
        "CKA and Procrustes agree, within about 0.1.",
        "section 7.4.2, figure 7.7",
        Both(
            (
                Alike({"figure": "7.7a"}, {"figure": "7.7c"}, by=("data", "layers"), within=0.15),
                Alike({"figure": "7.7b"}, {"figure": "7.7d"}, by=("data", "layers"), within=0.15),
            )
        ),
    ),
    StudyClaim(
        "Fully connected nets also learn the encoder first.",
        "section 7.4.3, figure 7.8",
        Larger({**_figures("7.8a", "7.8b"), **ENCODER}, {**_figures("7.8a", "7.8b"), **DECODER}, HEATMAP),
    ),
    StudyClaim(
        "Encoders of fully connected beta-VAEs of very different strengths stay very similar.",
        "section 7.4.3, figure 7.9",
        Between({**_figures("7.9a", "7.9b"), **ENCODER}, low=HIGH),
    ),
    StudyClaim(
        "Encoders of fully connected nets trained with different objectives have a CKA of at least 0.8.",
        "section 7.4.3, figure 7.10",
        Between({**_figures("7.10a", "7.10b", "7.10c"), **ENCODER}, low=HIGH),
    ),
)
CLASSIFIER = (
    StudyClaim(
        "The layers of a classifier and of a beta-VAE's encoder are very similar: CKA stays close to 1.",
        "appendix C.3, figure C.1",
        AsPublished(ENCODER, within=0.1),
    ),
    StudyClaim(
        "The mean, variance and sampled representations differ from what the classifier learns.",
        "appendix C.3, figure C.1",
        Larger(
            ENCODER,
            {"layers": tuple(f"last layer and {code}" for code in ("mean", "variance", "sampled"))},
            by=("data", "models", "measure"),
        ),
    ),
)
FIRST, SECOND = _figures("C.2a", "C.3a", "C.4a"), _figures("C.2b", "C.3b", "C.4b")
LATE, LATER = _figures("C.2c", "C.3c", "C.4c"), _figures("C.2d", "C.3d", "C.4d")
OBJECTIVES = ("beta-VAE", "beta-TC VAE", "DIP-VAE II")
WEAKEST = {"beta-VAE": 1, "beta-TC VAE": 1, "DIP-VAE II": 1, "annealed VAE": 75}
STRONGEST = {"beta-VAE": 8, "beta-TC VAE": 8, "DIP-VAE II": 20, "annealed VAE": 5}
FIGURE_C_2 = (
    StudyClaim(
        "At the first snapshot the encoder is already similar to the trained one, more than the decoder is.",
        "appendix C.4, figures C.2a, C.3a and C.4a",
        Larger({**FIRST, **ENCODER}, {**FIRST, **DECODER}, by=("figure", "data", "models")),
    ),
    StudyClaim(
        "The decoder is learned next: its similarity rises at the second snapshot.",
        "appendix C.4, figures C.2b, C.3b and C.4b",
        Larger({**SECOND, **DECODER}, {**FIRST, **DECODER}, by=("data", "models")),
    ),
    StudyClaim(
        "Only small refinements of encoder and decoder follow.",
        "appendix C.4, figures C.2c and d, C.3c and d, C.4c and d",
        Both(
            (
                Alike({**LATE, **ENCODER}, {**LATER, **ENCODER}, by=("data", "models"), within=0.1),
                Alike({**LATE, **DECODER}, {**LATER, **DECODER}, by=("data", "models"), within=0.1),
            )
        ),
        aside="A change of CKA by 0.1 counts as small.",
    ),
)
FIGURE_C_5 = (
    StudyClaim(
        "Models of all objectives and strengths start to converge at the same epoch.",
        "appendix C.5, figure C.5",
        Steady({"measure": "epochs to half of the fall"}, within=2, by=("data",)),
        aside="Measured as the epoch after which half of the loss' fall is done, with two epochs allowed.",
    ),
    StudyClaim(
        "Less regularised models reach lower losses.",
        "appendix C.5, figure C.5",
        Both(
            tuple(
                Larger(
                    {"objective": name, "strength": STRONGEST[name], "measure": "last loss"},
                    {"objective": name, "strength": WEAKEST[name], "measure": "last loss"},
                    by=("data", "objective"),
                )
                for name in WEAKEST
            )
        ),
    ),
    StudyClaim(
        "Annealed VAEs take longer to plateau than the others.",
        "appendix C.5, figure C.5",
        Larger(
            {"objective": "annealed VAE", "measure": "epochs to 90% of the fall"},
            {"objective": OBJECTIVES, "measure": "epochs to 90% of the fall"},
            by=("data",),
        ),
    ),
)
