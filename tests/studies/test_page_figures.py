"""Figures of studies by matplotlib: what they show of a chart, and that the kept ones follow from their JSON."""

from __future__ import annotations

import base64
import gc
import io
import json
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from PIL import Image

from vaescope.errors import ConfigurationError
from vaescope.reporting.paper import paper_style
from vaescope.studies import Histograms, Lines, Matrix, Pictures
from vaescope.studies.charts import Chart
from vaescope.studies.pages.docs import FIGURES, draw_figures, main, pages
from vaescope.studies.pages.figure_layout import STYLE
from vaescope.studies.pages.figures import alt_text, draw, figure_names, figures, published_of, write_figures
from vaescope.studies.pages.published_marks import published_points
from vaescope.studies.pages.verdicts import is_quick

DOCS = Path(__file__).parents[2] / "docs" / "studies"
FILES = [file for file in sorted(DOCS.glob("*.json")) if not is_quick(json.loads(file.read_text(encoding="utf-8")))]
MAX_BYTES = 300_000  # of one figure
PINS = (Path(__file__).parents[2] / "constraints.txt").read_text(encoding="utf-8").split()
IS_PINNED = f"matplotlib=={matplotlib.__version__}" in PINS
IMAGE = re.compile(rb"data:image/png;base64,\n([A-Za-z0-9+/=]+)")

POINTS = [
    {"data": data, "beta": beta, "loss": loss, "sd": 0.5}
    for data, losses in (("mnist", (3.0, 2.0, 1.0)), ("digits", (30.0, 20.0, 10.0)))
    for beta, loss in zip((1, 2, 4), losses, strict=True)
]


@pytest.fixture(scope="module", autouse=True)
def _quick_collections() -> Iterator[None]:
    """Figures are full of cycles; what was loaded before is not searched for garbage again and again."""
    gc.freeze()
    yield
    gc.unfreeze()


def lines(rows: list[dict[str, Any]] = POINTS, **options: Any) -> Lines:
    return Lines("Losses", "They fall.", rows, **{"x": "beta", "y": "loss", **options})


def row(ours: float | None, published: float | None, **of: Any) -> dict[str, Any]:
    return {**of, "ours": ours, "sd": None, "seeds": 1, "published": published, "published_sd": 0.1}


def drawn(chart: Chart, published: list[dict[str, Any]] | None = None) -> Figure:
    with paper_style(**STYLE):
        return draw(chart, published or [])


def study(*charts: Chart, rows: tuple[dict[str, Any], ...] = (), scale: str = "paper") -> dict[str, Any]:
    return {"study": "some-figure1", "scale": scale, "rows": list(rows), "charts": [one.plain() for one in charts]}


def data_lines(figure: Figure, panel: int = 0) -> list[Any]:
    """The lines with data, without the ends of bars of deviations."""
    return [one for one in figure.axes[panel].lines if one.get_marker() not in ("_", "|")]


# What a page needs besides the charts.
WORDS = dict.fromkeys(("source", "question", "left_open", "scale_words", "summary"), "")
EMPTY: dict[str, Any] = {name: [] for name in ("shared", "made_by", "claims", "notes")}

# The kept figures, of all studies but quick stand-ins


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_kept_figures_follow_from_their_json(file: Path) -> None:
    made = figures(json.loads(file.read_text(encoding="utf-8")))
    for name, content in made.items():
        kept = (DOCS / FIGURES / name).read_bytes().replace(b"\r\n", b"\n")
        assert drawing(kept) == drawing(content), f"{name}: make the pages again"
        for one, other in zip(IMAGE.findall(kept), IMAGE.findall(content), strict=True):
            assert np.array_equal(pixels(one), pixels(other)), f"{name}: make the pages again"
        assert len(kept) < MAX_BYTES


def test_there_is_one_kept_figure_for_every_chart_and_no_other() -> None:
    wanted = {name for file in FILES for name in figure_names(json.loads(file.read_text(encoding="utf-8")))}
    assert {path.name for path in (DOCS / FIGURES).iterdir()} == wanted
    shown = re.findall(rf"!\[[^\[\]]+\]\({FIGURES}/([^)]+)\)", "".join(pages(DOCS).values()))
    assert sorted(shown) == sorted(wanted)


