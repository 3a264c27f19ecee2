"""Types of latents: how they look, what they predict, how many there are (Bonheme, figures 6.2 to 6.5)."""

from __future__ import annotations

import torch

from vaescope.codes import Representation
from vaescope.data import Dataset
from vaescope.regime import FULL, MEAN, REPRESENTATIONS, VARIABLE_TYPES, downstream
from vaescope.runs import Run
from vaescope.studies.bonheme.settings import (
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
    asked_runs,
    codes_of,
    data_there,
    over,
    rows_of,
    types_of,
)
from vaescope.studies.charts import Histograms, Lines
from vaescope.studies.context import Measurement, StudyContext, Values
from vaescope.studies.measurements import histogram, regime
from vaescope.studies.results import JsonTable
from vaescope.studies.study import Cell, Findings, Study

FAMILIES = (BETA, BETA_TC, FACTOR, DIP_I, DIP_II)
GUESS = "uniform guess"
DOWNSTREAM_ITEMS = 15_000


def histograms(context: StudyContext) -> Findings:
    """Figures 6.2 and 6.3: a passive, a mixed and an active latent of one beta-VAE, in both representations."""
    # At quick scale all strengths train together for other figures.
    beta, only = context.pick((4, None), (8, [8]))
    asked = {
        name: context.measured(asked_runs(context, BETA, name, only, seeds=5)[beta], MOMENTS)
        for name in data_there(context, (DSPRITES,))
    }
    cells: list[Cell] = []
    charts: list[Histograms] = []
    for name, found in asked.items():
        for kind in VARIABLE_TYPES:
            for representation in REPRESENTATIONS:
                for number in ("mean", "variance"):
                    of = {"data": TITLES[name], "type": kind, "representation": representation, "measure": number}
                    values = [one[representation][kind] and one[representation][kind][number] for one in found]
                    cells.append(over(of, values, f"no latent was {kind}"))
        charts += [_histograms(found, TITLES[name], beta, representation) for representation in REPRESENTATIONS]
    return Findings(tuple(cells), tuple(charts))


def accuracies(context: StudyContext) -> Findings:
    """Figure 6.4: the average test accuracy of a logistic regression on each combination of types, against beta."""
    train, test = context.pick((600, 400), (10_000, 5_000))
    predicted = Measurement("downstream", _downstream, {"train_items": train, "test_items": test})
    asked = {
        (name, beta): context.measured(runs, predicted)
        for name in data_there(context, (DSPRITES,))
        for beta, runs in asked_runs(context, BETA, name).items()
    }
    cells: list[Cell] = []
    for (name, beta), found in asked.items():
        of = {"data": TITLES[name], "beta": beta}
        guess = {"representation": "none", "latents": GUESS}
        cells.append(over({**of, **guess}, [one["guess"] for one in found], ""))
        for representation in REPRESENTATIONS:
            groups = dict.fromkeys(group for one in found for group in one["combinations"])
            for group in sorted(groups, key=lambda name: (name != FULL, name)):
                values = [one[representation].get(group) for one in found]
                cells.append(over({**of, "representation": representation, "latents": group}, values, ""))
    charts = tuple(
        Lines(
            f"Figure 6.4: accuracy from the {representation} codes",
            "Mean test accuracy over what is predicted, by the types of the latents that it is predicted from.",
            [row for row in rows_of(cells) if row["representation"] in (representation, "none")],
            x="beta",
            y="value",
            by="latents",
            x_title="beta",
            y_title="accuracy",
        )
        for representation in REPRESENTATIONS
    )
    return Findings(tuple(cells), charts)


def counts(context: StudyContext) -> Findings:
    """Figure 6.5: how many latents are passive, mixed and active as the regularisation grows, by objective."""
    asked = [
        (family, name, asked_counts(context, family, name))
        for name in data_there(context, (DSPRITES,))
        for family in FAMILIES
    ]
    cells = [cell for family, name, found in asked for cell in count_cells(family, name, found)]
    return Findings(tuple(cells), tuple(count_charts("Figure 6.5", cells)))


