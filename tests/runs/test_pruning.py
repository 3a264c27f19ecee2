"""A pruned run: fewer latents, the same reconstructions, its own id and folder."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from vaescope.data import Dataset, open_dataset
from vaescope.data.arrays import from_array
from vaescope.data.conditions import condition_width
from vaescope.diagnosis import compare, diagnose
from vaescope.encoding import encode
from vaescope.errors import ConfigurationError, DataError, LatentError, RunError, UnknownNameError
from vaescope.models import MODELS, Architecture
from vaescope.nets import MLP
from vaescope.runs import Configuration, Run, Split, Store, fit, summary
from vaescope.runs.configuration import Pruning
from vaescope.runs.journal import Journal
from vaescope.runs.pruning import Pruned, prune
from vaescope.runs.record import Provenance
from vaescope.runs.sealed import sealed
from vaescope.training import Member, Plan

NET = MLP((12,), (10,))
# The posterior's log-variances of four latents: active, passive, mixed, active.
LOG_VARIANCES = (-5.0, 0.0, -1.0, -4.0)
ROWS = np.arange(24, dtype=np.float64).reshape(6, 4)


def made(folder: Path, data: Any = "digits", model: str = "vae", **parts: Any) -> Run:
    """A complete, untrained run with known types of latents; the mean of the passive one is always 0.7."""
    source = data if isinstance(data, str) else None
    opened: Dataset = open_dataset(data)
    told = MODELS[model].condition
    posterior = {"posterior": "deterministic"} if model == "autoencoder" else {}
    condition = condition_width(opened, told) if told else 0
    architecture = Architecture(model, **{"net": NET, **posterior, **parts}, condition=condition)
    configuration = Configuration.of(opened, Split(0), architecture, Plan(1), Member(len(LOG_VARIANCES)))
    net: Any = architecture.build(opened.shape, len(LOG_VARIANCES), seed=4)
    with torch.no_grad():
        if hasattr(net.posterior, "log_variance"):
            net.posterior.log_variance.weight.zero_()
            net.posterior.log_variance.bias.copy_(torch.tensor(LOG_VARIANCES))
        net.posterior.mean.weight[1] = 0
        net.posterior.mean.bias[1] = 0.7
    path = folder / configuration.id
    path.mkdir(parents=True)
    Journal(path).append([{"step": 1, "split": "train", "loss": 1.0}])
    return Run.create(path, configuration, Provenance(source=source, device="cpu")).finish(net)


def folders(path: Path) -> set[str]:
    return {file.parent.name for file in path.glob("*/run.json")}


def test_passive_latents_are_dropped_and_reconstructions_stay(tmp_path: Path) -> None:
    original = made(tmp_path)
    found = prune(original)
    assert (found.kept, found.dropped) == ((0, 2, 3), (1,))
    assert found.max_difference <= 1e-6
    assert found.run.configuration.member.latents == 3
    assert found.run.path.parent == tmp_path
    ours, theirs = encode(found.run.model, "digits"), encode(original.model, "digits")
    torch.testing.assert_close(ours.mean, theirs.mean[:, [0, 2, 3]])
    torch.testing.assert_close(ours.variance, theirs.variance[:, [0, 2, 3]])


def test_keep_active_keeps_only_active_latents(tmp_path: Path) -> None:
    found = prune(made(tmp_path), keep="active")
    assert (found.kept, found.dropped) == ((0, 3), (1, 2))
    assert found.mean_difference > 1e-4
    assert "1 mixed latents were dropped" in found.summary()


def test_latents_are_kept_by_number(tmp_path: Path) -> None:
    original = made(tmp_path)
    found = prune(original.id[:8], keep=[2, 0], runs=tmp_path)
    assert found.kept == (0, 2)
    assert found.run.configuration.pruned == Pruning(original.id, (0, 2), open_dataset("digits").fingerprint)
    assert "mixed" not in found.summary()


def test_the_differences_are_those_of_the_reconstructions(tmp_path: Path) -> None:
    original, data = made(tmp_path), open_dataset("digits")
    found = prune(original, keep="active")
    x = data.batch(torch.arange(len(data)))
    with torch.no_grad():
        one, other = (run.model.decode(run.model.encode(x).mean).mean for run in (found.run, original))
    assert found.mean_difference == pytest.approx(float((one - other).abs().mean()), rel=1e-4)
    assert found.max_difference == pytest.approx(float((one - other).abs().max()), rel=1e-4)


def test_dropped_latents_are_held_at_their_mean_and_reported(tmp_path: Path) -> None:
    original = made(tmp_path)
    found = prune(original, keep="active")
    rows = found.rows()
    assert [row["now"] for row in rows] == [0, None, None, 1]
    assert [row["held_at"] is None for row in rows] == [True, False, False, True]
    assert rows[1]["held_at"] == pytest.approx(0.7)
    assert rows[2]["held_at"] == pytest.approx(float(encode(original.model, "digits").mean[:, 2].mean()), rel=1e-5)
    # Four latents less two: rows of both heads, with a bias each, and columns of the decoder.
    assert found.original_parameters - found.parameters == 2 * (2 * (12 + 1) + 10)
    assert found.original_rate - found.rate == pytest.approx(rows[1]["kl"] + rows[2]["kl"])
    written = json.loads(json.dumps(found.plain(), allow_nan=False))
    assert (written["run"], written["original"]) == (found.run.id, original.id)
    assert found.run.id in found.summary()


@pytest.mark.parametrize(("model", "name"), [("conditional", "digits"), ("identifiable", "dsprites-small")])
def test_conditional_models_are_pruned_too(model: str, name: str, tmp_path: Path) -> None:
    data = open_dataset(name).draw(50)
    original = made(tmp_path, data, model)
    found = prune(original, data, keep=[0, 2, 3])
    assert found.max_difference <= 1e-5
    assert found.run.configuration.architecture == original.configuration.architecture


def test_an_autoencoder_has_active_latents_only_but_may_lose_some_by_number(tmp_path: Path) -> None:
    original = made(tmp_path, model="autoencoder")
    assert prune(original).run == original
    found = prune(original, keep=[0, 2, 3])
    assert found.max_difference <= 1e-6
    assert found.plain()["rate"] is None
    assert "nats" not in found.summary()


def test_nothing_to_drop_gives_the_original_and_writes_nothing(tmp_path: Path) -> None:
    original = made(tmp_path)
    found = prune(original, keep=range(4))
    assert found.run == original
    assert (found.dropped, found.max_difference) == ((), 0)
    assert folders(tmp_path) == {original.id}
    assert "nothing to prune" in found.summary()


def stamps(run: Run) -> dict[str, tuple[int, int]]:
    return {file.name: (file.stat().st_ino, file.stat().st_mtime_ns) for file in run.path.glob("*.*")}


def test_pruning_twice_writes_once(tmp_path: Path) -> None:
    original = made(tmp_path)
    first = prune(original)
    before = stamps(first.run)
    second = prune(original, alpha=0.11)
    assert stamps(second.run) == before
    assert (second.run, second.plain()) == (first.run, first.plain())


def test_a_half_written_pruned_run_is_written_again(tmp_path: Path) -> None:
    original = made(tmp_path)
    run = prune(original).run
    weights = run.model.state_dict()
    (run.path / "model.safetensors").unlink()
    with pytest.raises(RunError, match=rf"no such file\. Prune run {original.id} again"):
        _ = Run.open(run.path).model
    again = prune(original).run
    assert all(torch.equal(value, weights[name]) for name, value in again.model.state_dict().items())
    record = {**again.record.table(), "status": "training"}
    (run.path / "run.json").write_text(json.dumps(sealed(record)))
    with pytest.raises(RunError, match=f"Prune run {original.id} again"):
        _ = Run.open(run.path).model
    assert prune(original).run.status == "complete"


def test_other_items_give_another_run(tmp_path: Path) -> None:
    original = made(tmp_path)
    runs = {prune(original, items=items, seed=seed).run.id for items, seed in ((100, 0), (100, 1), (200, 0))}
    assert len(runs) == 3


def test_a_pruned_run_is_pruned_further(tmp_path: Path) -> None:
    original = made(tmp_path)
    first = prune(original, keep="used")
    second = prune(first.run, keep="active")
    assert second.kept == (0, 2)
    assert second.run.configuration.pruned is not None
    assert second.run.configuration.pruned.run == first.run.id
    both = prune(original, keep="active")
    for name, value in both.run.model.state_dict().items():
        torch.testing.assert_close(second.run.model.state_dict()[name], value, rtol=1e-5, atol=1e-6)


def test_a_pruned_run_works_like_any_other(tmp_path: Path) -> None:
    original = made(tmp_path)
    run = prune(original, keep="active").run
    opened = Run.open(run.path)
    assert (opened.history, opened.last("test"), opened.status) == ([], {}, "complete")
    assert opened.provenance.source == "digits"
    assert (summary(opened)["latents"], summary(opened)["step"]) == (2, 0)
    store = Store(tmp_path)
    assert store.query("SELECT max(latents), min(latents) FROM runs")[1] == [(4, 2)]
    assert store.find(run.id[:6]) == opened
    assert diagnose(opened).types.counts == {"active": 2, "mixed": 0, "passive": 0}
    assert compare([original, opened]).rows()[1]["latents"] == 2


def test_fitting_with_as_many_latents_trains(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"net": NET, "steps": 2, "runs": tmp_path, "device": "cpu"}
    original = fit("digits", 3, **settings)
    small = prune(original, keep=[0, 2]).run
    trained = fit("digits", 2, **settings)
    assert trained.id != small.id
    assert trained.history
    assert replace(small.configuration, pruned=None).id == trained.id


def test_runs_that_are_not_pruned_keep_their_ids() -> None:
    architecture = Architecture(net="mlp", likelihood="gaussian")
    configuration = Configuration.of(from_array(ROWS), Split(), architecture, Plan(100), Member(2))
    assert configuration.id == "f828516b27f5"
    assert "pruned" not in configuration.plain()


def test_a_pruned_configuration_survives_json_and_includes_the_kept_latents() -> None:
    base = Configuration.of(from_array(ROWS), Split(), Architecture(net="mlp"), Plan(100), Member(2))
    changes = [
        Pruning("a", (0, 1), "x"),
        Pruning("b", (0, 1), "x"),
        Pruning("a", (0, 2), "x"),
        Pruning("a", (0, 1), "y"),
    ]
    changed = [replace(base, pruned=change) for change in changes]
    assert len({one.id for one in (base, *changed)}) == 5
    for one in changed:
        read = json.loads(json.dumps(one.plain()))
        assert Configuration.from_plain(read) == one
        assert Configuration.from_plain(read).id == one.id


def test_a_collapsed_run_is_refused(tmp_path: Path) -> None:
    original = made(tmp_path)
    with torch.no_grad():
        original.model.posterior.log_variance.bias.zero_()
    with pytest.raises(LatentError, match=rf"run {original.id} .*active or mixed"):
        prune(original, keep="used")
    assert folders(tmp_path) == {original.id}


def test_a_model_without_an_encoder_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    run = fit("digits", 3, model="vgon", net=NET, steps=2, runs=tmp_path, device="cpu")
    with pytest.raises(ConfigurationError, match="'vgon' cannot be pruned"):
        prune(run, keep=[0])
    assert folders(tmp_path) == {run.id}


def test_data_that_cannot_be_opened_must_be_passed(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).random((30, 6))
    path = made(tmp_path, from_array(rows), likelihood="gaussian").path
    with pytest.raises(DataError, match="data in memory"):
        prune(path)
    assert isinstance(prune(path, rows, keep="used"), Pruned)


def test_an_invalid_selection_is_named(tmp_path: Path) -> None:
    original = made(tmp_path)
    with pytest.raises(UnknownNameError, match=r"keep.* active, used"):
        prune(original, keep="alive")
    with pytest.raises(LatentError, match=r"whole numbers from 0 to 3.*got \[4\]"):
        prune(original, keep=[4])
    codes = tmp_path / "codes.npz"
    codes.write_bytes(b"")
    with pytest.raises(ConfigurationError, match=r"run must be .*codes\.npz"):
        prune(codes)


@pytest.mark.slow
def test_a_trained_model_loses_its_passive_latents_and_reconstructs_the_same(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    items = draw.standard_normal((2000, 3)) @ draw.standard_normal((3, 12)) + 0.1 * draw.standard_normal((2000, 12))
    items *= 0.3
    likelihood = {"name": "gaussian", "variance": 0.02}
    settings: dict[str, Any] = {"steps": 2000, "learning_rate": 3e-3, "batch": 32, "monitor_every": 0, "device": "cpu"}
    run = fit(items, 8, likelihood=likelihood, net=MLP((32,), (32,)), runs=tmp_path, **settings)
    used = prune(run)
    assert len(used.types.passive) >= 2
    assert used.dropped == used.types.passive
    assert used.mean_difference <= 1e-3
    assert used.run.configuration.member.latents == len(used.types.active) + len(used.types.mixed)
    active = prune(run, keep="active")
    assert active.kept == active.types.active
    assert active.run.configuration.member.latents == len(active.types.active)
    assert diagnose(used.run).types.passive == ()
