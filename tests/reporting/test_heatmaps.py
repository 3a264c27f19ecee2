"""Heatmaps, and the plots of similarities drawn with them."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
import torch

from vaescope.data import open_dataset
from vaescope.diagnosis.compare import Comparison
from vaescope.encoding.activations import activations
from vaescope.models.architecture import Architecture
from vaescope.nets import MLP
from vaescope.reporting.heatmaps import heatmap, layer_plots, own_layers_plot, similarity_plot
from vaescope.reporting.plots import Plot
from vaescope.similarity import SimilarityMap, linear_cka


def read_back(plot: Plot) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(plot.csv())))


def compared(layers: SimilarityMap | None = None) -> Comparison:
    matrix = np.array([[1.0, 0.5, 0.25], [0.5, 1.0, 0.75], [0.25, 0.75, 1.0]])
    return Comparison(("one", "two", "three"), "mean", "cka", (), matrix, (), layers)


def test_similarities_equal_those_of_the_comparison() -> None:
    plot = similarity_plot(compared())
    np.testing.assert_array_equal(plot.figure.data[0].z, compared().matrix)
    assert plot.figure.data[0].x == plot.figure.data[0].y == ("one", "two", "three")
    assert read_back(plot)[0] == {"one": "three", "other": "two", "similarity": "0.75"}


def test_layers_are_drawn_if_they_were_compared() -> None:
    assert layer_plots(compared()) == ()
    matrix = np.array([[1.0, np.nan, 0.25], [0.5, np.nan, 0.75]])
    layers = SimilarityMap(
        "cka", ("input", "mean"), ("input", "still", "mean"), matrix, matrix * 0, np.ones((2, 3), int)
    )
    (plot,) = layer_plots(compared(layers))
    assert [list(line) for line in plot.figure.data[0].z] == [[1.0, None, 0.25], [0.5, None, 0.75]]
    assert plot.figure.layout.yaxis.title.text == "layer of one"
    assert "Layers of one (rows) and two (columns)" in plot.sentence
    assert len(read_back(plot)) == 6


def test_similarities_of_layers_equal_those_of_their_activations() -> None:
    data = open_dataset("digits")
    model = Architecture(net=MLP((8,), (8,))).build(tuple(data.shape), 3, seed=0)
    plot = own_layers_plot(model, data, items=100)
    names = plot.figure.data[0].x
    found = activations(model, data, items=100)
    assert list(names) == list(found)
    place = {name: number for number, name in enumerate(names)}
    assert plot.figure.data[0].z[place["input"]][place["mean"]] == pytest.approx(
        linear_cka(found["input"], found["mean"]), abs=1e-3
    )
    assert "highest for" in plot.sentence
    assert len(read_back(plot)) == len(names) ** 2


def test_a_constant_layer_is_named_and_left_empty() -> None:
    data = open_dataset("digits")
    model = Architecture(net=MLP((8,), (8,))).build(tuple(data.shape), 3, seed=0)
    with torch.no_grad():
        for weights in model.parameters():
            weights.zero_()
    plot = own_layers_plot(model, data, items=50)
    assert "Constant: " in plot.sentence
    assert any(value is None for row in plot.figure.data[0].z for value in row)


def test_names_that_are_numbers_label_their_own_cells() -> None:
    names = ["0.05", "2", "1", "0"]
    figure = heatmap(np.eye(4), names, names, of="CKA")
    for axis in (figure.layout.xaxis, figure.layout.yaxis):
        assert axis.type == "category"
        assert list(axis.tickvals) == names
        assert list(axis.ticktext) == names
