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
from vaescope.objectives import Beta
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
    assert [row["name"] for row in rows] == ["3 latents · seed 0", "3 latents · seed 1", "5 latents · seed 0"]
    assert [row["id"] for row in rows] == [run.id for run in runs]
    assert [row["latents"] for row in rows] == [3, 3, 5]
    for row in rows:
        assert row["active"] + row["mixed"] + row["passive"] == row["latents"]
        assert row["test_loss"] > 0
    assert [row["similarity"] for row in found.pairs()] == sorted(
        (found.matrix[i, j] for i in range(3) for j in range(i)), reverse=True
    )
    assert found.pairs()[0]["one"] in found.extremes()


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
    assert titled(found, "Latents in use").meaning.startswith("The models use 2 and 3 latents")


def test_equal_numbers_of_latents_are_checked_if_the_theorem_applies() -> None:
    mean = torch.randn(80, 3, generator=torch.Generator().manual_seed(0))
    polarised = torch.tensor([0.001, 0.001, 1.0]).expand(80, 3)
    same = Representation(mean * (polarised < 1), polarised, mean)
    turned = Representation(same.mean[:, [2, 0, 1]], polarised[:, [2, 0, 1]], mean)
    card = titled(compare([same, turned]), "Agreement with theory")
    assert card.status == "good"
    assert card.rows[0]["holds"]
    other = Representation(mean, torch.tensor([0.001, 1.0, 1.0]).expand(80, 3), mean)
    assert titled(compare([same, other]), "Agreement with theory").status == "not applicable"


def test_permuted_latents_match_and_rotated_latents_do_not() -> None:
    mean = torch.randn(900, 3, generator=torch.Generator().manual_seed(0))
    small = torch.full_like(mean, 0.01)
    turned = mean @ torch.linalg.qr(torch.randn(3, 3, generator=torch.Generator().manual_seed(1)))[0]
    same = compare([Representation(mean, small, mean), Representation(-mean[:, [2, 0, 1]], small, mean)])
    other = compare([Representation(mean, small, mean), Representation(turned, small, mean)])
    scores = [
        next(row["udr"] for row in titled(found, "Matched latents").rows if "udr" in row) for found in (same, other)
    ]
    assert scores[0] > 0.9 > 0.8 > scores[1]


def test_the_plots_are_written_to_one_file(runs: list[Run], tmp_path: Path) -> None:
    file = tmp_path / "similarity.html"
    found = compare(runs, layers=True)
    write_plots([similarity_plot(found), *layer_plots(found)], file, "Similarity")
    page = file.read_text(encoding="utf-8")
    assert page.count('id="figure-') == 2
    assert "3 latents · seed 0" in page


def test_constant_codes_are_left_out_of_the_similarity_with_a_card() -> None:
    mean = torch.randn(80, 3, generator=torch.Generator().manual_seed(0))
    varying = [Representation(sign * mean, torch.full_like(mean, 0.1), mean) for sign in (1, -1)]
    constant = Representation(torch.zeros_like(mean), torch.ones_like(mean), mean)
    found = compare([varying[0], constant, varying[1]])
    assert np.isnan(found.matrix[1]).all()
    assert found.matrix[0, 2] == pytest.approx(1)
    assert [(row["one"], row["other"]) for row in found.pairs()] == [("codes (3)", "codes (1)")]
    assert "two of 3 models that can be compared" in found.summary()
    assert "codes (2)" in titled(found, "Constant codes").meaning
    json.dumps(found.plain(), allow_nan=False)
    alone = compare([varying[0], constant])
    assert alone.pairs() == []
    assert "cannot be compared" in alone.summary()
    assert len(compare([constant, constant]).rows()) == 2


def test_deterministic_codes_are_compared_without_the_theorem() -> None:
    mean = torch.randn(80, 3, generator=torch.Generator().manual_seed(0))
    found = compare([Representation(mean, torch.zeros_like(mean), mean)] * 2)
    assert found.matrix[0, 1] == pytest.approx(1)
    assert titled(found, "Agreement with theory").status == "not applicable"


def test_runs_on_items_of_other_shapes_are_compared_as_far_as_possible(runs: list[Run], tmp_path: Path) -> None:
    table = np.random.default_rng(0).random((40, 3))
    other = fit(table, latents=2, net=NET, steps=2, runs=tmp_path, device="cpu")
    found = compare([runs[0], other, runs[1]])
    assert np.isnan(found.matrix[1, [0, 2]]).all()
    assert found.matrix[0, 2] == compare([runs[0], runs[1]]).matrix[0, 1]
    assert list(found.matchings) == [(0, 2)]
    card = titled(found, "Not comparable")
    assert "digits (items of shape 1 x 8 x 8)" in card.meaning
    assert card.rows[1]["items"].endswith("(items of shape 3)")
    assert [row["latents"] for row in found.rows()] == [3, 2, 3]
    assert "cannot be compared" in compare([runs[0], other]).summary()