def drawing(svg: bytes) -> bytes:
    """What does not depend on the machine: all but images, which versions of zlib compress differently.

    Versions of matplotlib other than the pinned one may draw in another way; title and size are the same.
    """
    whole = IMAGE.sub(b"", svg)
    return whole if IS_PINNED else b"".join(re.findall(rb'viewBox="[^"]+"|<title>.*?</title>', whole))


def pixels(encoded: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(encoded))))


# Files


def test_a_figure_drawn_twice_has_the_same_bytes_in_every_kind_of_file() -> None:
    plain = study(lines(POINTS[:3]), Pictures("Items", "Two.", [("a", torch.rand(2, 1, 4, 4))]))
    for kind, start in (("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")):
        one, other = figures(plain, kind), figures(plain, kind)
        assert one == other
        assert list(one) == [f"some-figure1-1.{kind}", f"some-figure1-2.{kind}"]
        assert all(content.startswith(start) for content in one.values())


def test_files_say_nothing_of_the_time_and_the_version(tmp_path: Path) -> None:
    (file,) = write_figures(study(lines()), tmp_path, stem="mine")
    text = file.read_text(encoding="utf-8")
    assert file.name == "mine-1.svg"
    assert "<title>Losses</title>" in text
    assert "dc:date" not in text
    assert "https://matplotlib.org" not in text


def test_an_unknown_kind_of_file_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"figures must be svg, pdf or png; got 'gif'"):
        figures(study(lines()), "gif")


def test_figures_of_a_folder_are_drawn_and_old_ones_removed(tmp_path: Path) -> None:
    whole = {**WORDS, **EMPTY}
    (tmp_path / "some-figure1.json").write_text(json.dumps({**study(lines(panel="data")), **whole}))
    (tmp_path / FIGURES).mkdir()
    (tmp_path / FIGURES / "some-figure1-2.svg").write_text("")
    assert draw_figures(tmp_path) == [tmp_path / FIGURES / "some-figure1-1.svg"]
    assert [path.name for path in (tmp_path / FIGURES).iterdir()] == ["some-figure1-1.svg"]
    assert f"({FIGURES}/some-figure1-1.svg)\n\nThey fall." in pages(tmp_path)["some-figure1.md"]


def test_without_matplotlib_pages_are_made_and_one_sentence_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = {**WORDS, **EMPTY}
    (tmp_path / "some-figure1.json").write_text(json.dumps({**study(lines()), **whole}))
    monkeypatch.setattr("vaescope.studies.pages.figures.find_spec", lambda _: None)
    monkeypatch.setattr("sys.argv", ["docs", str(tmp_path)])
    main()
    assert capsys.readouterr().out.splitlines()[-1].startswith("The figures were not drawn again: matplotlib is miss")
    assert "![" not in (tmp_path / "some-figure1.md").read_text(encoding="utf-8")
    with pytest.raises(ConfigurationError, match=r"figures need matplotlib. Install it: pip install 'vaescope\[plots"):
        figures(study(lines()))


# The published values in a chart


def test_a_published_value_stands_at_our_point_of_the_same_row() -> None:
    rows = [row(20.0, 22.0, data="digits", beta="2"), row(1.0, 0.9, data="mnist", beta=4)]
    found = published_points(lines(by="data"), rows)
    assert found == [
        {"data": "digits", "beta": 2, "loss": 22.0, "sd": 0.1},
        {"data": "mnist", "beta": 4, "loss": 0.9, "sd": 0.1},
    ]


@pytest.mark.parametrize(
    "other",
    [
        row(20.0, 22.0, data="mnist", beta=2),  # ours of other data
        row(20.5, 22.0, data="digits", beta=2),  # another number
        row(20.0, None, data="digits", beta=2),
        row(None, 22.0, data="digits", beta=2),
        row(20.0, 22.0, data="digits", beta=2, measure="score"),  # another measure
    ],
)
def test_a_row_of_something_else_is_not_in_the_chart(other: dict[str, Any]) -> None:
    assert published_points(lines(by="data"), [other]) == []


def test_a_published_value_without_ours_is_shown_next_to_those_of_its_kind() -> None:
    rows = [row(20.0, 22.0, data="digits", beta=2), row(None, 9.0, data="digits", beta=8)]
    others = [row(None, 9.0, data="celeba", beta=2), row(None, 9.0, data="digits", beta=8, measure="score")]
    found = published_points(lines(by="data"), rows + others)
    assert [(point["data"], point["beta"], point["loss"]) for point in found] == [
        ("digits", 2, 22.0),
        ("digits", 8, 9.0),
    ]
    figure = drawn(lines(by="data", kind="bars"), found)
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["1", "2", "4", "8"]


