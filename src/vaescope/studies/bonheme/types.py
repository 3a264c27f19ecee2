"""Types of latents and the dependence between them (Bonheme, figures 6.2 to 6.8), and the annealed VAE (appendix B)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vaescope.data import Dataset
from vaescope.regime import (
    ACTIVE,
    FULL,
    MEAN,
    MIXED,
    PASSIVE,
    REPRESENTATIONS,
    VARIABLE_TYPES,
    MeanAndSampled,
    downstream,
    mean_and_sampled,
)
from vaescope.runs import Run
from vaescope.studies.bonheme import chapter6_claims as claims
from vaescope.studies.bonheme import settings as thesis
from vaescope.studies.bonheme.settings import QUICK_DATA, THESIS, TITLES, Family, over, rows_of, types_of
from vaescope.studies.charts import Histograms, Lines
from vaescope.studies.context import Measurement, StudyContext, Values
from vaescope.studies.measurements import histogram, regime
from vaescope.studies.results import JsonTable
from vaescope.studies.study import Cell, Findings, Study

FAMILIES = (thesis.BETA, thesis.BETA_TC, thesis.FACTOR, thesis.DIP_I, thesis.DIP_II)
GUESS = "uniform guess"
DOWNSTREAM_ITEMS = 15_000
# What is left of the codes -> the types that are kept; None keeps all.
KEPT: dict[str, tuple[str, ...] | None] = {
    "all": None,
    "without passive": (ACTIVE, MIXED),
    "active": (ACTIVE,),
}
MEASURES = {
    "total correlation": "total_correlation",
    "mutual information": "averaged_mutual_information",
    "effective rank": "effective_rank",
}
PASSIVES = "passive latents"
# Data of the thesis' figures, and what was trained on them: 6.7 and more, 6.6c, 6.8, 6.6a, 6.6b.
PANELS: dict[str, tuple[Family, ...]] = {
    thesis.DSPRITES: (thesis.DIP_II, thesis.BETA_TC),
    thesis.COLOUR: (thesis.BETA_TC,),
    thesis.NOISY: (thesis.BETA_TC,),
    thesis.NORB: (thesis.BETA_TC,),
    thesis.CARS: (thesis.DIP_II,),
}


def histograms(context: StudyContext) -> Findings:
    """Figures 6.2 and 6.3: a passive, a mixed and an active latent of one beta-VAE, in both representations."""
    # At quick scale all strengths train together for other figures.
    beta, only = context.pick((4, None), (8, [8]))
    runs = {
        name: thesis.asked_runs(context, thesis.BETA, name, only, seeds=5)[beta]
        for name in thesis.data_there(context, (thesis.DSPRITES,))
    }
    cells: list[Cell] = []
    charts: list[Histograms] = []
    for name, found in context.measured_by(runs, MOMENTS).items():
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
    runs = {
        (name, beta): own
        for name in thesis.data_there(context, (thesis.DSPRITES,))
        for beta, own in thesis.asked_runs(context, thesis.BETA, name).items()
    }
    cells: list[Cell] = []
    for (name, beta), found in context.measured_by(runs, predicted).items():
        of = {"data": TITLES[name], "beta": beta}
        guess = {"representation": "none", "latents": GUESS}
        cells.append(over({**of, **guess}, [one["guess"] for one in found], ""))
        for representation in REPRESENTATIONS:
            groups = dict.fromkeys(group for one in found for group in one["combinations"])
            for group in sorted(groups, key=lambda name: (name != FULL, name)):
                values = [one[representation].get(group) for one in found]
                cells.append(over({**of, "representation": representation, "latents": group}, values, ""))
    sentence = "Mean test accuracy over what is predicted, by the types of the latents that it is predicted from."
    charts = []
    for representation in REPRESENTATIONS:
        title = f"Figure 6.4: accuracy from the {representation} codes"
        rows = [row for row in rows_of(cells) if row["representation"] in (representation, "none")]
        charts.append(Lines(title, sentence, rows, "beta", "value", "latents", x_title="beta", y_title="accuracy"))
    return Findings(tuple(cells), tuple(charts))


def counts(context: StudyContext) -> Findings:
    """Figure 6.5: how many latents are passive, mixed and active as the regularisation grows, by objective."""
    asked = [
        (family, name, context.measured_by(thesis.asked_runs(context, family, name), regime()))
        for name in thesis.data_there(context, (thesis.DSPRITES,))
        for family in FAMILIES
    ]
    cells = [cell for family, name, found in asked for cell in _count_cells(family, name, found)]
    return Findings(tuple(cells), tuple(_count_charts("Figure 6.5", cells)))


def _count_cells(family: Family, data: str, found: Mapping[float, Values]) -> list[Cell]:
    """The mean number of latents of each type, for each strength of one objective."""
    cells = []
    for strength, values in found.items():
        of = {"data": TITLES[data], "objective": family.title, "strength": strength}
        cells += [over({**of, "type": kind}, [one[kind] for one in values], "") for kind in VARIABLE_TYPES]
    return cells


def _count_charts(figure: str, cells: Sequence[Cell]) -> list[Lines]:
    """One chart for each data set, with a panel for each objective."""
    sentence = "Mean number of passive, mixed and active latents over seeds, for each strength of the objective."
    rows, x = rows_of(cells), "strength"
    charts = []
    for data in dict.fromkeys(row["data"] for row in rows):
        title = f"{figure}: types of latents on {data}"
        own = [{**row, x: f"{row[x]:g}"} for row in rows if row["data"] == data]
        charts.append(
            Lines(title, sentence, own, x, "value", "type", "objective", kind="bars", x_title=x, y_title="latents")
        )
    return charts


def _moments(run: Run, data: Dataset, device: str) -> JsonTable:
    """By representation and type of latents: moments over all latents of the type, and a histogram of the first."""
    codes = thesis.codes_of(run, data, device)
    types = types_of(codes)
    found: JsonTable = {}
    for representation in REPRESENTATIONS:
        found[representation] = {}
        for kind in VARIABLE_TYPES:
            places = [place for place, one in enumerate(types) if one == kind]
            found[representation][kind] = None
            if places:
                table = (codes.mean if representation == MEAN else codes.sample)[:, places].double()
                found[representation][kind] = {
                    "mean": float(table.mean(0).mean()),
                    "variance": float(table.var(0).mean()),
                    "latent": places[0],
                    "histogram": histogram(table[:, 0]),
                }
    return found


MOMENTS = Measurement("moments-by-type", _moments)


def _histograms(found: Values, data: str, beta: float, representation: str) -> Histograms:
    """The first latent of each type in the first seed that has one."""
    groups = {}
    for kind in VARIABLE_TYPES:
        one = next((one[representation][kind] for one in found if one[representation][kind]), None)
        if one is not None:
            groups[f"{kind}, latent {one['latent']}"] = (one["histogram"]["edges"], one["histogram"]["counts"])
    figure = "6.2" if representation == MEAN else "6.3"
    title = f"Figure {figure}: {representation} codes of a beta-VAE on {data}, beta = {beta}"
    sentence = f"One latent of each type: how its {representation} codes are spread over the items."
    return Histograms(title, sentence, groups, "code")


def _downstream(run: Run, data: Dataset, device: str, train_items: int, test_items: int) -> JsonTable:
    """The average accuracy for each representation and combination of types."""
    codes = thesis.codes_of(run, data, device, DOWNSTREAM_ITEMS)
    found = downstream(codes, types_of(codes), train_items=train_items, test_items=test_items)
    combinations = list(dict.fromkeys(entry.combination for entry in found.entries))
    averages = {
        representation: {group: found.average(representation, group) for group in combinations}
        for representation in REPRESENTATIONS
    }
    return {"guess": found.guess(), "combinations": combinations, **averages}


def dependence(context: StudyContext) -> Findings:
    """Figures 6.6 to 6.8: TC, MI and effective rank of all latents, without passive ones, and of active ones."""
    asked = [
        (family, name, context.measured_by(thesis.asked_runs(context, family, name), DEPENDENCE))
        for name in thesis.data_there(context, PANELS)
        for family in PANELS[thesis.DSPRITES if context.is_quick else name]
    ]
    cells = [cell for family, name, found in asked for cell in _dependence_cells(family, name, found)]
    return Findings(tuple(cells), tuple(_dependence_charts("Figures 6.6 to 6.8", cells)))


def annealed(context: StudyContext) -> Findings:
    """Figures B.1 to B.5: the annealed VAE has passive latents whatever its capacity, and they are correlated."""
    family, asked = thesis.ANNEALED, {}
    for name in thesis.data_there(context, (thesis.DSPRITES, thesis.SCREAM, thesis.CARS)):
        runs = thesis.asked_runs(context, family, name)
        asked[name] = context.measured_by(runs, regime()), context.measured_by(runs, DEPENDENCE)
    counted = [cell for name, (found, _) in asked.items() for cell in _count_cells(family, name, found)]
    cells = [cell for name, (_, found) in asked.items() for cell in _dependence_cells(family, name, found)]
    charts = (*_count_charts("Figure B.1", counted), *_dependence_charts("Figures B.2 to B.5", cells))
    kinds = [
        Cell({**_of(cell.of), "measure": f"{cell.of['type']} latents"}, cell.value, cell.sd, cell.count)
        for cell in counted
        if cell.of["type"] != PASSIVE
    ]
    return Findings((*cells, *kinds), charts)


def kept(found: MeanAndSampled, representation: str, types: tuple[str, ...] | None, measure: str) -> float | None:
    """A measure of the latents of some types; None where there are fewer than two of them."""
    present = FULL if types is None else "+".join(kind for kind in types if kind in found.types)
    return getattr(found.entry(representation, present), measure) if present else None


def _of(of: Mapping[str, object]) -> JsonTable:
    """Columns of a number that is of the latents, not of one representation of them."""
    named = {name: of[name] for name in ("data", "objective", "strength")}
    return {**named, "representation": "both", "latents": "all"}


def _dependence_cells(family: Family, data: str, found: Mapping[float, Values]) -> list[Cell]:
    cells: list[Cell] = []
    for strength, values in found.items():
        of = {"data": TITLES[data], "objective": family.title, "strength": strength}
        cells.append(over({**_of(of), "measure": PASSIVES}, [one["passive"] for one in values], ""))
        for representation in REPRESENTATIONS:
            for latents, types in KEPT.items():
                for title in MEASURES:
                    if title == "effective rank" and types is not None:
                        continue  # relative to the latents it is of: the thesis compares it for all of them alone
                    where = {**of, "representation": representation, "latents": latents, "measure": title}
                    own = [one[representation][latents][title] for one in values]
                    cells.append(over(where, own, "fewer than two such latents"))
    return cells


def _dependence(run: Run, data: Dataset, device: str) -> JsonTable:
    """The number of passive latents, and the measures by representation and by what is kept of the latents."""
    codes = thesis.codes_of(run, data, device)
    found = mean_and_sampled(codes, types_of(codes))
    measures: JsonTable = {
        representation: {
            latents: {title: kept(found, representation, types, measure) for title, measure in MEASURES.items()}
            for latents, types in KEPT.items()
        }
        for representation in REPRESENTATIONS
    }
    return {"passive": found.types.count(PASSIVE), **measures}


DEPENDENCE = Measurement("dependence", _dependence)


def _dependence_charts(figure: str, cells: Sequence[Cell]) -> list[Lines]:
    rows, x = rows_of(cells), "strength"
    charts = []
    for data, objective in dict.fromkeys((row["data"], row["objective"]) for row in rows):
        own = [row for row in rows if (row["data"], row["objective"]) == (data, objective)]
        for measure in MEASURES:
            title = f"{figure}: {measure}, {objective} on {data}"
            sentence = (
                f"The {measure} of the mean and the sampled codes: all latents, without passive ones, active ones."
            )
            measured = [row for row in own if row["measure"] == measure]
            by, panel = "representation", "latents"
            charts.append(Lines(title, sentence, measured, x, "value", by, panel, x_title=x, y_title=measure))
        title = f"{figure}: passive latents, {objective} on {data}"
        sentence = "How many latents are passive, on average over seeds."
        passive = [{**row, x: f"{row[x]:g}"} for row in own if row["measure"] == PASSIVES]
        charts.append(Lines(title, sentence, passive, x, "value", kind="bars", x_title=x, y_title=PASSIVES))
    return charts


STUDIES = (
    Study(
        "bonheme-figure6.2-6.3",
        f"{THESIS}, figures 6.2 and 6.3",
        "What do passive, mixed and active latents look like in the mean and in the sampled codes of a beta-VAE?",
        "Published are histograms and a sentence, of the 2nd, 4th and 10th latent of one model with beta = 8; we show "
        "the first latent of each type in the first seed that has one, and give moments over all latents of a type "
        "and 5 seeds. Quick has beta = 4.",
        histograms,
        claims=claims.FIGURE_6_2,
        shared=(QUICK_DATA,),
    ),
    Study(
        "bonheme-figure6.4",
        f"{THESIS}, figure 6.4",
        "Do the types of latents predict what they should, in the mean and in the sampled codes?",
        "Published are bars alone. The thesis has pre-trained models of 50 seeds, and chooses the penalty of the "
        "logistic regression among ten strengths in five folds; we train the models, and have one strength (C = 1) on "
        "standardised latents, which takes a fiftieth of the fits. Bars are means over the factors that vary; whether "
        "the colour, which never does, is among the thesis' is not said.",
        accuracies,
        claims=claims.FIGURE_6_4,
        shared=(QUICK_DATA,),
    ),
    Study(
        "bonheme-figure6.5",
        f"{THESIS}, figure 6.5",
        "How many latents are passive, mixed and active as the regularisation grows?",
        "Published are bars and one sentence, for six data sets of which ours is dSprites. The thesis counts the "
        "beta-VAE, beta-TC, FactorVAE, DIP-VAE II and the annealed VAE, which is in appendix B here, and leaves out "
        "DIP-VAE I, which we add; 50 seeds each unless fewer are asked for. Strengths are those of "
        "Locatello et al.",
        counts,
        claims=claims.FIGURE_6_5,
        shared=(QUICK_DATA,),
    ),
    Study(
        "bonheme-figure6.6-6.8",
        f"{THESIS}, figures 6.6 to 6.8",
        "Are mean codes more dependent than sampled ones because of their passive latents?",
        "Published are lines alone. dSprites has both objectives and all measures here, the other data what the "
        "thesis shows of them (6.6a beta-TC on SmallNORB, 6.6b DIP-VAE II on Cars3D, 6.6c beta-TC on colour dSprites, "
        "6.7 DIP-VAE II on dSprites, 6.8 beta-TC on noisy dSprites). The effective rank is that of the centred codes; "
        "the text defines it of any matrix, and the thesis' code took it of their covariance. Seeds in which fewer "
        "than two latents are left are not in the mean.",
        dependence,
        claims=claims.FIGURE_6_6,
        shared=(QUICK_DATA,),
    ),
    Study(
        "bonheme-appendixB",
        f"{THESIS}, appendix B.1, figures B.1 to B.5",
        "Why does the annealed VAE have passive latents whatever its capacity?",
        "Published are bars and lines, and for Cars3D two numbers in the text. Scream dSprites need a picture to cut "
        "patches from, which a study cannot be given. At quick scale the capacity is reached after a third of the "
        "steps, as in the thesis.",
        annealed,
        claims=claims.APPENDIX_B,
        shared=(QUICK_DATA,),
    ),
)
