"""Lines, points and bars of a study by matplotlib, with the published values as hollow marks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING, Any

from vaescope.reporting import downsample, paper, style
from vaescope.studies.charts import Lines
from vaescope.studies.pages.figure_layout import Sheet, laid_out, set_grid, set_scale
from vaescope.studies.pages.groups import Row, axis_titles, can_be_drawn, group_name, grouped

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLACK, WHITE = style.BLACK, "#FFFFFF"
# All of Okabe and Ito's palette that stands out from white paper, the darker colours first.
COLOURS = (*style.CYCLE, "#E69F00", "#56B4E9")
DASHES: tuple[Any, ...] = ("-", (0, (5, 2)), (0, (1, 1.5)), (0, (5, 2, 1, 2)), (0, (9, 2)), (0, (9, 2, 1, 2, 1, 2)))
HATCHES = ("", "///", "---", "xxx", "\\\\\\", "|||", "++")  # those with dots make large files
PUBLISHED = "published"
MAX_MARKED = 40  # points of a line above which only some have marks
MARKS_OF_DENSE_LINE = 6
MAX_DENSE_LINES = 5  # in one panel; more have a panel each
BARS_WIDTH = 0.8  # of the place of a category
BAR_INCHES = 1.1  # at most, with the space around it
ASIDE = 0.22  # of the width of a bar: how far ours and the published deviation stand from its middle
SHIFT = 0.012  # of the width of a panel: how far a published mark stands to the right of our point
MAX_SHARED_RATIO = 4.0  # of the ranges of panels up to which they share the y axis
MEASURES = ("measure", "of")  # columns whose values have units of their own


@dataclass(frozen=True)
class Look:
    """How one group is drawn; groups differ by more than their colour."""

    name: str
    colour: str
    marker: str
    dash: Any
    hatch: str


def draw_lines(chart: Lines, published: Sequence[Row] = ()) -> Figure:
    """The figure of a chart that has rows to draw."""
    rows = [row for row in chart.rows if can_be_drawn(row, chart)]
    split = _are_too_many(chart, rows)
    chart = replace(chart, panel=chart.by, by=None) if split else chart
    theirs = [row for row in published if can_be_drawn(row, chart)]
    looks = _looks(chart, rows)
    marks = list(dict.fromkeys(str(mark["mark"]) for mark in chart.marks))
    names = [look.name for look in looks.values()] if len(looks) > 1 else []
    names += marks + ([PUBLISHED] if theirs else [])
    panels = grouped(rows, chart.panel)
    is_category = chart.kind == "bars" or not all(downsample.is_finite(row[chart.x]) for row in rows)
    others = grouped(theirs, chart.panel)
    sheet = Sheet(
        [group_name(chart.panel, value) if chart.panel else "" for value in panels],
        _with_ours(names, looks),
        categories=[_categories(chart, [*own, *others.get(panel, [])]) for panel, own in panels.items()]
        if is_category
        else (),
        breadth=BAR_INCHES * len(looks),
    )
    for axes, (panel, own) in zip(sheet.panels, panels.items(), strict=True):
        their_own = others.get(panel, [])
        drawn = _Panel(chart, sheet, axes, looks, own, their_own, is_category, bool(theirs))
        for group, members in grouped(own, chart.by).items():
            drawn.ours(group, members)
        for group, members in grouped(their_own, chart.by).items():
            drawn.theirs(group, members)
        for mark in grouped(chart.marks, chart.panel).get(panel, []):
            look = looks.get(mark.get(chart.by)) if chart.by and len(looks) > 1 else None
            axes.axvline(mark[chart.x], color=look.colour if look else BLACK, **_mark_line(str(mark["mark"]), marks))
        drawn.finish()
    _share_heights(chart, sheet, inf if split else MAX_SHARED_RATIO)
    x_title, y_title = axis_titles(chart)
    sheet.name_axes(x_title, "" if y_title == "value" else y_title)
    sheet.legend(_legend(chart, looks, marks, bool(theirs)))
    return laid_out(sheet.figure, sheet.rows)


class _Panel:
    """One panel: our groups, the published values, and the axes."""

    def __init__(
        self,
        chart: Lines,
        sheet: Sheet,
        axes: Axes,
        looks: dict[Any, Look],
        rows: Sequence[Row],
        published: Sequence[Row],
        is_category: bool,
        compared: bool,
    ) -> None:
        self.chart, self.sheet, self.axes, self.looks, self.rows = chart, sheet, axes, looks, rows
        self.is_category = is_category
        self.names = _categories(chart, [*rows, *published]) if is_category else []
        self.groups = [group for group in looks if group in grouped(rows, chart.by)]
        self.bar = BARS_WIDTH / len(self.groups)
        self.aside = ASIDE * self.bar if compared else 0.0
        places = [] if is_category else [float(row[chart.x]) for row in rows]
        self.ends = (min(places), max(places)) if places else (0.0, 1.0)

    def ours(self, group: Any, rows: Sequence[Row]) -> None:
        """The bars, the line or the points of one group."""
        look, chart = self.looks[group], self.chart
        if chart.kind == "bars":
            heights, places = [row[chart.y] for row in rows], self._bar_places(group, rows)
            bars = self.axes.bar(places, heights, self.bar, color=look.colour, edgecolor=WHITE, linewidth=0.5)
            for bar in bars:
                bar.set_hatch(look.hatch)
            places = [place - self.aside for place in places]
            self.axes.errorbar(places, heights, self._spread(rows), fmt="none", ecolor=BLACK, elinewidth=1, capsize=2)
            return
        rows = [rows[place] for place in downsample.downsample([row[chart.y] for row in rows])]
        dense = len(rows) > MAX_MARKED
        self.axes.errorbar(
            [self._place(row) for row in rows],
            [row[chart.y] for row in rows],
            self._spread(rows),
            color=look.colour,
            linestyle="" if chart.kind == "points" else look.dash,
            linewidth=1 if dense else 1.4,
            # A single line needs no marks that set it apart from others.
            marker="" if dense and chart.kind == "lines" and len(self.looks) == 1 else look.marker,
            markersize=3.5 if dense else 5,
            markevery=len(rows) // MARKS_OF_DENSE_LINE if dense and chart.kind == "lines" else None,
            elinewidth=1,
            capsize=2,
        )

    def theirs(self, group: Any, rows: Sequence[Row]) -> None:
        """The published values as hollow marks, a little to the right of ours."""
        bars = self.chart.kind == "bars"
        places = (
            [place + self.aside for place in self._bar_places(group, rows)]
            if bars
            else [self._shifted(self._place(row)) for row in rows]
        )
        colour = BLACK if bars or len(self.looks) == 1 else self.looks[group].colour
        line = "" if bars or self.chart.kind == "points" or len(rows) == 1 else ":"
        heights = [row[self.chart.y] for row in rows]
        spread = self._spread(rows)
        # A mark at 0 lies on the axis, and is not cut there.
        self.axes.errorbar(places, heights, spread, color=colour, linestyle=line, linewidth=1, clip_on=False, **HOLLOW)

    def finish(self) -> None:
        """Ticks and scales of both axes."""
        chart, axes = self.chart, self.axes
        if self.is_category:
            self.sheet.name_categories(axes, self.names)
            axes.set_xlim(-0.6, len(self.names) - 0.4)
        else:
            values = [float(row[chart.x]) for row in self.rows] if chart.kind == "lines" else []
            set_scale(axes, "x", chart.log_x, values, self.sheet.panel_width)
        set_scale(axes, "y", chart.log_y)
        set_grid(axes)
        if chart.kind == "bars" and not chart.log_y:
            # Deviations of counts may reach below 0, the counts do not.
            heights = [row[chart.y] for row in self.rows]
            axes.set_ylim(min(0.0, *heights), None if any(heights) else 1.0)
            if not any(heights):
                axes.text(0.5, 0.5, "every value is 0", ha="center", va="center", transform=axes.transAxes)

    def _place(self, row: Row) -> float:
        value = row[self.chart.x]
        return float(self.names.index(_text(value))) if self.is_category else float(value)

    def _bar_places(self, group: Any, rows: Sequence[Row]) -> list[float]:
        offset = (self.groups.index(group) - (len(self.groups) - 1) / 2) * self.bar
        return [self._place(row) + offset for row in rows]

    def _shifted(self, place: float) -> float:
        low, high = self.ends
        if self.is_category:
            return place + 0.08
        return place * (high / low) ** SHIFT if self.chart.log_x else place + SHIFT * (high - low)

    def _spread(self, rows: Sequence[Row]) -> list[float] | None:
        """The standard deviations; on a logarithmic axis those that reach below 0 are left out."""
        if not self.chart.sd:
            return None
        spread = [row.get(self.chart.sd) for row in rows]
        known = [float(one) if downsample.is_finite(one) else float("nan") for one in spread]
        return None if all(one != one for one in known) else known


HOLLOW: dict[str, Any] = {
    "marker": "o",
    "markersize": 6.5,
    "markerfacecolor": WHITE,
    "markeredgewidth": 1.3,
    "elinewidth": 1,
    "capsize": 2,
    "zorder": 5,
}


def _are_too_many(chart: Lines, rows: Sequence[Row]) -> bool:
    """Whether lines hide each other in one panel, so that each gets its own."""
    groups = grouped(rows, chart.by)
    return chart.panel is None and len(groups) > MAX_DENSE_LINES and min(map(len, groups.values())) > MAX_MARKED


def _looks(chart: Lines, rows: Sequence[Row]) -> dict[Any, Look]:
    """The look of each group, the same in all panels; types of latents look as in reports."""
    looks: dict[Any, Look] = {}
    groups = grouped(rows, chart.by)
    are_types = set(groups) <= set(style.TYPE_STYLES)
    for number, group in enumerate(groups):
        look = Look(
            group_name(chart.by, group),
            COLOURS[number % len(COLOURS)],
            paper.MARKERS[style.SYMBOLS[(number + number // len(COLOURS)) % len(style.SYMBOLS)]],
            DASHES[number % len(DASHES)],
            HATCHES[number % len(HATCHES)],
        )
        looks[group] = replace(look, colour=style.TYPE_STYLES[group].colour) if are_types else look
    return looks


def _with_ours(names: list[str], looks: dict[Any, Look]) -> list[str]:
    """The names of the legend: what stands alone is named only next to published values."""
    return ["ours", *names] if names and len(looks) == 1 else names


def _legend(chart: Lines, looks: dict[Any, Look], marks: Sequence[str], compared: bool) -> list[Any]:
    """An entry for each group, each kind of upright line, and the published values."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if len(looks) == 1 and not marks and not compared:
        return []
    entries: list[Any] = []
    for look in looks.values():
        name = look.name if len(looks) > 1 else "ours"
        if chart.kind == "bars":
            entries.append(Patch(facecolor=look.colour, edgecolor=WHITE, hatch=look.hatch, label=name))
        else:
            line: Any = "" if chart.kind == "points" else look.dash
            entries.append(
                Line2D([], [], color=look.colour, linestyle=line, marker=look.marker, markersize=5, label=name)
            )
    entries += [Line2D([], [], color=BLACK, **_mark_line(mark, marks), label=mark) for mark in marks]
    if compared:
        own = {name: HOLLOW[name] for name in ("marker", "markersize", "markerfacecolor", "markeredgewidth")}
        entries.append(Line2D([], [], color=BLACK, linestyle="", **own, label=PUBLISHED))
    return entries


def _mark_line(mark: str, marks: Sequence[str]) -> dict[str, Any]:
    """The dash of an upright line."""
    return {"linestyle": DASHES[1 + marks.index(mark) % (len(DASHES) - 1)], "linewidth": 1.2}


def _share_heights(chart: Lines, sheet: Sheet, max_ratio: float) -> None:
    """Give panels of similar ranges the same y axis, so that heights can be compared between them."""
    if chart.panel in (None, *MEASURES) or chart.log_y or len(sheet.panels) == 1:
        return
    limits = [axes.get_ylim() for axes in sheet.panels]
    spans = [high - low for low, high in limits]
    low, high = min(low for low, _ in limits), max(high for _, high in limits)
    if high - low <= max_ratio * min(spans):
        for axes in sheet.panels:
            axes.set_ylim(low, high)


def _categories(chart: Lines, rows: Sequence[Row]) -> list[str]:
    """The names of the places on the x axis of a panel."""
    return list(dict.fromkeys(_text(row[chart.x]) for row in rows))


def _text(value: Any) -> str:
    """The name of a category."""
    return f"{value:g}" if isinstance(value, float) else str(value)