def test_a_chart_without_rows_has_no_published_values() -> None:
    assert published_points(lines([]), [row(20.0, 22.0, data="digits", beta=2)]) == []


def test_a_value_without_a_place_stands_where_its_number_is_found_once() -> None:
    rows = [row(20.0, 22.0, data="digits", measure="loss")]
    assert [point["beta"] for point in published_points(lines(by="data"), rows)] == [2]
    assert published_points(lines(by="data"), [row(20.0, 22.0, data="digits")]) == []
    twice = [*POINTS, {"data": "digits", "beta": 8, "loss": 20.0}]
    assert published_points(lines(twice, by="data"), rows) == []


def test_quick_settings_are_not_compared_with_published_values() -> None:
    chart, rows = lines(by="data"), (row(20.0, 22.0, data="digits", beta=2),)
    assert len(published_of(chart, study(chart, rows=rows))) == 1
    assert published_of(chart, study(chart, rows=rows, scale="quick")) == []
    exact = {**study(chart, rows=rows, scale="quick"), "study": "rolinek-toy"}
    assert len(published_of(chart, exact)) == 1


@pytest.mark.parametrize("kind", ["lines", "points", "bars"])
def test_published_values_are_hollow_marks_with_their_own_entry_in_the_legend(kind: str) -> None:
    figure = drawn(lines(POINTS[:3], kind=kind), [{"beta": 2, "loss": 2.5, "sd": 0.1}])
    (mark,) = [line for line in data_lines(figure) if to_hex(line.get_markerfacecolor()) == "#ffffff"]
    assert list(mark.get_ydata()) == [2.5]
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["ours", "published"]


# Lines, points and bars


def test_groups_have_their_colour_and_mark_in_every_panel() -> None:
    rows = [{**one, "net": net} for net in ("mlp", "conv") for one in POINTS]
    figure = drawn(lines(rows, by="data", panel="net"))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["mlp", "conv"]
    looks = [[(one.get_color(), one.get_marker()) for one in data_lines(figure, at)] for at in (0, 1)]
    assert looks[0] == looks[1]
    assert len(set(looks[0])) == 2
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["mnist", "digits"]


def test_bars_of_groups_stand_side_by_side_and_begin_at_0() -> None:
    figure = drawn(lines(by="data", kind="bars"))
    bars = sorted((bar.get_x(), bar.get_width(), bar.get_height()) for bar in figure.axes[0].patches)
    assert [height for _, _, height in bars] == [3.0, 30.0, 2.0, 20.0, 1.0, 10.0]
    ends = [(left, left + width) for left, width, _ in bars]
    assert all(end <= start + 1e-9 for (_, end), (start, _) in pairwise(ends))
    assert figure.axes[0].get_ylim()[0] == 0
    assert [tick.get_text() for tick in figure.axes[0].get_xticklabels()] == ["1", "2", "4"]


def test_axes_are_logarithmic_as_the_chart_says_and_leave_out_what_they_cannot_show() -> None:
    rows = [*POINTS[:3], {"beta": 8, "loss": 0.0, "sd": 0.1}]
    (axes,) = drawn(lines(rows, log_x=True, log_y=True)).axes
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert list(data_lines(axes.figure)[0].get_xdata()) == [1, 2, 4]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["1", "2", "4"]


def test_upright_lines_are_named_in_the_legend() -> None:
    figure = drawn(lines(POINTS[:3], marks=[{"beta": 3, "mark": "elbow"}]))
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["ours", "elbow"]
    assert [list(line.get_xdata()) for line in figure.axes[0].lines if line.get_label().startswith("_")][-1] == [3, 3]


def test_the_legend_lies_above_the_panels_and_nothing_is_cut_off() -> None:
    names = [f"a rather long name of a group, number {number}" for number in range(5)]
    rows = [{"x": x, "y": x, "group": name} for name in names for x in (1, 2)]
    figure = drawn(lines(rows, x="x", y="y", by="group", kind="bars"))
    top = max(axes.get_window_extent().y1 for axes in figure.axes)
    box = figure.legends[0].get_window_extent()
    assert box.y0 >= top
    assert box.y1 <= figure.bbox.y1 + 1
    assert box.x1 <= figure.bbox.x1 + 1


