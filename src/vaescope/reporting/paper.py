"""Plots as files for papers: each plot of a report, drawn again by matplotlib.

A plot written twice gives the same bytes: files have no date, and names within an SVG come from a fixed salt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import unescape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vaescope.errors import ConfigurationError
from vaescope.files import open_output

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS: Final = (".svg", ".pdf", ".png")
MAX_LEVEL_NAMES = 6  # of columns, which stand upright if there are more
COLUMN_INCHES = 3.4  # width of a column of a paper that has two
DOTS_PER_INCH = 300  # of .png files
SALT = "vaescope"
NO_MATPLOTLIB = "figures need matplotlib. Install it: pip install 'vaescope[plots]'."
# What a file would say about when and by what it was made.
UNNAMED: Final[Mapping[str, Any]] = {
    "svg": {"Date": None, "Creator": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "png": {"Software": None},
}
DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-.", None: "-"}
MARKERS = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "cross": "P",
    "x": "X",
    "star": "*",
    None: "o",
}
HATCHES = {"/": "///", ".": "..", "x": "xx", "": None, None: None}
STYLE: Final[Any] = {
    "svg.hashsalt": SALT,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}


def write_figure(figure: go.Figure, path: Path, width: float = COLUMN_INCHES, height: float | None = None) -> None:
    """Draw a figure by matplotlib and write it.

    Args:
        figure: The figure of a `Plot`.
        path: The file, which ends in .svg, .pdf or .png.
        width: Width in inches.
        height: Height in inches; default: the proportions of the figure at a width of 600 pixels.
    """
    if path.suffix not in FORMATS:
        raise ConfigurationError(
            f"a plot is saved as {', '.join((*FORMATS, '.html', '.csv'))}; got {path.name!r}. Change its ending."
        )
    with paper_style():
        content = drawn_bytes(to_matplotlib(figure, width, height), path.suffix[1:], bbox_inches="tight")
    with open_output(path) as file:
        file.write(content)


@contextmanager
def paper_style(**changes: Any) -> Iterator[None]:
    """Matplotlib's defaults with STYLE and `changes` in the block, whatever the user has set."""
    try:
        import matplotlib as mpl
    except ImportError as error:
        raise ConfigurationError(NO_MATPLOTLIB) from error
    settings: Any = {**STYLE, **changes}
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(settings)
        yield


def drawn_bytes(drawn: Figure, kind: str, title: str = "", **options: Any) -> bytes:
    """The content of a file of a kind (svg, pdf or png), without the date and without the version of matplotlib."""
    content, named = BytesIO(), {"Title": title} if title else {}
    drawn.savefig(content, format=kind, dpi=DOTS_PER_INCH, metadata={**named, **UNNAMED[kind]}, **options)
    return content.getvalue()


def to_matplotlib(figure: go.Figure, width: float = COLUMN_INCHES, height: float | None = None) -> Figure:
    """The figure as one of matplotlib, with a panel for each pair of axes."""
    from matplotlib.figure import Figure

    content = figure.to_dict()
    layout, traces = content["layout"], content.get("data", [])
    tall = width * (layout.get("height") or 400) / 600 if height is None else height
    drawn = Figure(figsize=(width, tall), layout="constrained")
    panels = _panels(drawn, traces, layout)
    for key, axes in panels.items():
        own = [trace for trace in traces if _key(trace) == key]
        _draw_traces(drawn, axes, own, layout)
        _set_axis(axes, layout.get(f"xaxis{key[0]}", {}), "x")
        _set_axis(axes, layout.get(f"yaxis{key[1]}", {}), "y")
    _draw_shapes(panels, layout)
    _draw_words(panels, layout)
    if layout.get("showlegend"):
        _draw_legend(drawn, list(panels.values()))
    return drawn


def _key(trace: Mapping[str, Any]) -> tuple[str, str]:
    """The numbers of the axes of a trace, as in the names of the layout: '' for the first ones."""
    return trace.get("xaxis", "x")[1:], trace.get("yaxis", "y")[1:]


def _panels(
    drawn: Figure, traces: Sequence[Mapping[str, Any]], layout: Mapping[str, Any]
) -> dict[tuple[str, str], Axes]:
    """A panel for each pair of axes, in the rows and columns that their domains form."""
    keys = list(dict.fromkeys(map(_key, traces)))
    left = {key: layout.get(f"xaxis{key[0]}", {}).get("domain", (0, 1))[0] for key in keys}
    top = {key: layout.get(f"yaxis{key[1]}", {}).get("domain", (0, 1))[1] for key in keys}
    columns, rows = sorted(set(left.values())), sorted(set(top.values()), reverse=True)
    grid = drawn.subplots(max(len(rows), 1), max(len(columns), 1), squeeze=False)
    panels = {key: grid[rows.index(top[key])][columns.index(left[key])] for key in keys}
    for axes in set(grid.flat) - set(panels.values()):
        axes.set_axis_off()
    return panels


