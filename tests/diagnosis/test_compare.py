"""Comparisons of runs and codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from vaescope import compare
from vaescope.codes import Representation
from vaescope.encoding import encode
from vaescope.errors import ConfigurationError, DataError, UnknownNameError
from vaescope.reporting.heatmaps import layer_plots, similarity_plot
from vaescope.reporting.page import write_plots
from vaescope.runs import Run, fit
from vaescope.similarity import linear_cka, procrustes

NET = {"name": "mlp", "encoder_widths": [12], "decoder_widths": [12]}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    folder = tmp_path_factory.mktemp("compared")
    settings: dict[str, Any] = {"net": NET, "steps": 30, "learning_rate": 1e-2, "runs": folder, "device": "cpu"}
    return [fit("digits", latents=latents, seed=seed, **settings) for latents, seed in ((3, 0), (3, 1), (5, 0))]


def titled(found: Any, title: str) -> Any:
    return next(card for card in found.cards if card.title == title)


def test_similarities_equal_those_of_the_measure(runs: list[Run]) -> None:
    for name, measure in (("cka", linear_cka), ("procrustes", procrustes)):
        found = compare(runs, measure=name)
        means = [encode(run.model, "digits").mean for run in runs]
        for i in range(3):
            for j in range(3):
                assert found.matrix[i, j] == pytest.approx(measure(means[i], means[j]), abs=1e-5)


def test_each_run_has_a_row_with_its_types(runs: list[Run]) -> None:
    found = compare(runs)
    rows = found.rows()
    assert [row["name"] for row in rows] == [run.id for run in runs]
    assert [row["latents"] for row in rows] == [3, 3, 5]
    for row in rows:
        assert row["active"] + row["mixed"] + row["passive"] == row["latents"]
        assert row["test_loss"] > 0
    assert [row["similarity"] for row in found.pairs()] == sorted(
        (found.matrix[i, j] for i in range(3) for j in range(i)), reverse=True
    )
    assert found.pairs()[0]["one"] in found.summary()


def test_runs_are_found_by_id_and_other_data_may_be_given(runs: list[Run]) -> None:
    folder = runs[0].path.parent
    by_id = compare([run.id[:8] for run in runs], runs=folder)
    np.testing.assert_array_equal(by_id.matrix, compare(runs).matrix)
    few = compare(runs, "digits", items=50)
    assert few.matrix.shape == (3, 3)
    json.dumps(by_id.plain(), allow_nan=False)


def test_layers_of_two_runs_are_compared_on_request(runs: list[Run]) -> None:
    found = compare(runs[:2], items=900, layers=True)
    assert found.layers is not None
    assert {"mean", "sampled"} <= set(found.layers.rows)
    place = found.layers.rows.index("mean"), found.layers.columns.index("mean")
    assert found.layers.matrix[place] == pytest.approx(found.matrix[0, 1], abs=1e-5)


def test_codes_are_compared_without_runs() -> None:
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(80, 3, generator=generator)
    one = Representation(mean, torch.full_like(mean, 0.1), mean)
    turned = Representation(mean @ torch.linalg.qr(torch.randn(3, 3, generator=generator))[0], one.variance, mean)
    found = compare([one, turned])
    assert found.names == ("codes (1)", "codes (2)")
    assert found.matrix[0, 1] == pytest.approx(1, abs=1e-5)
    assert "nearly the same" in found.summary()
    assert "CKA 1.00" in found.summary()


def test_the_summary_names_the_representation_unless_it_is_the_mean() -> None:
    generator = torch.Generator().manual_seed(0)
    codes = [Representation(*(torch.rand(60, 2, generator=generator) + 0.1 for _ in range(3))) for _ in range(3)]
    found = compare(codes, representation="variance", measure="procrustes")
    assert "Procrustes of the variances" in found.summary()
    assert "on average" in found.summary()


def test_the_numbers_of_latents_in_use_are_reported(runs: list[Run]) -> None:
    mean = torch.randn(80, 3, generator=torch.Generator().manual_seed(0))
    used = torch.tensor([0.01, 0.01, 1.0]).expand(80, 3)
    full = Representation(mean, torch.full_like(mean, 0.01), mean)
    found = compare([full, Representation(mean * (used < 1), used, mean)])
    assert titled(found, "Latents in use").meaning.startswith("The models use 2 to 3 latents")


def test_equal_numbers_of_latents_are_checked_if_the_theorem_applies() -> None:
    mean = torch.randn(80, 3, generator=torch.Generator().manual_seed(0))
    polarised = torch.tensor([0.001, 0.001, 1.0]).expand(80, 3)
    same = Representation(mean * (polarised < 1), polarised, mean)
    turned = Representation(same.mean[:, [2, 0, 1]], polarised[:, [2, 0, 1]], mean)
    card = titled(compare([same, turned]), "Equal numbers of latents")
    assert card.status == "good"
    assert card.rows[0]["holds"]
    other = Representation(mean, torch.tensor([0.001, 1.0, 1.0]).expand(80, 3), mean)
    assert titled(compare([same, other]), "Equal numbers of latents").status == "not applicable"


def test_permuted_latents_match_and_rotated_latents_do_not() -> None:
    mean = torch.randn(900, 3, generator=torch.Generator().manual_seed(0))
    small = torch.full_like(mean, 0.01)
    turned = mean @ torch.linalg.qr(torch.randn(3, 3, generator=torch.Generator().manual_seed(1)))[0]
    same = compare([Representation(mean, small, mean), Representation(-mean[:, [2, 0, 1]], small, mean)])
    other = compare([Representation(mean, small, mean), Representation(turned, small, mean)])
    scores = [titled(found, "Same latents").rows[0]["udr"] for found in (same, other)]
    assert scores[0] > 0.9 > 0.8 > scores[1]


def test_the_plots_are_written_to_one_file(runs: list[Run], tmp_path: Path) -> None:
    file = tmp_path / "similarity.html"
    found = compare(runs, layers=True)
    write_plots([similarity_plot(found), *layer_plots(found)], file, "Similarity")
    page = file.read_text(encoding="utf-8")
    assert page.count('id="figure-') == 2
    assert runs[0].id in page


def test_constant_codes_are_left_out_of_the_similarity_with_a_card() -> None:
    mean = torch.randn(80, 3, generator=torch.Generator().manual_seed(0))
    varying = [Representation(sign * mean, torch.full_like(mean, 0.1), mean) for sign in (1, -1)]
    constant = Representation(torch.zeros_like(mean), torch.ones_like(mean), mean)
    found = compare([varying[0], constant, varying[1]])
    assert np.isnan(found.matrix[1]).all()
    assert found.matrix[0, 2] == pytest.approx(1)
    assert [(row["one"], row["other"]) for row in found.pairs()] == [("codes (3)", "codes (1)")]
    assert "two of 3 models" in found.summary()
    assert "codes (2)" in titled(found, "Constant codes").meaning
    json.dumps(found.plain(), allow_nan=False)
    alone = compare([varying[0], constant])
    assert alone.pairs() == []
    assert "no similarity" in alone.summary()
    assert len(compare([constant, constant]).rows()) == 2


def test_deterministic_codes_are_compared_without_the_theorem() -> None:
    mean = torch.randn(80, 3, generator=torch.Generator().manual_seed(0))
    found = compare([Representation(mean, torch.zeros_like(mean), mean)] * 2)
    assert found.matrix[0, 1] == pytest.approx(1)
    assert titled(found, "Equal numbers of latents").status == "not applicable"


def test_subjects_that_cannot_be_compared_raise_an_error(runs: list[Run], tmp_path: Path) -> None:
    other = fit(np.random.default_rng(0).random((40, 3)), latents=2, net=NET, steps=2, runs=tmp_path, device="cpu")
    mean = torch.randn(10, 2)
    codes = Representation(mean, torch.ones_like(mean), mean)
    with pytest.raises(DataError, match=r"\(1, 8, 8\).*\(3,\)"):
        compare([runs[0], other])
    with pytest.raises(DataError, match=r"1797 items and codes 10"):
        compare([runs[0], codes])
    with pytest.raises(ConfigurationError, match="at least two models"):
        compare([runs[0]])
    with pytest.raises(UnknownNameError, match=r"mean, sample, variance.*median"):
        compare(runs, representation="median")
    with pytest.raises(ConfigurationError, match="must be runs"):
        compare([codes, codes], layers=True)
