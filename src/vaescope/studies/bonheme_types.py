"""Types of latents: how they look, what they predict, how many there are (Bonheme, figures 6.2 to 6.5)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from vaescope.codes import Representation
from vaescope.numerics.variable_type_names import VARIABLE_TYPES
from vaescope.regime import downstream
from vaescope.regime.combinations import FULL, MEAN, REPRESENTATIONS
from vaescope.regime.downstream import Downstream
from vaescope.runs.measurements import MeasurementSpec, measure
from vaescope.studies.bonheme_settings import (
    BETA,
    BETA_TC,
    DIP_I,
    DIP_II,
    DSPRITES,
    FACTOR,
    QUICK_DATA,
    THESIS,
    TITLES,
    Family,
    codes_of,
    data_there,
    over,
    rows_of,
    trained,
    types_of,
)
from vaescope.studies.charts import Histograms, Lines
from vaescope.studies.study import Cell, Findings, Scale, Study

BINS = 40
FAMILIES = (BETA, BETA_TC, FACTOR, DIP_I, DIP_II)
GUESS = "uniform guess"


def histograms(scale: Scale) -> Findings:
    """Figures 6.2 and 6.3: a passive, a mixed and an active latent of one beta-VAE, in both representations."""
    notes: list[str] = []
    beta, only = scale.pick((4, None), (8, [8]))  # at quick scale all strengths train together for other figures
    cells: list[Cell] = []
    charts: list[Histograms] = []
    for name in data_there(scale, (DSPRITES,), notes):
        looks = [_Look.of(codes_of(scale, run)) for run in trained(scale, BETA, name, only, seeds=5)[beta]]
        for kind in VARIABLE_TYPES:
            for representation in REPRESENTATIONS:
                for number in ("mean", "variance"):
                    of = {"data": TITLES[name], "type": kind, "representation": representation, "measure": number}
                    values = [look.of_type(representation, kind, number) for look in looks]
                    cells.append(over(of, values, f"no latent was {kind}"))
        charts += [_histograms(looks, TITLES[name], beta, representation) for representation in REPRESENTATIONS]
    return Findings(tuple(cells), tuple(charts), tuple(notes))


def accuracies(scale: Scale) -> Findings:
    """Figure 6.4: the average test accuracy of a logistic regression on each combination of types, against beta."""
    notes: list[str] = []
    cells: list[Cell] = []
    for name in data_there(scale, (DSPRITES,), notes):
        for beta, runs in trained(scale, BETA, name).items():
            found = [_predicted(scale, codes_of(scale, run, 15_000)) for run in runs]
            of = {"data": TITLES[name], "beta": beta}
            guess = {"representation": "none", "latents": GUESS}
            cells.append(over({**of, **guess}, [one.guess() for one in found], ""))
            for representation in REPRESENTATIONS:
                groups = dict.fromkeys(entry.combination for one in found for entry in one.entries)
                for group in sorted(groups, key=lambda name: (name != FULL, name)):
                    values = [one.average(representation, group) for one in found]
                    cells.append(over({**of, "representation": representation, "latents": group}, values, ""))
    charts = tuple(
        Lines(
            f"Figure 6.4: accuracy from the {representation} codes",
            "Mean test accuracy over what is predicted, by the types of the latents that it is predicted from.",
            [row for row in rows_of(cells) if row["representation"] in (representation, "none")],
            *("beta", "value", "latents"),
            x_title="beta",
            y_title="accuracy",
        )
        for representation in REPRESENTATIONS
    )
    return Findings(tuple(cells), charts, tuple(notes))


def counts(scale: Scale) -> Findings:
    """Figure 6.5: how many latents are passive, mixed and active as the regularisation grows, by objective."""
    notes: list[str] = []
    cells: list[Cell] = []
    for name in data_there(scale, (DSPRITES,), notes):
        for family in FAMILIES:
            cells += counted(scale, family, name)
    return Findings(tuple(cells), tuple(count_charts("Figure 6.5", cells)), tuple(notes))


def counted(scale: Scale, family: Family, data: str) -> list[Cell]:
    """The mean number of latents of each type, for each strength of one objective."""
    cells = []
    for strength, runs in trained(scale, family, data).items():
        rows = [measure(run, MeasurementSpec()) for run in runs]
        of = {"data": TITLES[data], "objective": family.title, "strength": strength}
        cells += [over({**of, "type": kind}, [row[kind] for row in rows], "") for kind in VARIABLE_TYPES]
    return cells


def count_charts(figure: str, cells: list[Cell]) -> list[Lines]:
    """One chart for each data set, with a panel for each objective."""
    rows = rows_of(cells)
    return [
        Lines(
            f"{figure}: types of latents on {data}",
            "Mean number of passive, mixed and active latents over seeds, for each strength of the objective.",
            [{**row, "strength": f"{row['strength']:g}"} for row in rows if row["data"] == data],
            *("strength", "value", "type", "objective"),
            kind="bars",
            x_title="strength",
            y_title="latents",
        )
        for data in dict.fromkeys(row["data"] for row in rows)
    ]


@dataclass(frozen=True)
class _Look:
    """Codes of one run, and the types of its latents."""

    codes: Representation
    types: tuple[str, ...]

    @classmethod
    def of(cls, codes: Representation) -> _Look:
        return cls(codes, types_of(codes))

    def table(self, representation: str) -> torch.Tensor:
        return self.codes.mean if representation == MEAN else self.codes.sample

    def of_type(self, representation: str, kind: str, number: str) -> float | None:
        """The mean over the latents of a type of a moment of each."""
        own = [place for place, one in enumerate(self.types) if one == kind]
        if not own:
            return None
        table = self.table(representation)[:, own].double()
        moments = table.mean(0) if number == "mean" else table.var(0)
        return float(moments.mean())


def _histograms(looks: list[_Look], data: str, beta: float, representation: str) -> Histograms:
    """The first latent of each type in the first seed that has one."""
    groups = {}
    for kind in VARIABLE_TYPES:
        look = next((look for look in looks if kind in look.types), None)
        if look is not None:
            place = look.types.index(kind)
            values = look.table(representation)[:, place].double().numpy()
            tally, edges = torch.histogram(torch.from_numpy(values), BINS)
            groups[f"{kind}, latent {place}"] = (edges.tolist(), tally.tolist())
    figure = "6.2" if representation == MEAN else "6.3"
    return Histograms(
        f"Figure {figure}: {representation} codes of a beta-VAE on {data}, beta = {beta}",
        f"One latent of each type: how its {representation} codes are spread over the items.",
        groups,
        "code",
    )


def _predicted(scale: Scale, codes: Representation) -> Downstream:
    train, test = scale.pick((600, 400), (10_000, 5_000))
    return downstream(codes, types_of(codes), train_items=train, test_items=test)


STUDIES: tuple[Study, ...] = (
    Study(
        "bonheme-figure6.2-6.3",
        f"{THESIS}, figures 6.2 and 6.3",
        "What do passive, mixed and active latents look like in the mean and in the sampled codes of a beta-VAE?",
        "Published are histograms and a sentence, of the 2nd, 4th and 10th latent of one model with beta = 8; we show "
        "the first latent of each type in the first seed that has one, and give moments over all latents of a type "
        f"and 5 seeds. Quick has beta = 4. {QUICK_DATA}",
        histograms,
    ),
    Study(
        "bonheme-figure6.4",
        f"{THESIS}, figure 6.4",
        "Do the types of latents predict what they should, in the mean and in the sampled codes?",
        "Published are bars alone. The thesis has pre-trained models of 50 seeds, and chooses the penalty of the "
        "logistic regression among ten strengths in five folds; we train the models, and have one strength (C = 1) on "
        "standardised latents, which takes a fiftieth of the fits. Bars are means over the factors that vary; whether "
        f"the colour, which never does, is among the thesis' is not said. {QUICK_DATA}",
        accuracies,
    ),
    Study(
        "bonheme-figure6.5",
        f"{THESIS}, figure 6.5",
        "How many latents are passive, mixed and active as the regularisation grows?",
        "Published are bars and one sentence, for six data sets of which ours is dSprites. The thesis counts the "
        "beta-VAE, beta-TC, FactorVAE, DIP-VAE II and the annealed VAE, which is in appendix B here, and leaves out "
        "DIP-VAE I, which we have beside them; 50 seeds each unless fewer are asked for. Strengths are those of "
        f"Locatello et al. {QUICK_DATA}",
        counts,
    ),
)
