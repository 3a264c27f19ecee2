"""Figures of studies as files: one for each chart, drawn by matplotlib from the JSON that a study writes.

A figure drawn twice has the same bytes. The published values stand in the same chart as ours, as hollow marks.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from vaescope.errors import ConfigurationError
from vaescope.files import open_output
from vaescope.reporting import paper
from vaescope.studies import STUDIES
from vaescope.studies.charts import Chart, Histograms, Lines, Matrix, Pictures, chart_of
from vaescope.studies.pages.figure_areas import draw_histograms, draw_matrix, draw_pictures, with_grey_images
from vaescope.studies.pages.figure_layout import STYLE, empty_figure
from vaescope.studies.pages.figure_lines import draw_lines
from vaescope.studies.pages.groups import Row, axis_titles, can_be_drawn, full_sentence, group_name, grouped
from vaescope.studies.pages.published_marks import published_points
from vaescope.studies.results import JsonTable
from vaescope.studies.settings import PAPER

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KINDS = ("svg", "pdf", "png")
MAX_NAMED = 6  # groups or rows that an alternative text names


def figures(plain: JsonTable, kind: str = "svg", stem: str | None = None) -> dict[str, bytes]:
    """Name of the file -> its content, for every chart of a study.

    Args:
        plain: The JSON of the study.
        kind: svg, pdf or png.
        stem: How the names of the files begin; default: the name of the study.
    """
    check_kind(kind)
    names = figure_names(plain, kind, stem)
    made = {}
    with paper.paper_style(**STYLE):
        for name, table in zip(names, plain["charts"], strict=True):
            chart = chart_of(table)
            content = paper.drawn_bytes(draw(chart, published_of(chart, plain)), kind, chart.title)
            made[name] = with_grey_images(content) if kind == "svg" else content
    return made


def write_figures(plain: JsonTable, folder: str | Path, kind: str = "svg", stem: str | None = None) -> list[Path]:
    """Write the figures of a study into a folder that exists; the arguments are those of `figures`."""
    written = []
    for name, content in figures(plain, kind, stem).items():
        written.append(Path(folder) / name)
        with open_output(written[-1]) as file:
            file.write(content)
    return written


def figure_names(plain: JsonTable, kind: str = "svg", stem: str | None = None) -> list[str]:
    """The names of the files, one for each chart: some-table1-1.svg."""
    return [f"{stem or plain['study']}-{number}.{kind}" for number, _ in enumerate(plain["charts"], 1)]


def check_kind(kind: str) -> None:
    """Raise an error if figures cannot be written as files of this kind."""
    if kind not in KINDS:
        raise ConfigurationError(f"figures must be {', '.join(KINDS[:-1])} or {KINDS[-1]}; got {kind!r}.")
    if not can_draw():
        raise ConfigurationError(paper.NO_MATPLOTLIB)


def can_draw() -> bool:
    """Whether matplotlib is there."""
    return find_spec("matplotlib") is not None


def draw(chart: Chart, published: Sequence[Row] = ()) -> Figure:
    """One chart as a figure of matplotlib, in the style that is set."""
    if isinstance(chart, Lines) and any(can_be_drawn(row, chart) for row in chart.rows):
        return draw_lines(chart, published)
    if isinstance(chart, Matrix) and chart.rows and chart.columns:
        return draw_matrix(chart)
    if isinstance(chart, Histograms) and chart.groups:
        return draw_histograms(chart)
    if isinstance(chart, Pictures) and chart.strips:
        return draw_pictures(chart)
    return empty_figure()


def published_of(chart: Chart, plain: JsonTable) -> list[JsonTable]:
    """The published values in a chart; none if ours are of other settings, which cannot be compared with them."""
    study = STUDIES.get(plain["study"])
    comparable = plain["scale"] == PAPER or (study is not None and study.exact)
    return published_points(chart, plain["rows"]) if comparable and isinstance(chart, Lines) else []


def sentence_of(chart: Chart) -> str:
    """The sentence of a chart, and how many values it leaves out."""
    return full_sentence(chart) if isinstance(chart, Lines) else chart.sentence


def alt_text(chart: Chart, published: Sequence[Row] = ()) -> str:
    """What a figure shows, for readers who cannot see it."""
    if isinstance(chart, Matrix):
        shape = f"{len(chart.rows)} by {len(chart.columns)} cells"
        known = [value for value in chart.matrix.flat if value == value]
        return f"{chart.title}: {shape} of {chart.of}" + (f", {min(known):.2g} to {max(known):.2g}" if known else "")
    if isinstance(chart, Histograms):
        return f"{chart.title}: histograms of {_listed(list(chart.groups))}"
    if isinstance(chart, Pictures):
        return f"{chart.title}: rows of pictures, {_listed([caption for caption, _ in chart.strips])}"
    x_title, y_title = axis_titles(chart)
    groups = [group_name(chart.by, value) for value in grouped(chart.rows, chart.by)] if chart.by else []
    panels = [group_name(chart.panel, value) for value in grouped(chart.rows, chart.panel)] if chart.panel else []
    parts = [f"{chart.title}: {chart.kind} of {y_title} against {x_title}"]
    parts += [f"for {_listed(groups)}"] if groups else []
    parts += [f"in panels for {_listed(panels)}"] if len(panels) > 1 else []
    parts += ["with the published values as hollow marks"] if published else []
    return ", ".join(parts)


def _listed(names: Sequence[str]) -> str:
    """The names, or the first of many."""
    more = len(names) - MAX_NAMED
    return ", ".join(names[:MAX_NAMED]) + (f" and {more} more" if more > 0 else "")
