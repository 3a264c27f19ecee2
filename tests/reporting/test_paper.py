"""Plots as files for papers."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import plotly.graph_objects as go
import pytest
import torch
from PIL import Image

import vaescope as vs
from vaescope.codes import Representation
from vaescope.errors import ConfigurationError
from vaescope.reporting.paper import to_matplotlib
from vaescope.reporting.plots import Plot
from vaescope.reporting.style import BLUE, VERMILION

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def plots() -> dict[str, Plot]:
    generator = torch.Generator().manual_seed(0)
    variance = torch.tensor([0.02, 0.4, 0.99]).expand(200, 3)
    mean = torch.randn(200, 3, generator=generator) * (1 - variance).sqrt()
    factors = torch.randint(0, 3, (200, 2), generator=generator)
    sample = mean + variance.sqrt() * torch.randn(200, 3, generator=generator)
    codes = Representation(mean=mean, variance=variance, sample=sample, factors=factors)
    return vs.draw(codes)


def test_every_plot_of_a_diagnosis_is_written_in_every_format(plots: dict[str, Plot], tmp_path: Path) -> None:
    assert {"codes by type", "correlation of latents", "what latents encode"} <= set(plots)
    for number, plot in enumerate(plots.values()):
        for ending in ("svg", "pdf", "png", "html", "csv"):
            assert plot.save(tmp_path / f"{number}.{ending}").stat().st_size > 0
        ElementTree.parse(tmp_path / f"{number}.svg")
        assert (tmp_path / f"{number}.pdf").read_bytes().startswith(b"%PDF")
        with Image.open(tmp_path / f"{number}.png") as image:
            assert np.asarray(image.convert("L")).std() > 0


def test_the_same_plot_gives_the_same_bytes(plots: dict[str, Plot], tmp_path: Path) -> None:
    plot = plots["codes by type"]
    for ending in ("svg", "pdf", "png"):
        first, again = (plot.save(tmp_path / f"{name}.{ending}").read_bytes() for name in ("first", "again"))
        assert first == again


def test_text_stays_text_and_the_width_is_that_asked_for(plots: dict[str, Plot], tmp_path: Path) -> None:
    narrow = plots["codes by type"].save(tmp_path / "narrow.svg").read_text("utf-8")
    wide = plots["codes by type"].save(tmp_path / "wide.svg", width=7).read_text("utf-8")
    assert "posterior mean" in narrow
    widths = [float(re.search(r'<svg [^>]*width="([\d.]+)pt"', text)[1]) / 72 for text in (narrow, wide)]
    assert widths == pytest.approx([3.4, 7], rel=0.1)


def test_lines_bands_levels_and_categories_have_their_numbers() -> None:
    figure = go.Figure()
    figure.add_scatter(x=[1, 2, 3], y=[3, 4, 5], mode="lines", line={"width": 0}, showlegend=False)
    figure.add_scatter(
        x=[1, 2, 3], y=[1, 2, 3], mode="lines", line={"width": 0}, fill="tonexty", fillcolor="rgba(0,0,255,0.5)"
    )
    figure.add_scatter(
        x=[1, 2, 3], y=[2, 3, 4], mode="lines+markers", name="gap", line={"color": BLUE, "dash": "dash"},
        error_y={"type": "data", "array": [0.1, 0.2, 0.3]},
    )  # fmt: skip
    figure.add_hline(2.5, line={"color": VERMILION})
    figure.update_layout(showlegend=True, height=300)
    figure.update_xaxes(title_text="latents", type="log", range=[0, 1])
    (axes,) = to_matplotlib(figure, 4).axes
    line = next(one for one in axes.lines if one.get_linestyle() == "--" and len(one.get_xdata()) == 3)
    assert list(line.get_ydata()) == [2, 3, 4]
    assert line.get_color() == BLUE
    assert any(list(one.get_ydata()) == [2.5, 2.5] for one in axes.lines)
    assert axes.get_xlabel() == "latents"
    assert (axes.get_xscale(), axes.get_xlim()) == ("log", (1, 10))
    assert len(axes.collections) >= 2  # the band and the bars of errors


def test_a_heatmap_has_its_values_and_names() -> None:
    values = [[0.0, 0.5], [None, 1.0]]
    figure = go.Figure(
        go.Heatmap(z=values, x=["a", "b"], y=["c", "d"], zmin=0, zmax=1, colorscale=[[0, "#fff"], [1, "#000"]])
    )
    axes = to_matplotlib(figure, 3).axes[0]
    drawn = axes.images[0].get_array()
    assert drawn[0, 1] == 0.5
    assert bool(np.ma.getmaskarray(drawn)[1, 0]) or np.isnan(drawn[1, 0])
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["c", "d"]


def test_a_name_of_another_kind_is_an_error_that_names_the_kinds(plots: dict[str, Plot], tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"\.svg, \.pdf, \.png.*figure\.gif"):
        plots["codes by type"].save(tmp_path / "figure.gif")