def _draw_traces(drawn: Figure, axes: Axes, traces: Sequence[Mapping[str, Any]], layout: Mapping[str, Any]) -> None:
    bottom: dict[object, float] = {}
    edge: Sequence[float] = ()
    for trace in traces:
        if trace["type"] == "heatmap":
            _draw_heatmap(drawn, axes, trace)
        elif trace["type"] == "bar":
            _draw_bars(axes, trace, bottom if layout.get("barmode") == "stack" else None)
        elif trace["type"] == "scatter":
            _draw_line(axes, trace, edge)
            edge = trace["y"]
        else:
            raise ValueError(f"plots have lines, bars and heatmaps, got a trace of type {trace['type']}")


def _draw_line(axes: Axes, trace: Mapping[str, Any], edge: Sequence[float]) -> None:
    line, marker, mode = trace.get("line", {}), trace.get("marker", {}), trace.get("mode", "lines")
    if trace.get("fill") == "tonexty":
        colour, opacity = _colour(trace["fillcolor"])
        label = trace.get("name") if trace.get("showlegend") is not False else None
        axes.fill_between(trace["x"], trace["y"], edge, color=colour, alpha=opacity, linewidth=0, label=label)
        return
    single = marker.get("color") if isinstance(marker.get("color"), str) else None
    colour, opacity = _colour(line.get("color") or single or "#000000")
    symbol = marker.get("symbol") if isinstance(marker.get("symbol"), str | None) else None
    open_symbol = (symbol or "").endswith("-open")
    shown = trace.get("name") if trace.get("showlegend") is not False else None
    error = trace.get("error_y") or {}
    axes.errorbar(
        trace["x"],
        trace["y"],
        yerr=error.get("array"),
        label=shown,
        color=colour,
        alpha=opacity,
        linestyle=DASHES[line.get("dash")] if "lines" in mode and line.get("width") != 0 else "",
        linewidth=1,
        marker=MARKERS[symbol and symbol.removesuffix("-open")] if "markers" in mode else "",
        markersize=3.5,
        markerfacecolor="none" if open_symbol else colour,
        capsize=2,
    )


def _draw_bars(axes: Axes, trace: Mapping[str, Any], bottom: dict[object, float] | None) -> None:
    flat = trace.get("orientation") == "h"
    places, lengths = (trace["y"], trace["x"]) if flat else (trace["x"], trace["y"])
    marker = trace.get("marker", {})
    colour = marker.get("color", "#000000")
    colours = [_colour(one)[0] for one in colour] if not isinstance(colour, str) else _colour(colour)[0]
    hatch = HATCHES.get((marker.get("pattern") or {}).get("shape"))
    base = [0.0] * len(places) if bottom is None else [bottom.get(place, 0.0) for place in places]
    if bottom is not None:
        bottom.update({place: low + length for place, low, length in zip(places, base, lengths, strict=True)})
    style = {"color": colours, "alpha": marker.get("opacity", 1), "hatch": hatch, "label": trace.get("name")}
    if trace.get("width") is not None:
        style["height" if flat else "width"] = trace["width"]
    axes.barh(places, lengths, left=base, **style) if flat else axes.bar(places, lengths, bottom=base, **style)


def _draw_heatmap(drawn: Figure, axes: Axes, trace: Mapping[str, Any]) -> None:
    import numpy as np
    from matplotlib.colors import LinearSegmentedColormap

    values = np.array([[np.nan if cell is None else cell for cell in row] for row in trace["z"]], dtype=float)
    scale = [(float(place), colour) for place, colour in trace["colorscale"]]
    colours = LinearSegmentedColormap.from_list("scale", scale)
    columns, rows = (list(trace[name]) for name in ("x", "y"))
    # Columns are names, or numbers such as steps, which an axis of its own shows.
    numbered = not isinstance(columns[0], str)
    ends = (float(columns[0]), float(columns[-1]), len(rows) - 0.5, -0.5) if numbered else None
    image = axes.imshow(
        values, cmap=colours, vmin=trace.get("zmin"), vmax=trace.get("zmax"), aspect="auto", extent=ends
    )
    if not numbered:
        upright = 90 if len(columns) > MAX_LEVEL_NAMES else 0
        axes.set_xticks(range(len(columns)), [_plain(name) for name in columns], rotation=upright)
    axes.set_yticks(range(len(rows)), [_plain(str(name)) for name in rows])
    for i, row in enumerate(trace.get("text") or ()):
        for j, text in enumerate(row):
            axes.text(j, i, text, ha="center", va="center", fontsize=6)
    bar = trace.get("colorbar") or {}
    shown = drawn.colorbar(image, ax=axes, label=_plain((bar.get("title") or {}).get("text", "")))
    if bar.get("tickvals") is not None:
        shown.set_ticks(bar["tickvals"], labels=bar["ticktext"])


