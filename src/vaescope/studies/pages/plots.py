"""Figures of studies drawn from their descriptions: lines, points and bars, matrices, histograms, pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from vaescope.markup import Markup, element
from vaescope.reporting import Plot, downsample, heatmaps, pictures, style
from vaescope.studies.charts import Chart, Histograms, Lines, Matrix, Pictures
from vaescope.studies.pages.groups import Row, axis_titles, can_be_drawn, full_sentence, group_name, grouped
from vaescope.studies.results import JsonTable

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

PANEL, HEIGHT, GAP, AROUND, ENTRY = 200, 340, 60, 100, 22  # pixels; of a panel, of one alone, between, around, a name
MAX_SINGLE_COLUMN = 6  # panels; more are in two columns
IN_A_ROW = 16  # letters of names that a row of the legend has room for on a telephone
WIDE, NARROW = 34, 18  # letters above a panel, alone and next to another
MAX_LARGE_MARKS = 40  # points above which their marks are small
MANY_TICKS = 8
BLACK = "#000000"
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
PATTERNS = ("", "/", ".", "x", "\\", "-", "|", "+")


def chart_plot(chart: Lines | Matrix | Histograms) -> Plot:
    """The figure of a description, with its numbers."""
    if isinstance(chart, Matrix):
        return _matrix(chart)
    return _histograms(chart) if isinstance(chart, Histograms) else _lines(chart)


def chart_section(chart: Pictures) -> Markup:
    """Rows of items, each under its caption; a row that is too wide scrolls by itself, by keyboard too."""
    rows = []
    for caption, items in chart.strips:
        shape = tuple(items.shape[1:])
        shown = pictures.strip(items, (1, *shape) if len(shape) == 2 else shape, f"{chart.title}: {caption}")
        box = element("div", shown, class_="scroll", tabindex=0, role="region", aria_label=caption)
        rows.append(element("div", element("p", caption, class_="quiet"), box))
    return element(
        "figure", element("h3", chart.title), element("figcaption", chart.sentence), *rows, class_="plot strips"
    )


def plots_and_pictures(charts: Sequence[Chart]) -> tuple[list[Plot], list[Markup]]:
    """All that is drawn, each kind in its order."""
    plots = [chart_plot(chart) for chart in charts if not isinstance(chart, Pictures)]
    return plots, [chart_section(chart) for chart in charts if isinstance(chart, Pictures)]


def _lines(chart: Lines) -> Plot:
    rows = [row for row in chart.rows if can_be_drawn(row, chart)]
    sentence = full_sentence(chart)
    if not rows:
        return Plot(chart.title, sentence, _empty_figure(), list(map(dict, chart.rows)))
    panels = grouped(rows, chart.panel)
    # Every group keeps its style, also where a panel lacks it.
    groups = list(grouped(rows, chart.by))
    names = [group_name(chart.by, group) for group in groups]
    colours = {group: style.CYCLE[number % len(style.CYCLE)] for number, group in enumerate(groups)}
    marks = [str(mark) for mark in grouped(chart.marks, "mark")]
    titles = [group_name(chart.panel, value) for value in panels] if chart.panel else [""]
    drawn = _Panels(titles, [*names, *marks])
    figure = drawn.figure
    is_category = not all(downsample.is_finite(row[chart.x]) for row in rows)
    for place, (panel, own) in enumerate(panels.items()):
        where = drawn.where(place)
        for group, members in grouped(own, chart.by).items():
            number = groups.index(group)
            trace = _trace(chart, members, is_category, number, len(groups))
            first = not any(one.legendgroup == str(number) for one in figure.data)
            trace.update(name=names[number], legendgroup=str(number), showlegend=first)
            figure.add_trace(trace, **where)
        for mark in grouped(chart.marks, chart.panel).get(panel, []):
            colour = colours.get(mark.get(chart.by) if chart.by else None, BLACK)
            first = not any(one.legendgroup == mark["mark"] for one in figure.layout.shapes)
            figure.add_vline(mark[chart.x], **_upright(mark["mark"], colour, marks, first), **where)
        figure.update_xaxes(**_axis([row[chart.x] for row in own], is_category, chart.log_x, chosen=True), **where)
        figure.update_yaxes(**_axis([row[chart.y] for row in own], False, chart.log_y, chosen=False), nticks=6, **where)
    drawn.name_axes(*axis_titles(chart))
    return Plot(chart.title, sentence, figure, list(map(dict, chart.rows)))


def _trace(chart: Lines, rows: list[Row], is_category: bool, number: int, groups: int) -> Any:
    """The line, points or bars of one group, which differs from others by more than its colour."""
    from plotly.graph_objects import Bar, Scatter

    if chart.kind != "bars":
        rows = [rows[place] for place in downsample.downsample([row[chart.y] for row in rows])]
    colour, symbol = style.CYCLE[number % len(style.CYCLE)], style.SYMBOLS[number % len(style.SYMBOLS)]
    spread: list[Any] = [row.get(chart.sd) if chart.sd else None for row in rows]
    bars = [style.round_value(value) if downsample.is_finite(value) else None for value in spread]
    has_spread = any(value is not None for value in bars)
    # On bars of their own colour they would be lost.
    bar_colour = BLACK if chart.kind == "bars" else colour
    error_bars = {"type": "data", "array": bars, "width": 4, "thickness": 1.5, "color": bar_colour}
    common: JsonTable = {
        "x": [str(row[chart.x]) if is_category else style.round_value(row[chart.x]) for row in rows],
        "y": [style.round_value(row[chart.y]) for row in rows],
        "error_y": error_bars if has_spread else None,
        "hovertemplate": _hover(chart, has_spread, groups > 1),
    }
    if chart.kind == "bars":
        pattern = {"shape": PATTERNS[number % len(PATTERNS)], "fgcolor": colour, "bgcolor": "#ffffff", "size": 7}
        return Bar(**common, marker={"color": colour, "line": {"color": colour, "width": 1}, "pattern": pattern})
    return Scatter(
        **common,
        mode="markers" if chart.kind == "points" else "lines+markers",
        line={"color": colour, "width": 2, "dash": DASHES[number % len(DASHES)]},
        marker={"color": colour, "symbol": symbol, "size": 6 if len(rows) > MAX_LARGE_MARKS else 9},
    )


def _upright(mark: str, colour: str, marks: Sequence[str], first: bool) -> JsonTable:
    """The style of a mark: the colour of its group, a dash of its own, and its name once in the legend."""
    line = {"color": colour, "width": 2, "dash": DASHES[1 + marks.index(mark) % (len(DASHES) - 1)]}
    return {"line": line, "name": mark, "legendgroup": mark, "showlegend": first}


def _hover(chart: Lines, has_spread: bool, has_groups: bool) -> str:
    spread = " ± %{error_y.array:.3g}" if has_spread else ""
    group = "%{fullData.name}<br>" if has_groups else ""
    x_words, y_words = axis_titles(chart)
    return f"{group}{x_words} %{{x}}<br>{y_words} %{{y:.4g}}{spread}<extra></extra>"


def _matrix(chart: Matrix) -> Plot:
    matrix = np.asarray(chart.matrix, dtype=np.float64)
    cells = [
        {"row": row, "column": column, chart.of: float(value)}
        for row, values in zip(chart.rows, matrix, strict=True)
        for column, value in zip(chart.columns, values, strict=True)
    ]
    rows, columns = list(map(str, chart.rows)), list(map(str, chart.columns))
    of_rows, of_columns = chart.axes or ("", "")
    options: JsonTable = {"of": chart.of, "largest": chart.largest, "axes": (of_columns, of_rows)}
    figure = heatmaps.heatmap(matrix, rows, columns, **options) if cells else _empty_figure()
    return Plot(chart.title, chart.sentence, figure, cells)


def _histograms(chart: Histograms) -> Plot:
    from plotly.graph_objects import Bar

    bins = [
        {"group": name, "from": float(low), "to": float(high), "count": float(count)}
        for name, (edges, counts) in chart.groups.items()
        for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True)
    ]
    if not bins:
        return Plot(chart.title, chart.sentence, _empty_figure(), [])
    drawn = _Panels(list(chart.groups), [""])
    figure = drawn.figure
    for place, (edges, counts) in enumerate(chart.groups.values()):
        low, high = np.asarray(edges[:-1], dtype=np.float64), np.asarray(edges[1:], dtype=np.float64)
        bars = Bar(
            x=[style.round_value(value) for value in (low + high) / 2],
            y=[style.round_value(float(count)) for count in counts],
            width=[style.round_value(value) for value in high - low],
            customdata=[[f"{one:.4g} to {other:.4g}"] for one, other in zip(low, high, strict=True)],
            marker={"color": style.CYCLE[0], "line": {"color": "#ffffff", "width": 0.5}},
            hovertemplate="%{customdata[0]}: %{y:.4g}<extra></extra>",
        )
        figure.add_trace(bars, **drawn.where(place))
    figure.update_yaxes(nticks=4, rangemode="tozero")
    figure.update_xaxes(nticks=6)
    drawn.name_axes(chart.x_title, "count")
    return Plot(chart.title, chart.sentence, figure, bins)


class _Panels:
    """Panels below each other, many of them in two columns, with room for the names of the legend on a telephone."""

    def __init__(self, titles: Sequence[str], names: Sequence[str]) -> None:
        from plotly.subplots import make_subplots

        self.count, self.columns = len(titles), 2 if len(titles) > MAX_SINGLE_COLUMN else 1
        lines = -(-self.count // self.columns)
        inner = HEIGHT if self.count == 1 else lines * PANEL + (lines - 1) * GAP
        above = 0
        if len(names) > 1:
            # On a telephone all names are as wide as the widest.
            names_in_a_row = max(1, 2 * IN_A_ROW // (max(map(len, names)) + 6))
            above = -(-len(names) // names_in_a_row) * ENTRY
        shown = [style.shorten(title, WIDE if self.columns == 1 else NARROW) for title in titles]
        self.figure: Figure = make_subplots(
            rows=lines,
            cols=self.columns,
            vertical_spacing=GAP / inner if lines > 1 else 0,
            horizontal_spacing=0.16 if self.columns > 1 else 0,
            subplot_titles=shown if titles != [""] else None,
        )
        style.set_layout(self.figure, inner + AROUND + above, legend=len(names) > 1, t=34 + above)
        self.figure.update_annotations(font_size=style.FONT_SIZE)

    def where(self, place: int) -> dict[str, int]:
        """The row and the column of a panel."""
        return {"row": place // self.columns + 1, "col": place % self.columns + 1}

    def name_axes(self, x_title: str, y_title: str) -> None:
        """Words where they are not repeated: below the lowest panels, and at the left of each row."""
        for place in range(self.count):
            if place + self.columns >= self.count:
                self.figure.update_xaxes(title_text=x_title, **self.where(place))
            if place % self.columns == 0:
                self.figure.update_yaxes(title_text=y_title, **self.where(place))


def _empty_figure() -> Figure:
    from plotly.graph_objects import Figure

    figure = Figure()
    style.set_layout(figure, AROUND)
    figure.update_xaxes(visible=False)
    figure.update_yaxes(visible=False)
    words = "nothing to draw: no finite numbers"
    figure.add_annotation(text=words, showarrow=False, xref="paper", yref="paper", x=0.5, y=0.5)
    return figure


def _axis(values: Sequence[Any], is_category: bool, is_log: bool, *, chosen: bool) -> JsonTable:
    """The options of an axis; few values that were chosen, not measured, have a tick each on a logarithmic one."""
    if is_category:
        names = list(dict.fromkeys(str(value) for value in values))
        shown = {"tickvals": names, "ticktext": [style.shorten(name, NARROW) for name in names]}
        return {"type": "category", "autotickangles": [0, 90], **shown}
    if not is_log:
        return {"type": "linear"}
    known = sorted(set(values))
    if chosen and len(known) <= MANY_TICKS:
        return {"type": "log", "tickvals": known, "ticktext": [f"{value:.3g}" for value in known]}
    return {"type": "log", "tickformat": "~g"}
