"""What chapter 8 and appendix D of the thesis claim, and the rules that test it."""

from __future__ import annotations

from vaescope.studies.claims import StudyClaim
from vaescope.studies.rules import Alike, AsPublished, Between, Both, Larger, Once, Steady, Trend, Untested

DSPRITES = {"data": "dSprites"}
OTHERS = {"data": ("Symsol", "Celeba")}
ABSENT = "Symsol and Celeba are not here."
LATENTS, MODELS, EPOCHS = ({"measure": name} for name in ("latents", "models", "epochs"))
FONDUE, BY_INFORMATION = {"method": "FONDUE"}, {"method": "FONDUE_IB"}
STARTS = {"start": (5, 19, 22, 39, 74, 94, 116, 145, 180, 182)}
REREAD = "All starts read the same models again, so that this tests the search and not new training."
SIZES = 2.0  # latents between the sizes around the elbow

FIGURE_8_4 = (
    StudyClaim(
        "dSprites have an intrinsic dimension of 11 by maximum likelihood with 20 neighbours.",
        "section 8.5.1, figure 8.4",
        AsPublished(DSPRITES, within=0.5),
        aside="Both averagings count: that of the thesis' code (mean of inverses) and that of its text.",
    ),
    StudyClaim(
        "Estimates by maximum likelihood are stable between 10 and 20 neighbours.",
        "section 8.5.1, figure 8.4",
        Alike(
            {"estimator": ("MLE, mean of inverses", "MLE, mean of estimates"), "k": 10},
            {"estimator": ("MLE, mean of inverses", "MLE, mean of estimates"), "k": 20},
            by=("data", "estimator"),
            about=0.05,
        ),
        aside="A change of 5% is allowed.",
    ),
    StudyClaim(
        "They are close to TwoNN's estimates, except for Celeba.",
        "section 8.5.1, figure 8.4",
        Alike(
            {"estimator": "TwoNN"},
            {"estimator": ("MLE, mean of inverses", "MLE, mean of estimates"), "k": 20},
            by=("data",),
            about=0.1,
        ),
    ),
    StudyClaim(
        "Symsol has an intrinsic dimension of 4 and Celeba one of 22.",
        "section 8.5.1, figure 8.4",
        AsPublished(OTHERS, within=0.5),
        aside=ABSENT,
    ),
)
FOUND, ELBOW = {"latents": "FONDUE"}, {"latents": "elbow"}
FIGURE_8_5 = (
    StudyClaim(
        "FONDUE finds the elbow of the losses of VAEs, of DIP-VAE II and of fully connected VAEs.",
        "sections 8.5.2 and 8.7, figures 8.5, 8.7 and 8.8",
        Alike(
            {**FOUND, "figure": ("8.5", "8.7", "8.8")},
            {**ELBOW, "figure": ("8.5", "8.7", "8.8")},
            by=("figure", "model", "data"),
            within=SIZES,
        ),
        aside="Within 2 latents, the distance of the trained sizes; on dSprites alone.",
    ),
    StudyClaim(
        "FONDUE's number for VAEs is also the elbow of autoencoders of the same architecture.",
        "section 8.5.2, figure 8.6",
        Alike({**FOUND, "figure": "8.6"}, {**ELBOW, "figure": "8.6"}, by=("figure", "model", "data"), within=SIZES),
    ),
    StudyClaim(
        "FONDUE_IB overestimates the number of latents for dSprites.",
        "sections 8.5.2 and 8.7, figures 8.5 and 8.8",
        Larger(
            {"latents": "FONDUE_IB", "measure": "latents", "figure": ("8.5", "8.8")},
            {**ELBOW, "figure": ("8.5", "8.8")},
            by=("figure", "model", "data"),
        ),
    ),
    StudyClaim(
        "FONDUE's number of latents gives a good accuracy: more latents bring no more.",
        "section 8.5.2, figure 8.5",
        Alike(
            {"figure": "8.5", "measure": "accuracy", "latents": 10},
            {"figure": "8.5", "measure": "accuracy", "latents": 42},
            by=("model", "data"),
            about=0.05,
        ),
        aside="Compared at 10 and at 42 latents, with 5% allowed.",
    ),
)
FIGURE_8_9 = (
    StudyClaim(
        "The intrinsic dimensions of mean and sampled codes are similar up to a number of latents, then diverge.",
        "section 8.8.1, figure 8.9",
        Both(
            (
                Alike(
                    {"figure": "8.9", "of": "mean", "latents": (3, 6, 8, 10)},
                    {"figure": "8.9", "of": "sampled", "latents": (3, 6, 8, 10)},
                    by=("data", "latents"),
                    within=1.0,
                ),
                Larger(
                    {"figure": "8.9", "of": "sampled", "latents": (12, 18, 24, 32, 42)},
                    {"figure": "8.9", "of": "mean", "latents": (12, 18, 24, 32, 42)},
                    by=("data", "latents"),
                    ratio=1.2,
                ),
            )
        ),
        aside="On dSprites, with FONDUE's answer, 10.9, as the number at which they part.",
    ),
    StudyClaim(
        "With more latents than the data need, those in excess become passive or mixed.",
        "section 8.8.1, figure 8.10",
        Both(
            (
                Steady(
                    {"figure": "8.10", "of": "active", "latents": (12, 18, 24, 32, 42)}, within=1.0, by=("data", "of")
                ),
                Trend("latents", False, {"figure": "8.10", "of": "passive"}, by=("data", "of")),
            )
        ),
    ),
    StudyClaim(
        "Intrinsic dimensions of the layers do not change much after the first epoch.",
        "section 8.8.1, figure 8.11",
        Alike({"figure": "8.11", "epochs": 1.2}, {"figure": "8.11", "epochs": 4.2}, by=("data", "of"), about=0.1),
        aside="Between 1.2 and 4.2 epochs, with 10% allowed.",
    ),
)
TABLE_8_1 = (
    StudyClaim(
        "FONDUE finds 10.9 latents for dSprites.",
        "section 8.5.2, Table 8.1",
        AsPublished({**DSPRITES, **FONDUE, **LATENTS}),
    ),
    StudyClaim(
        "FONDUE_IB finds 15.7 latents for dSprites.",
        "section 8.5.2, Table 8.1",
        AsPublished({**DSPRITES, **BY_INFORMATION, **LATENTS}),
        aside="With the sorted blocks of the thesis' code.",
    ),
    StudyClaim(
        "FONDUE_IB asks for more latents than FONDUE for dSprites.",
        "section 8.5.2",
        Larger({**DSPRITES, **BY_INFORMATION, **LATENTS}, {**DSPRITES, **FONDUE, **LATENTS}),
    ),
    StudyClaim(
        "FONDUE's answer is stable after two epochs.",
        "section 8.5.2, Table 8.1",
        Between({**DSPRITES, **FONDUE, **EPOCHS}, high=2),
    ),
    StudyClaim(
        "One search takes much less time than training one model in full.",
        "section 8.5.2, Table 8.1",
        Untested(),
        aside="Searches trained side by side; the time of one alone was not measured.",
    ),
    StudyClaim(
        "FONDUE finds 19.1 latents for Symsol and 32.6 for Celeba, FONDUE_IB 23.3 and 18.4.",
        "section 8.5.2, Table 8.1",
        AsPublished({**OTHERS, **LATENTS}),
        aside=ABSENT,
    ),
)
TABLE_8_2 = (
    StudyClaim(
        "FONDUE finds 13.6, 7.4 and 6.3 latents for dSprites at beta 0.5, 2 and 4.",
        "section 8.5.2, Table 8.2",
        AsPublished({**DSPRITES, **LATENTS}),
    ),
    StudyClaim(
        "Models with a higher beta need fewer latents.",
        "section 8.5.2, Table 8.2",
        Trend("beta", True, LATENTS, by=("data",)),
    ),
    StudyClaim(
        "For Symsol FONDUE finds 26, 13.6 and 10 latents, for Celeba 49.9, 21.9 and 15.9.",
        "section 8.5.2, Table 8.2",
        AsPublished({**OTHERS, **LATENTS}),
        aside=ABSENT,
    ),
)
TABLE_8_3 = (
    StudyClaim(
        "For DIP-VAE II FONDUE finds 10.2, 9.5, 7.9 and 8.1 latents for dSprites at lambda_od 0.5, 1, 2 and 4.",
        "section 8.5.2, Table 8.3",
        AsPublished({**DSPRITES, **LATENTS}),
    ),
    StudyClaim(
        "Models with a higher lambda_od need fewer latents.",
        "section 8.5.2, Table 8.3",
        Trend("lambda_od", True, LATENTS, by=("data",)),
    ),
    StudyClaim(
        "For Symsol FONDUE finds 17.5 to 11.7 latents, for Celeba 27.3 to 18.7.",
        "section 8.5.2, Table 8.3",
        AsPublished({**OTHERS, **LATENTS}),
        aside=ABSENT,
    ),
)