def _set_axis(axes: Axes, options: Mapping[str, Any], which: str) -> None:
    """Title, scale, range and ticks of an axis; those of categories are set with the heatmap."""
    getattr(axes, f"set_{which}label")(_plain((options.get("title") or {}).get("text", "")))
    kind, limits = options.get("type"), options.get("range")
    if kind == "category":
        return
    if kind == "log":
        getattr(axes, f"set_{which}scale")("log")
    if limits is not None:
        getattr(axes, f"set_{which}lim")(*([10**end for end in limits] if kind == "log" else limits))
    if options.get("tickvals") is not None:
        names = [_plain(str(name)) for name in options.get("ticktext") or options["tickvals"]]
        getattr(axes, f"set_{which}ticks")(options["tickvals"], names)
    if options.get("autorange") == "reversed":
        getattr(axes, f"invert_{which}axis")()


def _draw_shapes(panels: Mapping[tuple[str, str], Axes], layout: Mapping[str, Any]) -> None:
    """Straight lines: levels and marks."""
    for shape in layout.get("shapes", ()):
        colour, _ = _colour((shape.get("line") or {}).get("color", "#000000"))
        style: dict[str, Any] = {
            "color": colour,
            "linewidth": 0.8,
            "linestyle": DASHES[(shape.get("line") or {}).get("dash")],
        }
        for key, axes in panels.items():
            across, up = (shape.get(name, "").split(" ")[0] for name in ("xref", "yref"))
            if shape["x0"] == shape["x1"] and across in (f"x{key[0]}", "paper"):
                axes.axvline(shape["x0"], **style)
            elif shape["y0"] == shape["y1"] and up in (f"y{key[1]}", "paper"):
                axes.axhline(shape["y0"], **style)


def _draw_words(panels: Mapping[tuple[str, str], Axes], layout: Mapping[str, Any]) -> None:
    """Annotations of a panel at their places, and titles of panels above them."""
    for words in layout.get("annotations", ()):
        text = _plain(words.get("text", ""))
        across, up = words.get("xref", "paper"), words.get("yref", "paper")
        for key, axes in panels.items():
            own = across.split(" ")[0] == f"x{key[0]}" or up.split(" ")[0] == f"y{key[1]}"
            if across == "paper" and up == "paper":
                low, high = layout.get(f"xaxis{key[0]}", {}).get("domain", (0, 1))
                top = layout.get(f"yaxis{key[1]}", {}).get("domain", (0, 1))[1]
                if low <= words["x"] <= high and abs(words["y"] - top) < 0.02:
                    axes.set_title(text, fontsize=8)
            elif own and _first_panel(panels, across, up) is axes:
                where = axes.get_xaxis_transform() if "domain" in up or up == "paper" else axes.get_yaxis_transform()
                plain = "domain" not in across + up and "paper" not in across + up
                axes.annotate(text, (words["x"], words["y"]), xycoords=axes.transData if plain else where, fontsize=6)


def _first_panel(panels: Mapping[tuple[str, str], Axes], across: str, up: str) -> Axes | None:
    """The panel that an annotation belongs to: the first one with its axes."""
    for (x, y), axes in panels.items():
        if across.split(" ")[0] in (f"x{x}", "paper") and up.split(" ")[0] in (f"y{y}", "paper"):
            return axes
    return None


def _draw_legend(drawn: Figure, panels: Sequence[Axes]) -> None:
    """One legend above the panels; a name that several panels have stands once."""
    found: dict[str, Any] = {}
    for axes in panels:
        handles, names = axes.get_legend_handles_labels()
        found |= {
            _plain(name): handle for handle, name in zip(handles, names, strict=True) if _plain(name) not in found
        }
    if found:
        drawn.legend(list(found.values()), list(found), loc="outside upper left", ncols=min(len(found), 3))


def _colour(text: str) -> tuple[str | tuple[float, ...], float]:
    """A colour of plotly as one of matplotlib, and its opacity."""
    if text.startswith("rgba("):
        red, green, blue, opacity = (float(part) for part in text[5:-1].split(","))
        return (red / 255, green / 255, blue / 255), opacity
    return text, 1.0


def _plain(text: str) -> str:
    """Text without the markup of a web page."""
    return unescape(re.sub(r"</?[bi]>", "", text.replace("<br>", " ")))
