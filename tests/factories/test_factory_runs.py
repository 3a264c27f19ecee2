"""Runs of a factory: kept without code, resumed exactly, opened with the factory, used as any other run."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import vaescope as vs
from factories import DIMENSIONS, Dropped, Normal, Plain, Tied, plain
from vaescope.errors import ChangedFactoryWarning, ConfigurationError, LatentError, RunError, VaescopeError
from vaescope.models import FactoryArchitecture, factory_architecture
from vaescope.runs import Run
from vaescope.training.checkpoint import load_tensors

DATA = np.random.default_rng(0).normal(size=(120, 3)) @ np.random.default_rng(1).normal(size=(3, DIMENSIONS))
OPTIONS = {"steps": 40, "batch": 16, "log_every": 10, "learning_rate": 1e-2, "device": "cpu"}


def fitted(folder: Path, factory: object = plain, latents: int = 4, **options: object) -> Run:
    return vs.fit(DATA, latents, model=factory, runs=folder, **{**OPTIONS, **options})


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return fitted(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def _another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """No factory is remembered, as in a process that trained nothing."""
    monkeypatch.setattr(factory_architecture, "_KNOWN", {})


def weights(run: Run) -> dict[str, torch.Tensor]:
    return load_tensors(run.path / "model.safetensors")[0]


def test_the_same_call_opens_the_same_run(run: Run) -> None:
    assert fitted(run.path.parent).id == run.id
    assert fitted(run.path.parent, lambda latents: Plain(latents, width=7), steps=1).id != run.id


class Sizes:
    def __init__(self, width: int) -> None:
        self.width = width

    def build(self, latents: int) -> Plain:
        return Plain(latents, width=self.width)


@pytest.mark.parametrize(
    "factory",
    [Plain, partial(Plain, width=5), lambda latents: Plain(latents, width=6), Sizes(7).build],
    ids=["class", "partial", "lambda", "method"],
)
def test_a_run_opens_in_the_process_that_trained_it(factory: object, tmp_path: Path) -> None:
    found = Run.open(fitted(tmp_path, factory, steps=1).path)
    assert found.model.module.features[0].weight.shape[1] == DIMENSIONS
    assert "of 4 latents" in vs.diagnose(found, DATA).summary()


def test_a_run_keeps_the_name_and_hashes_of_a_factory_and_no_code(run: Run) -> None:
    kept = run.configuration.plain()["architecture"]["factory"]
    assert kept["name"] == "factories:plain"
    assert set(kept["sources"]) == {"factories:plain", "factories:Plain"}
    assert all(len(digest) == 12 for digest in (kept["built"], *kept["sources"].values()))
    assert vs.runs.summary(run)["model"] == "factories:plain"


@pytest.mark.parametrize("factory", [plain, Dropped, Normal, Tied])
def test_an_interrupted_run_resumes_bit_for_bit(factory: object, tmp_path: Path) -> None:
    def stop(row: vs.runs.RecordedRow) -> None:
        if row.step == 20:
            raise KeyError("stop")

    with pytest.raises(KeyError):
        fitted(tmp_path / "stopped", factory, on_row=stop)
    whole, resumed = weights(fitted(tmp_path / "whole", factory)), weights(fitted(tmp_path / "stopped", factory))
    assert whole.keys() == resumed.keys()
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_runs_of_several_sizes_and_seeds_equal_runs_alone(tmp_path: Path) -> None:
    # A bias in front of BatchNorm has only rounding as its gradient, which Adam enlarges: a small rate keeps it small.
    members = [vs.Member(latents, learning_rate=1e-3, seed=seed) for latents in (2, 4) for seed in (0, 1)]
    together = vs.fit_many(
        DATA, members, vs.FitOptions(model=plain, runs=tmp_path, steps=20, batch=16, precision="float64", device="cpu")
    )
    alone = fitted(tmp_path / "alone", seed=1, steps=20, precision="float64", log_every=None, learning_rate=1e-3)
    ours, theirs = weights(together[-1]), weights(alone)
    assert together[-1].id == alone.id
    assert all(torch.allclose(ours[name].double(), theirs[name].double(), rtol=0, atol=1e-9) for name in theirs)


def test_training_longer_equals_training_at_once(run: Run) -> None:
    longer = vs.resume(run, steps=60)
    again = fitted(run.path.parent / "again", steps=60, evaluate_every=run.configuration.plan.evaluate_every)
    ours, theirs = weights(longer), weights(again)
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_training_starts_from_the_weights_of_a_run(run: Run) -> None:
    started = vs.fit(DATA, start=run, runs=run.path.parent, **{**OPTIONS, "steps": 10})
    assert started.record.provenance.started_from.run == run.id
    assert started.last("train")["loss"] < run.history[0]["loss"]
    with pytest.raises(ConfigurationError, match=r"the factory has changed since run .* the source of Normal"):
        vs.fit(DATA, start=run, model=Normal, runs=run.path.parent, **OPTIONS)


@pytest.mark.usefixtures("_another_process")
def test_another_process_passes_the_factory(run: Run) -> None:
    opened = vs.load(run.path)
    assert opened.history == run.history
    with pytest.raises(RunError, match=r"the factory 'factories:plain'.*vs\.load\('\w+', model=factories\.plain\)"):
        _ = opened.model
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        given = vs.load(run.path, model=plain)
    wanted, found = run.encode(DATA), given.encode(DATA)
    assert torch.equal(found.mean, wanted.mean)
    assert torch.equal(vs.load(run.path).encode(DATA).mean, wanted.mean)  # remembered from now on


@pytest.mark.usefixtures("_another_process")
def test_another_process_continues_a_run_with_its_factory(run: Run, tmp_path: Path) -> None:
    options = {**OPTIONS, "steps": 12, "runs": tmp_path}
    for call in (lambda: vs.resume(run, steps=50), lambda: vs.fit(DATA, start=run.path, **options)):
        with pytest.raises(RunError, match=r"vs\.load\('\w+', model=factories\.plain\)"):
            call()
    started = vs.fit(DATA, start=run.path, model=plain, **options)
    assert started.configuration.start == run.id
    assert vs.resume(run, steps=50).configuration.plan.steps == 50


@pytest.mark.usefixtures("_another_process")
def test_a_factory_that_cannot_be_imported_is_named_so(tmp_path: Path) -> None:
    run = fitted(tmp_path, lambda latents: Plain(latents), steps=2)
    assert run.configuration.plain()["architecture"]["factory"]["name"] is None
    factory_architecture._KNOWN.clear()
    with pytest.raises(RunError, match=r"vs\.load\('\w+', model=factory\)"):
        _ = Run.open(run.path).model


@pytest.fixture
def editable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module with a factory, whose source a test changes."""
    file = tmp_path / "edited_models.py"
    source = (Path(__file__).parent / "factories.py").read_text()
    file.write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    # Compiled code is taken for current if its source is as long and as old in seconds.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield file
    sys.modules.pop("edited_models", None)


