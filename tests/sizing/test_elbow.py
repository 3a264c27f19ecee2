"""The elbow check: losses and accuracies of trained models, the knee of a curve, and what is said about it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from vaescope.data import Dataset
from vaescope.data.arrays import from_array
from vaescope.errors import ConfigurationError, LatentError, RunError, UnknownNameError
from vaescope.numerics import counter
from vaescope.objectives import Beta
from vaescope.runs import FitOptions, Run, Store
from vaescope.sizing.elbow import Elbow, ElbowPoint, default_sizes
from vaescope.sizing.elbow import elbow as elbow_of
from vaescope.training import Trainer

SMALL: dict[str, Any] = {
    "net": {"name": "mlp", "encoder_widths": [16], "decoder_widths": [16]},
    "steps": 10,
    "batch": 32,
    "held_out": 0.25,
    "device": "cpu",
}
NOISE = np.random.default_rng(0)
CLUSTER = NOISE.integers(0, 3, 400)
COIN = NOISE.integers(0, 2, 400)
ROWS = np.eye(3)[CLUSTER] @ NOISE.normal(size=(3, 6)) * 3 + 0.05 * NOISE.normal(size=(400, 6))


def elbow(data: Any, sizes: Any, chosen: Any = None, **settings: Any) -> Elbow:
    """The check with the settings of training as keywords."""
    names = {field.name for field in dataclasses.fields(FitOptions)}
    training = {name: settings.pop(name) for name in names & settings.keys()}
    return elbow_of(data, sizes, chosen, FitOptions(**training), **settings)


def labelled() -> Dataset:
    factors = np.stack([CLUSTER, COIN, np.zeros(400, np.int64)], axis=1)
    return from_array(ROWS, factors=factors, factor_names=("cluster", "coin", "nothing"))


def curve(losses: dict[int, float], chosen: int | None = None) -> Elbow:
    return Elbow(chosen, tuple(ElbowPoint(size, (loss,)) for size, loss in losses.items()))


BENT = {2: 100.0, 4: 60.0, 8: 22.0, 12: 20.0, 16: 19.0, 24: 18.0}


def by_hand(run: Run, data: Dataset) -> float:
    """The mean of -log p(x|z) over the whole batches of held-out items, with the noise of an evaluation."""
    x = data.split(0.25)[1].batch(torch.arange(96))
    noise = counter.normal(
        torch.tensor(run.configuration.member.seed), "evaluation/posterior", torch.tensor(0), torch.arange(96), 2
    )
    with torch.no_grad():
        result = run.model(x, {"posterior": noise.to(x.dtype)})
        return float(-result.likelihood.log_prob(x).mean())


@pytest.mark.parametrize("model", ["vae", "autoencoder"])
def test_a_loss_is_the_reconstruction_loss_of_the_held_out_items(model: str, tmp_path: Path) -> None:
    data = from_array(ROWS)
    found = elbow(data, [2], seeds=[3, 4], model=model, runs=tmp_path, **SMALL)
    runs = {run.configuration.member.seed: run for run in Store(tmp_path).runs()}
    expected = [by_hand(runs[seed], data) for seed in (3, 4)]
    assert expected[0] != pytest.approx(expected[1], rel=1e-3)
    (point,) = found.points
    assert point.losses == pytest.approx(expected, rel=1e-5)
    assert point.loss == pytest.approx(np.mean(expected), rel=1e-5)
    assert point.loss_sd == pytest.approx(np.std(expected, ddof=1), rel=1e-3)


def test_a_rate_is_no_part_of_the_loss(tmp_path: Path) -> None:
    found = elbow(from_array(ROWS), [2], objective=Beta(50.0), learning_rate=1e-2, runs=tmp_path, **SMALL)
    (run,) = Store(tmp_path).runs()
    assert run.configuration.member.objective == Beta(50.0)
    assert run.configuration.member.learning_rate == 1e-2
    assert found.points[0].loss == run.last("test")["reconstruction"] < run.last("test")["loss"]


def test_an_autoencoder_has_its_elbow_at_the_dimension_of_the_clusters_and_predicts_them(tmp_path: Path) -> None:
    options = {**SMALL, "steps": 400, "model": "autoencoder", "likelihood": "gaussian"}
    found = elbow(labelled(), [1, 2, 4, 6], 2, learning_rate=1e-2, runs=tmp_path, **options)
    losses = [point.loss for point in found.points]
    assert losses[0] > losses[1]
    assert found.elbow == 2
    assert found.targets == ("cluster", "coin")
    # Clusters are predicted perfectly and coins at chance: an accuracy of three quarters.
    assert found.points[-1].accuracy == pytest.approx(0.75, abs=0.08)
    assert found.points[-1].accuracy_sd is None


def test_each_size_has_the_accuracies_of_its_own_runs(tmp_path: Path) -> None:
    found = elbow(labelled(), [1, 3], seeds=[0, 1], learning_rate=1e-2, runs=tmp_path, **SMALL)
    for point in found.points:
        (alone,) = elbow(labelled(), [point.latents], seeds=[0, 1], learning_rate=1e-2, runs=tmp_path, **SMALL).points
        assert alone == point
    assert found.points[0].accuracies != found.points[1].accuracies


def test_a_repeated_check_trains_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = elbow(labelled(), [3, 1], seeds=[0, 1], runs=tmp_path, **SMALL)
    monkeypatch.setattr(Trainer, "advance", None)
    assert elbow(labelled(), (1, 3, 1), seeds=(0, 1, 1), runs=tmp_path, **SMALL) == first
    assert [point.latents for point in first.points] == [1, 3]
    assert len(list(Store(tmp_path).runs())) == 4


def test_data_without_labels_have_no_accuracy_and_the_summary_says_so(tmp_path: Path) -> None:
    found = elbow(ROWS, [2], runs=tmp_path, **SMALL)
    assert found.points[0].accuracies is found.points[0].accuracy is found.majority is None
    assert found.rows()[0]["accuracy"] is None
    assert "no accuracy" in found.summary()


def test_a_run_records_the_path_of_its_data(tmp_path: Path) -> None:
    np.save(tmp_path / "rows.npy", ROWS)
    elbow(tmp_path / "rows.npy", [1], runs=tmp_path, **SMALL)
    (run,) = Store(tmp_path).runs()
    assert run.provenance.source == str(tmp_path / "rows.npy")


def test_the_knee_is_furthest_from_the_chord_at_right_angles_on_normalised_axes() -> None:
    sizes, losses = (np.array(one, float) for one in zip(*BENT.items(), strict=True))
    across, down = (sizes - 2) / 22, (losses - 18) / 82
    # The chord goes from (0, 1) to (1, 0).
    assert curve(BENT).elbow == sizes[np.abs(across + down - 1).argmax()] == 8


def test_neither_shift_nor_scale_of_the_loss_moves_the_knee() -> None:
    assert curve({size: 1e-3 * loss - 50 for size, loss in BENT.items()}).elbow == 8


@pytest.mark.parametrize(
    "losses",
    [
        {3: 5.0},
        {3: 5.0, 6: 1.0},
        {3: 5.0, 6: 5.0, 9: 5.0},
        {3: 0.3, 6: 0.2, 9: 0.1},
        {3: 5.0, 6: 4.9, 9: 1.0},
        {3: 1.0, 6: 1.1, 9: 5.0},
    ],
    ids=["one size", "two sizes", "flat", "straight", "bent the other way", "rising"],
)
def test_a_curve_without_a_knee_has_none(losses: dict[int, float]) -> None:
    found = curve(losses, 6)
    assert found.elbow is found.agrees is None
    assert "6 cannot be checked" in found.summary()


def test_a_loss_that_rises_again_has_its_knee_at_the_lowest() -> None:
    found = curve({2: 10.0, 4: 2.0, 6: 11.0})
    assert found.elbow == 4
    assert "the reconstruction loss falls from 10 with 2 latents to 2 with 4, and is 11 with 6;" in found.summary()


def test_a_bend_within_the_spread_of_seeds_is_no_knee() -> None:
    def spread(deviation: float) -> Elbow:
        ends = (-deviation, deviation)
        return Elbow(None, tuple(ElbowPoint(size, tuple(loss + end for end in ends)) for size, loss in BENT.items()))

    assert spread(5.0).elbow == 8
    assert spread(50.0).elbow is None


@pytest.mark.parametrize(("chosen", "agrees"), [(3, False), (4, True), (7, True), (8, True), (12, True), (13, False)])
def test_the_chosen_number_agrees_within_the_sizes_around_the_knee(chosen: int, agrees: bool) -> None:
    assert curve(BENT, chosen).agrees is agrees


def test_the_summary_names_the_elbow_and_the_number_chosen() -> None:
    facts = (
        "at 8 latents",
        "7 is inside its neighbours, 4 and 12",
        "100 with 2 latents to 18 with 24",
        "95% of it with 8",
    )
    assert all(fact in curve(BENT, 7).summary() for fact in facts)
    assert "at 8 latents, the chosen number;" in curve(BENT, 8).summary()
    assert "16 is outside its neighbours, 4 and 12" in curve(BENT, 16).summary()
    assert curve(BENT).summary().startswith("the elbow is at 8 latents; the reconstruction loss falls")


def test_the_summary_describes_the_trend_of_the_accuracy() -> None:
    points = tuple(ElbowPoint(size, (loss,), (size / 32,)) for size, loss in BENT.items())
    text = "is 0.0625 with 2, 0.125 with 4, 0.25 with 8, 0.375 with 12, 0.75 with 24 (majority class 0.05)."
    assert Elbow(8, points, ("a", "b"), 0.05).summary().endswith(f"the accuracy for 2 targets {text}")
    assert f"the accuracy for shape {text}" in Elbow(8, points, ("shape",), 0.05).summary()


def test_the_summary_does_not_call_a_rise_a_fall() -> None:
    assert "the reconstruction loss is 1 with 3 latents, the lowest of all sizes;" in curve({3: 1.0, 6: 2.0}).summary()
    assert "at least 3 sizes" in curve({1: 1.0}).summary()
    assert "the reconstruction loss is 1 with 1 latent;" in curve({1: 1.0}).summary()


def test_rows_are_flat_and_mark_the_chosen_size() -> None:
    rows = curve(BENT, 12).rows()
    assert [row["latents"] for row in rows if row["chosen"]] == [12]
    assert [row["latents"] for row in rows if row["elbow"]] == [8]
    assert rows[0] == {
        "latents": 2,
        "loss": 100.0,
        "loss_sd": None,
        "accuracy": None,
        "accuracy_sd": None,
        "majority": None,
        "seeds": 1,
        "chosen": False,
        "elbow": False,
    }
    assert not any(row["chosen"] for row in curve(BENT, 7).rows())


def test_a_result_cannot_be_changed() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        curve(BENT).chosen = 3


@pytest.mark.parametrize(
    ("chosen", "limit", "sizes"),
    [
        (12, 4096, (3, 6, 9, 12, 18, 24, 36)),
        (10, 12, (2, 5, 8, 10, 12)),
        (2, 100, (1, 2, 3, 4, 6)),
        (1, 100, (1, 2, 3)),
        (1, 1, (1,)),
    ],
)
def test_default_sizes_lie_around_the_chosen_number(chosen: int, limit: int, sizes: tuple[int, ...]) -> None:
    assert default_sizes(chosen, limit) == sizes


@pytest.mark.parametrize(("chosen", "limit"), [(0, 5), (6, 5), (2.5, 5)])
def test_a_chosen_number_beyond_the_limit_is_named(chosen: Any, limit: int) -> None:
    with pytest.raises(ConfigurationError, match=f"chosen.*got {chosen}"):
        default_sizes(chosen, limit)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sizes": []}, "sizes.*got none"),
        ({"sizes": [3, 0]}, "sizes.*got 0"),
        ({"sizes": [2.5]}, "sizes.*got 2.5"),
        ({"sizes": 3}, r"sizes.*got 3\."),
        ({"sizes": "3"}, "sizes.*got '3'"),
        ({"seeds": []}, "seeds"),
        ({"seeds": [-1]}, "seeds.*got -1"),
        ({"chosen": 0}, "chosen.*got 0"),
        ({"items": 1}, "items.*got 1"),
        ({"held_out": 0}, "held_out"),
    ],
)
def test_a_wrong_setting_is_named(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=message):
        elbow(ROWS, **{**SMALL, "sizes": [1], "runs": tmp_path, **options})
    assert list(tmp_path.iterdir()) == []


def test_more_latents_than_dimensions_are_named(tmp_path: Path) -> None:
    with pytest.raises(LatentError, match="between 1 and 6"):
        elbow(ROWS, [2, 7], runs=tmp_path, **SMALL)


def test_an_unknown_name_lists_the_known(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="autoencoder"):
        elbow(ROWS, [2], runs=tmp_path, **{**SMALL, "model": "forest"})


def test_a_loss_that_is_not_finite_names_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Run, "last", lambda self, split: {"reconstruction": float("inf")})
    with pytest.raises(RunError, match=r"inf in run .* 1 latent"):
        elbow(ROWS, [1], runs=tmp_path, **SMALL)
