"""Collapse of VAE and VGON as beta grows (Clapham and Grzes, figures 3 to 5)."""

from __future__ import annotations

from collections.abc import Mapping

from vaescope.regime import VARIABLE_TYPES, point_of_total_collapse
from vaescope.studies.charts import Chart, Lines
from vaescope.studies.clapham.runs import LEFT_OPEN, PAPER, TITLES, Task, asked_runs, types_and_rate
from vaescope.studies.context import StudyContext, Values
from vaescope.studies.study import Cell, Findings, Study

# Model -> beta -> types and rate of every seed.
ByModel = dict[str, dict[float, Values]]


def _divergence(context: StudyContext) -> Findings:
    """Figure 3: the mean divergence of the posterior from the prior, in nats, against beta."""
    cells: list[Cell] = []
    for task, found in _asked(context):
        for model, by_beta in found.items():
            for beta, values in by_beta.items():
                of = {"data": task.title, "model": TITLES[model], "beta": beta, "measure": "KLD"}
                cells.append(Cell.over(of, [one["rate"] for one in values]))
    rows = [{**cell.of, "KLD": cell.value, "sd": cell.sd} for cell in cells]
    chart = Lines(
        "KLD against beta",
        "Source: the divergence from the prior, in nats, falls as beta grows, in VAE and VGON.",
        rows,
        x="beta",
        y="KLD",
        by="model",
        panel="data",
        y_title="KLD, nats",
    )
    return Findings(tuple(cells), (chart,))


def _types(context: StudyContext) -> Findings:
    """Figures 4 (VGON) and 5 (VAE): how many latents are active, mixed and passive, against beta."""
    cells: list[Cell] = []
    charts: list[Chart] = []
    for task, found in _asked(context):
        rows, ends = [], []
        for model, by_beta in found.items():
            ends.append(f"{TITLES[model]}: {_end(task, by_beta)}")
            for beta, values in by_beta.items():
                for kind in VARIABLE_TYPES:
                    of = {"data": task.title, "model": TITLES[model], "beta": beta, "type": kind}
                    cells.append(Cell.over(of, [one[kind] for one in values]))
                    rows.append({**of, "beta": f"{beta:g}", "latents": cells[-1].value, "sd": cells[-1].sd})
        charts.append(
            Lines(
                f"Types of latents against beta, {task.title}",
                f"Of {task.latents} latents, how many are active, mixed and passive. {'; '.join(ends)}.",
                rows,
                x="beta",
                y="latents",
                by="type",
                panel="model",
                kind="bars",
            )
        )
    return Findings(tuple(cells), tuple(charts))


def _asked(context: StudyContext) -> list[tuple[Task, ByModel]]:
    """Types and rate of every run."""
    wanted = types_and_rate(context)
    return [
        (
            task,
            {
                model: {beta: context.measured(own, wanted) for beta, own in by_beta.items()}
                for model, by_beta in runs.items()
            },
        )
        for task, runs in asked_runs(context)
    ]


def _end(task: Task, found: Mapping[float, Values]) -> str:
    """Where total collapse begins (section IV.D)."""
    pairs = [(beta, int(one["passive"])) for beta, values in found.items() for one in values]
    betas, passive = zip(*pairs, strict=True)
    return point_of_total_collapse(betas, passive, task.latents).summary()


STUDIES: tuple[Study, ...] = (
    Study(
        "clapham-figure3",
        f"{PAPER}, Figure 3",
        "Does the divergence of a VGON's posterior from its prior fall with beta as a VAE's does?",
        f"{LEFT_OPEN} The figure is a picture without numbers, and does not say over which items the divergence is; "
        "here it is over items trained on.",
        _divergence,
    ),
    Study(
        "clapham-figure4-5",
        f"{PAPER}, Figures 4 and 5",
        "Do a VGON's latents go from active to passive with beta as a VAE's do?",
        f"{LEFT_OPEN} The figures are pictures without numbers. Types are by the rule of Bonheme's thesis: a mean "
        "variance within 0.1 of 0 or of 1, itself of a variance below 0.1.",
        _types,
    ),
)