def asked_counts(context: StudyContext, family: Family, data: str) -> dict[float, Values]:
    """The types of latents of every run, for each strength of one objective."""
    runs = asked_runs(context, family, data)
    return {strength: context.measured(own, regime()) for strength, own in runs.items()}


def count_cells(family: Family, data: str, found: dict[float, Values]) -> list[Cell]:
    """The mean number of latents of each type, for each strength of one objective."""
    cells = []
    for strength, values in found.items():
        of = {"data": TITLES[data], "objective": family.title, "strength": strength}
        cells += [over({**of, "type": kind}, [one[kind] for one in values], "") for kind in VARIABLE_TYPES]
    return cells


def count_charts(figure: str, cells: list[Cell]) -> list[Lines]:
    """One chart for each data set, with a panel for each objective."""
    rows = rows_of(cells)
    return [
        Lines(
            f"{figure}: types of latents on {data}",
            "Mean number of passive, mixed and active latents over seeds, for each strength of the objective.",
            [{**row, "strength": f"{row['strength']:g}"} for row in rows if row["data"] == data],
            x="strength",
            y="value",
            by="type",
            panel="objective",
            kind="bars",
            x_title="strength",
            y_title="latents",
        )
        for data in dict.fromkeys(row["data"] for row in rows)
    ]


def _moments(run: Run, data: Dataset, device: str) -> JsonTable:
    """By representation and type of latents: moments over all latents of the type, and a histogram of the first."""
    codes = codes_of(run, data, device)
    types = types_of(codes)
    found: JsonTable = {}
    for representation in REPRESENTATIONS:
        found[representation] = {}
        for kind in VARIABLE_TYPES:
            places = [place for place, one in enumerate(types) if one == kind]
            found[representation][kind] = None
            if places:
                table = _table(codes, representation)[:, places].double()
                found[representation][kind] = {
                    "mean": float(table.mean(0).mean()),
                    "variance": float(table.var(0).mean()),
                    "latent": places[0],
                    "histogram": histogram(table[:, 0]),
                }
    return found


MOMENTS = Measurement("moments-by-type", _moments)


def _table(codes: Representation, representation: str) -> torch.Tensor:
    return codes.mean if representation == MEAN else codes.sample


def _histograms(found: Values, data: str, beta: float, representation: str) -> Histograms:
    """The first latent of each type in the first seed that has one."""
    groups = {}
    for kind in VARIABLE_TYPES:
        one = next((one[representation][kind] for one in found if one[representation][kind]), None)
        if one is not None:
            groups[f"{kind}, latent {one['latent']}"] = (one["histogram"]["edges"], one["histogram"]["counts"])
    figure = "6.2" if representation == MEAN else "6.3"
    return Histograms(
        f"Figure {figure}: {representation} codes of a beta-VAE on {data}, beta = {beta}",
        f"One latent of each type: how its {representation} codes are spread over the items.",
        groups,
        "code",
    )


def _downstream(run: Run, data: Dataset, device: str, train_items: int, test_items: int) -> JsonTable:
    """The average accuracy for each representation and combination of types."""
    codes = codes_of(run, data, device, DOWNSTREAM_ITEMS)
    found = downstream(codes, types_of(codes), train_items=train_items, test_items=test_items)
    combinations = list(dict.fromkeys(entry.combination for entry in found.entries))
    averages = {
        representation: {group: found.average(representation, group) for group in combinations}
        for representation in REPRESENTATIONS
    }
    return {"guess": found.guess(), "combinations": combinations, **averages}


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
        "DIP-VAE I, which we add; 50 seeds each unless fewer are asked for. Strengths are those of "
        f"Locatello et al. {QUICK_DATA}",
        counts,
    ),
)