def imported(file: Path, *changes: str) -> object:
    """The factory of a module after changes of its source, as a new process would import it."""
    source = file.read_text()
    for before, after in zip(changes[::2], changes[1::2], strict=True):
        assert before in source
        source = source.replace(before, after)
    file.write_text(source)
    sys.modules.pop(file.stem, None)
    importlib.invalidate_caches()
    return importlib.import_module(file.stem).plain


def test_a_changed_source_is_noticed(editable: Path, tmp_path: Path) -> None:
    run = fitted(tmp_path, imported(editable), steps=2)
    changed = imported(editable, "nn.ReLU()", "nn.Tanh()")
    with pytest.warns(ChangedFactoryWarning, match=r"the source of Plain, the settings or shapes"):
        opened = vs.load(run.path, model=changed)
    assert opened.model.item_shape == (DIMENSIONS,)
    assert fitted(tmp_path, changed, steps=2).id != run.id


def test_a_factory_of_other_shapes_cannot_hold_the_weights(run: Run) -> None:
    with pytest.warns(ChangedFactoryWarning):
        opened = vs.load(run.path, model=lambda latents: Plain(latents, width=5))
    with pytest.raises(RunError, match=r"the tensor '.*' of shape"):
        _ = opened.model
    vs.load(run.path, model=plain)


def test_a_registered_model_needs_no_factory(tmp_path: Path) -> None:
    run = vs.fit(DATA, 2, net="mlp", runs=tmp_path, **{**OPTIONS, "steps": 2})
    with pytest.raises(ConfigurationError, match="needs no factory"):
        vs.load(run, model=plain)


def test_a_pruned_run_decodes_as_the_whole_one(run: Run) -> None:
    found = vs.prune(run, keep=[0, 2])
    assert found.run.configuration.member.latents == 2
    whole, small, fill = run.model, found.run.model, found.fill
    z = torch.randn(6, 2, generator=torch.Generator().manual_seed(0))
    wide = fill.float().expand(6, -1).clone()
    wide[:, [0, 2]] = z
    assert (whole.decode(wide).mean - small.decode(z).mean).abs().max() < 1e-4
    assert torch.equal(run.encode(DATA).mean[:, [0, 2]], found.run.encode(DATA).mean)
    again = vs.prune(found.run, keep=[1])
    assert torch.equal(again.run.encode(DATA).mean, run.encode(DATA).mean[:, [2]])
    assert Run.open(again.run.path).model.latent_mask.tolist() == [1.0]


def test_a_run_is_exported_compared_diagnosed_and_reported(run: Run, tmp_path: Path) -> None:
    assert "of 4 latents" in vs.diagnose(run).summary()
    other = fitted(run.path.parent, seed=1)
    assert vs.compare([run, other]).matrix.shape == (2, 2)
    page = vs.report(run, tmp_path / "report.html", layers=False).read_text(encoding="utf-8")
    assert "factories:plain" in page
    pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    assert max(file.max_difference for file in vs.export(run, tmp_path / "onnx").files) < 1e-5


def test_a_hostile_factory_of_a_run_is_refused(run: Run) -> None:
    table = run.configuration.plain()
    for changed in ({"name": 3}, {"sources": []}, {"built": None}, {"more": 1}):
        broken = {**table["architecture"], "factory": {**table["architecture"]["factory"], **changed}}
        with pytest.raises(VaescopeError):
            type(run.configuration).from_plain({**table, "architecture": broken})


def test_a_factory_may_build_a_model_with_more_latents_than_dimensions(tmp_path: Path) -> None:
    with pytest.raises(LatentError):
        fitted(tmp_path, latents=DIMENSIONS + 1, steps=4)
    described = fitted(tmp_path, latents=DIMENSIONS + 1, steps=4, overcomplete=True).configuration.architecture
    assert FactoryArchitecture.from_plain(described.plain()) == described
    assert "overcomplete" not in FactoryArchitecture.of(plain, (DIMENSIONS,), None, None, "gaussian").plain()
