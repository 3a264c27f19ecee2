"""Runs of nets with BatchNorm: their statistics are in the model that encodes, is exported and is pruned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from vaescope.data.arrays import from_array
from vaescope.data.dataset import Dataset
from vaescope.runs import Run, export, fit, prune
from vaescope.training.checkpoint import load_state

NET = {"name": "resnet", "width": 2, "widest": 4, "smallest": 8}


@pytest.fixture(scope="module")
def images() -> Dataset:
    return from_array(np.random.default_rng(0).integers(0, 256, (60, 16, 16), dtype=np.uint8))


@pytest.fixture(scope="module")
def run(images: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return fit(
        images, 4, net=NET, steps=12, batch=8, learning_rate=1e-2, device="cpu", runs=tmp_path_factory.mktemp("runs")
    )


def statistics(tensors: dict[str, Any]) -> dict[str, torch.Tensor]:
    return {name: value for name, value in tensors.items() if "running" in name}


def test_the_statistics_of_training_are_those_of_the_model(run: Run) -> None:
    trained, state = statistics(run.model.state_dict()), load_state(run.path / "state.safetensors")
    assert len(trained) == 12
    assert all(torch.equal(value, state.buffers[name][0]) for name, value in trained.items())
    fresh = run.configuration.architecture.build((1, 16, 16), 4, seed=0).state_dict()
    assert not any(torch.allclose(value, fresh[name]) for name, value in trained.items())


def test_a_model_is_built_from_tensors_in_any_order(run: Run) -> None:
    tensors = run.model.state_dict()
    for last in tensors:
        model = run.configuration.build({last: tensors[last], **tensors})
        assert {value.dtype for value in model.state_dict().values()} == {torch.float32, torch.int64}


def test_codes_and_reconstructions_of_an_item_do_not_depend_on_other_items(run: Run, images: Dataset) -> None:
    x = images.batch(torch.arange(8))
    torch.testing.assert_close(run.encode(x[:1]).mean, run.encode(x).mean[:1], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(run.reconstruct(x[:1]), run.reconstruct(x)[:1], rtol=1e-4, atol=1e-5)
    before = statistics(Run.open(run.path).model.state_dict())
    after = statistics(run.model.state_dict())
    assert all(torch.equal(value, after[name]) for name, value in before.items())


def test_exported_files_agree_with_the_model(run: Run, images: Dataset, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    found = export(run, tmp_path, data=images)
    assert [file.max_difference <= 1e-5 for file in found.files] == [True, True]


def test_a_pruned_run_decodes_as_the_whole_with_latents_held(run: Run, images: Dataset) -> None:
    found = prune(run, images, keep=[0, 2])
    x = images.batch(torch.arange(20))
    z = run.model.encode(x).mean
    z[:, [1, 3]] = found.fill[[1, 3]].to(z)
    expected = run.model.decode(z).mean
    torch.testing.assert_close(found.run.reconstruct(x), expected, rtol=0, atol=1e-4)
    assert not torch.allclose(expected, run.reconstruct(x), rtol=0, atol=1e-4)