def test_long_names_of_categories_do_not_overlap() -> None:
    rows = [{"x": f"a decoder of the {number}th kind", "y": 1.0} for number in range(9)]
    slanted = drawn(lines(rows, x="x", y="y", kind="bars")).axes[0].get_xticklabels()
    assert {label.get_rotation() for label in slanted} == {35.0}
    short = drawn(lines(POINTS[:3], kind="bars")).axes[0].get_xticklabels()
    assert {label.get_rotation() for label in short} == {0.0}


def test_many_dense_lines_have_a_panel_each_with_one_scale() -> None:
    rows = [{"x": x, "y": float(x * group), "group": group} for group in range(6) for x in range(50)]
    figure = drawn(lines(rows, x="x", y="y", by="group"))
    assert len(figure.axes) == 6
    assert len({axes.get_ylim() for axes in figure.axes}) == 1


# Matrices, histograms and pictures


def test_cells_of_a_matrix_have_their_numbers_with_the_first_row_on_top() -> None:
    matrix = np.array([[1.0, 0.25], [np.nan, 0.5]])
    chart = Matrix("Similarity", "High.", matrix, ["a", "b"], ["c", "d"], "CKA", axes=("one model", "other"))
    axes = drawn(chart).axes[0]
    assert (axes.get_ylabel(), axes.get_xlabel()) == ("one model", "other")
    assert {(text.get_position(), text.get_text()) for text in axes.texts} == {
        ((0.5, 0.5), "1.00"),
        ((1.5, 0.5), "0.25"),
        ((1.5, 1.5), "0.50"),
    }
    assert axes.get_ylim() == (2, 0)
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["a", "b"]


def test_each_histogram_has_its_panel() -> None:
    figure = drawn(Histograms("Codes", "Two.", {"one": ([0, 1, 2], [3, 4]), "two": ([0, 5], [6])}, "code"))
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["one", "two"]
    assert list(figure.axes[0].patches[0].get_data().values) == [3, 4]


def test_pictures_are_in_the_file_pixel_by_pixel_under_the_names_of_their_columns() -> None:
    items = torch.arange(18).reshape(2, 1, 3, 3) / 17
    chart = Pictures("Items", "Two rows.", [("first", items[:1]), ("second", items)], ["left", "right"])
    (content,) = figures(study(chart)).values()
    first, second = (pixels(one) for one in IMAGE.findall(content))
    kept = (items * 255).round().numpy().astype(np.uint8)
    assert np.array_equal(first[:3, :3], kept[0, 0])
    assert np.array_equal(second[:3, 4:7], kept[1, 0])
    above, below = drawn(chart).axes
    assert [label.get_text() for label in above.get_xticklabels()] == []
    assert [label.get_text() for label in below.get_xticklabels()] == ["left", "right"]


def test_pictures_in_colour_keep_it() -> None:
    items = torch.zeros(1, 3, 2, 2)
    items[:, 0] = 1.0
    (content,) = figures(study(Pictures("Red", "One.", [("red", items)]))).values()
    assert pixels(IMAGE.findall(content)[0])[0, 0, :3].tolist() == [255, 0, 0]


@pytest.mark.parametrize(
    "chart",
    [
        lines([]),
        lines([{"beta": 1, "loss": float("nan")}]),
        Histograms("None", "No.", {}),
        Pictures("None", "No.", []),
        Matrix("None", "No.", np.zeros((0, 0)), [], [], "CKA"),
    ],
)
def test_a_figure_without_numbers_says_so(chart: Chart) -> None:
    assert [text.get_text() for text in drawn(chart).texts] == ["nothing to draw: no finite numbers"]


@pytest.mark.parametrize(
    ("chart", "said"),
    [
        (lines(by="data", panel="beta"), "lines of loss against beta, for mnist, digits, in panels for beta 1, beta 2"),
        (Matrix("S", "", np.array([[0.0, 1.0]]), ["a"], ["b", "c"], "CKA"), "S: 1 by 2 cells of CKA, 0 to 1"),
        (Histograms("H", "", {name: ([0, 1], [1]) for name in "abcdefgh"}), "H: histograms of a, b, c, d, e, f and 2"),
        (Pictures("P", "", [("digit 1", torch.rand(1, 2, 2))]), "P: rows of pictures, digit 1"),
    ],
)
def test_the_alternative_text_says_what_the_figure_shows(chart: Chart, said: str) -> None:
    assert said in alt_text(chart)
    assert "published values" not in alt_text(chart)
    assert "published values" in alt_text(lines(), [{}])
