"""The page: it is self-contained, escapes its text, and names a file that cannot be written."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import pytest

from vaescope.errors import WriteError
from vaescope.markup import Json, Markup, element, join, json_script, prose
from vaescope.reporting.page import page, write_page, write_plots
from vaescope.reporting.plots import Plot


def some_plot(title: str = "Gaps of <b>", sentence: str = "The elbow lies at 12 & there.") -> Plot:
    from plotly.graph_objects import Figure, Scatter

    figure = Figure(Scatter(x=["</script><b>", "b"], y=[1, 2]))
    figure.update_layout(height=300)
    return Plot(title, sentence, figure, [{"x": "a,b", "y": 1}, {"x": "c", "z": 2}])


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "plots.html"
    return write_plots([some_plot(), some_plot("Second")], path, "How many for A<B?").read_text(encoding="utf-8")


def test_a_page_loads_nothing(text: str) -> None:
    outside = re.sub(r"<(script|style)>.*?</\1>", "", text, flags=re.DOTALL)
    tags = re.findall(r"<(?:script|link|img|iframe|object|embed)\b[^>]*>", outside)
    assert tags
    assert not any(re.search(r"\b(?:src|href|data)\s*=", tag) for tag in tags)
    assert "default-src 'none'" in unescape(text)


def test_a_page_contains_plotly_once_and_every_figure(text: str) -> None:
    assert text.count('id="plotly-packed"') == 1
    assert all(f'id="figure-{number}"' in text for number in (1, 2))


def test_headings_and_sentences_are_escaped(text: str) -> None:
    assert "<h1>How many for A&lt;B?</h1>" in text
    assert "<h3>Gaps of &lt;b&gt;</h3>" in text
    assert "<figcaption>The elbow lies at 12 &amp; there.</figcaption>" in text


def test_text_between_backticks_is_code() -> None:
    assert prose("Run `a < b` now.") == "Run <code>a &lt; b</code> now."
    assert prose("One ` of <them>") == "One ` of &lt;them&gt;"
    assert "<code>vs.wrap</code>" in page("title", missing={"Decoder": "pass `vs.wrap`"}, plotly=False)


def test_data_cannot_close_their_element(text: str) -> None:
    held = re.search(r'<script type="application/json" id="figure-1">(.*?)</script>', text, flags=re.DOTALL)
    assert held is not None
    assert json.loads(held[1])["data"][0]["x"] == ["</script><b>", "b"]


def test_rows_become_csv() -> None:
    assert some_plot().csv() == 'x,y,z\n"a,b",1,\nc,,2\n'


def test_the_same_plots_make_the_same_page(tmp_path: Path) -> None:
    one, two = (write_plots([some_plot()], tmp_path / name, "A") for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


def test_a_path_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match=r"missing/a.html.*No such file"):
        write_page(tmp_path / "missing" / "a.html", "text")
    with pytest.raises(WriteError, match="Is a directory"):
        write_page(tmp_path, "text")


def test_elements_escape_text_and_attributes_but_not_elements() -> None:
    inner = element("b", "1 < 2")
    assert inner == "<b>1 &lt; 2</b>"
    assert element("p", "a&b", inner, None, class_='say "x"', data_latent=3, hidden=True, title=None) == (
        '<p class="say &quot;x&quot;" data-latent="3" hidden>a&amp;b<b>1 &lt; 2</b></p>'
    )
    assert element("img", src="a", alt="<") == '<img src="a" alt="&lt;">'
    assert join("<", [inner, "&"]) == "&lt;<b>1 &lt; 2</b>&amp;"


def test_data_are_valid_json_and_escaped() -> None:
    held = json_script("data", {"a": "</script><!--", "b": [1.5, float("nan")]})
    inside = held.removeprefix('<script type="application/json" id="data">').removesuffix("</script>")
    assert "<" not in inside
    assert json.loads(inside) == {"a": "</script><!--", "b": [1.5, None]}
    assert (
        json_script("more", Json('{"x": "<"}')) == '<script type="application/json" id="more">{"x": "\\u003c"}</script>'
    )
    assert isinstance(held, Markup)


def test_a_page_links_to_its_sections() -> None:
    text = page("A", parts=[("plots", "Plots & more", element("p", "Here"))], plotly=False)
    assert '<a href="#plots">Plots &amp; more</a>' in text
    assert '<h2 id="plots">Plots &amp; more</h2><p>Here</p>' in text
    assert 'id="plotly-packed"' not in text