def test_runs_on_other_data_of_the_same_shape_are_named(runs: list[Run], tmp_path: Path) -> None:
    images = np.random.default_rng(0).random((40, 1, 8, 8)).astype(np.float32)
    other = fit(images, latents=3, net=NET, steps=2, runs=tmp_path, device="cpu")
    found = compare([runs[0], other])
    assert found.names[1] in titled(found, "Data").meaning
    assert not found.losses_comparable
    assert "test_loss" not in found.rows()[0]


def test_matched_latents_are_those_with_the_strongest_correlations() -> None:
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(300, 3, generator=generator)
    noise = 0.1 * torch.randn(300, 3, generator=generator)
    small = torch.full_like(mean, 0.01)
    other = (noise - mean)[:, [2, 0, 1]]
    found = compare({"a": Representation(mean, small, mean), "b": Representation(other, small, mean)})
    rows = found.matches()
    assert {(row["latent"], row["other_latent"]) for row in rows} == {(0, 1), (1, 2), (2, 0)}
    assert all(row["correlation"] < -0.95 and row["match"] for row in rows)
    assert found.summary().startswith("Yes: a and b encode nearly the same information")
    assert found.summary().endswith("3 of 3 latents match")


def test_the_headline_answers_by_information_and_latents() -> None:
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(400, 4, generator=generator)
    small = torch.full_like(mean, 0.01)
    turned = mean @ torch.linalg.qr(torch.randn(4, 4, generator=generator))[0]
    unrelated = torch.randn(400, 4, generator=generator)
    half = torch.cat([mean[:, :2], unrelated[:, :2]], 1)
    one = Representation(mean, small, mean)
    answers = {
        name: compare([one, Representation(other, small, other)]).summary().partition(":")[0]
        for name, other in (("same", -mean), ("turned", turned), ("half", half), ("unrelated", unrelated))
    }
    assert answers == {
        "same": "Yes",
        "turned": "Same information, different latents",
        "half": "Partly",
        "unrelated": "No",
    }


def test_collapsed_models_have_nothing_to_compare() -> None:
    generator = torch.Generator().manual_seed(0)
    mean = torch.randn(100, 2, generator=generator)
    active = Representation(mean, torch.full_like(mean, 0.01), mean)
    collapsed = [
        Representation(0.01 * torch.randn(100, 2, generator=generator), torch.ones_like(mean), mean) for _ in range(2)
    ]
    assert "nothing to compare" in compare(collapsed).summary()
    found = compare({"a": active, "b": collapsed[0]})
    assert found.summary().endswith("No: only a uses latents (2); the codes of b carry no information")
    three = compare({"a": active, "b": collapsed[0], "c": collapsed[1]})
    assert three.summary().endswith("; the codes of the other models carry no information")


def test_passive_latents_are_not_matched() -> None:
    mean = torch.randn(100, 3, generator=torch.Generator().manual_seed(0))
    variance = torch.tensor([0.01, 0.01, 1.0]).expand(100, 3)
    codes = Representation(0.001 * mean * variance + mean * (variance < 1), variance, mean)
    found = compare([codes, codes])
    assert [(row["latent"], row["other_latent"]) for row in found.matches()] == [(0, 0), (1, 1)]
    assert "2 of 2 latents match" in found.summary()


def test_codes_of_few_items_are_not_matched() -> None:
    mean = torch.randn(10, 3, generator=torch.Generator().manual_seed(0))
    codes = Representation(mean, torch.full_like(mean, 0.1), mean)
    found = compare([codes, codes])
    assert found.matchings == {}
    assert "at least 30 items" in titled(found, "Matched latents").meaning


def test_losses_of_other_objectives_are_left_out(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"net": NET, "steps": 4, "runs": tmp_path, "device": "cpu", "latents": 2}
    found = compare([fit("digits", objective=Beta(beta), **settings) for beta in (1.0, 4.0)])
    assert found.names == ("beta 1", "beta 4")
    assert not found.losses_comparable
    assert all("test_loss" not in row and row["test_reconstruction"] > 0 for row in found.rows())
    assert "losses are not comparable" in titled(found, "What differs").advice
    assert "beta" in titled(found, "What differs").meaning


def test_subjects_that_cannot_be_compared_raise_an_error(runs: list[Run], tmp_path: Path) -> None:
    other = fit(np.random.default_rng(0).random((40, 3)), latents=2, net=NET, steps=2, runs=tmp_path, device="cpu")
    mean = torch.randn(10, 2)
    codes = Representation(mean, torch.ones_like(mean), mean)
    with pytest.raises(ConfigurationError, match="that encode the same items"):
        compare([runs[0], other], layers=True)
    with pytest.raises(DataError, match=r"1797 items and codes 10"):
        compare([runs[0], codes])
    with pytest.raises(ConfigurationError, match="at least two models"):
        compare([runs[0]])
    with pytest.raises(UnknownNameError, match=r"mean, sample, variance.*median"):
        compare(runs, representation="median")
    with pytest.raises(ConfigurationError, match="runs, or models"):
        compare([codes, codes], layers=True)