def _starts(name: str, numbers: str, where: str) -> tuple[StudyClaim, ...]:
    own = {"data": name}
    return (
        StudyClaim(
            f"From ten starts between 5 and 182 FONDUE finds {numbers} latents for {name}.",
            where,
            Once(AsPublished({**own, **STARTS, **LATENTS})),
        ),
        StudyClaim(
            "The start of the search does not change its answer.",
            where,
            Once(Steady({**own, **STARTS, **LATENTS}, within=1.0)),
            aside=REREAD,
        ),
        StudyClaim(
            "A start that is far above the answer takes more models.",
            where,
            Once(
                Larger({**own, **MODELS, "start": (116, 145, 180, 182)}, {**own, **MODELS, "start": 22}, by=("data",))
            ),
        ),
    )


TABLE_8_4 = _starts("Symsol", "18.2 to 19.3", "section 8.6, Table 8.4")
TABLE_8_5 = _starts("Celeba", "31.6 to 32.4", "section 8.6, Table 8.5")
TABLE_8_6 = _starts("dSprites", "10.5 to 11.2", "section 8.6, Table 8.6")
TABLE_8_7 = (
    StudyClaim(
        "With fully connected nets FONDUE finds 5.2 latents for dSprites.",
        "section 8.7, Table 8.7",
        AsPublished({**DSPRITES, **FONDUE, **LATENTS}),
    ),
    StudyClaim(
        "With fully connected nets FONDUE_IB finds 12.3 latents for dSprites.",
        "section 8.7, Table 8.7",
        AsPublished({**DSPRITES, **BY_INFORMATION, **LATENTS}),
        aside="With the sorted blocks of the thesis' code.",
    ),
    StudyClaim(
        "With fully connected nets FONDUE_IB largely overestimates the number of latents for dSprites.",
        "section 8.7",
        Larger({**DSPRITES, **BY_INFORMATION, **LATENTS}, {**DSPRITES, **FONDUE, **LATENTS}, ratio=1.5),
        aside="1.5 times FONDUE's number counts as largely.",
    ),
    StudyClaim(
        "With fully connected nets FONDUE finds 7.6 latents for Symsol and 22 for Celeba, FONDUE_IB 11 and 16.4.",
        "section 8.7, Table 8.7",
        AsPublished({**OTHERS, **LATENTS}),
        aside=ABSENT,
    ),
)
TABLE_8_8 = (
    StudyClaim(
        "FONDUE_IDE finds 10.1 latents for dSprites.",
        "section 8.8.2, Table 8.8",
        AsPublished({**DSPRITES, "method": "FONDUE_IDE", **LATENTS}),
    ),
    StudyClaim(
        "FONDUE and FONDUE_IDE find very close numbers of latents for dSprites.",
        "section 8.8.2, Table 8.8",
        Alike({**DSPRITES, **FONDUE, **LATENTS}, {**DSPRITES, "method": "FONDUE_IDE", **LATENTS}, within=1.0),
        aside="FONDUE's answers are those of Table 8.1.",
    ),
    StudyClaim(
        "FONDUE_IDE finds 12.6 latents for Symsol and 34.7 for Celeba.",
        "section 8.8.2, Table 8.8",
        AsPublished({**OTHERS, "method": "FONDUE_IDE", **LATENTS}),
        aside=ABSENT,
    ),
)
TABLE_D_5 = (
    StudyClaim(
        "The supervised variants, which bisect 1 to 200, find 11.3 (BS_FONDUE) and 15.6 latents (IB) for dSprites.",
        "appendix D.3, Table D.5",
        AsPublished({**DSPRITES, **LATENTS}),
    ),
    StudyClaim(
        "The supervised variants train 8 models for dSprites.",
        "appendix D.3, Table D.5",
        AsPublished({**DSPRITES, **MODELS}, within=0.5),
    ),
    StudyClaim(
        "They find 19.2 and 23.6 latents for Symsol, 32.2 and 18.5 for Celeba.",
        "appendix D.3, Table D.5",
        AsPublished({**OTHERS, **LATENTS}),
        aside=ABSENT,
    ),
)
FIGURE_8_12 = (
    StudyClaim(
        "FONDUE and FONDUE_IDE find very close numbers of latents for dSprites and Celeba.",
        "section 8.8.2, figure 8.12",
        Alike(
            {**FOUND, **LATENTS, "data": ("dSprites", "Celeba")},
            {"latents": "FONDUE_IDE", **LATENTS, "data": ("dSprites", "Celeba")},
            by=("data",),
            within=1.0,
        ),
    ),
    StudyClaim(
        "For Symsol FONDUE_IDE is closer to the elbow than FONDUE.",
        "section 8.8.2, figure 8.12",
        Larger({**FOUND, "data": "Symsol"}, {"latents": "FONDUE_IDE", "data": "Symsol"}),
        aside=ABSENT,
    ),
)
FIGURE_D_1 = (
    StudyClaim(
        "FONDUE finds the elbow of beta-VAEs and of DIP-VAE II at several strengths.",
        "appendix D.4, figures D.2 and D.4",
        Alike({**FOUND, **DSPRITES}, {**ELBOW, **DSPRITES}, by=("figure", "model"), within=SIZES),
        aside="On dSprites, within 2 latents.",
    ),
    StudyClaim(
        "For Symsol FONDUE overestimates the number of latents.",
        "appendix D.4, figures D.1 and D.3",
        Larger({**FOUND, "data": "Symsol"}, {**ELBOW, "data": "Symsol"}, by=("figure", "model")),
        aside=ABSENT,
    ),
)
EQUATION_D_1 = (
    StudyClaim(
        "The elbow can be found from the Structure Preservation Index in place of the reconstruction loss.",
        "appendix D.2, equation D.1, after Gupta, Banchs and Rosso",
        Alike({"latents": "elbow of the SPI"}, {"latents": "elbow of the loss"}, by=("data",), within=SIZES),
        aside="The thesis names the method for autoencoders of texts and gives no value; tested on VAEs of images.",
    ),
)
