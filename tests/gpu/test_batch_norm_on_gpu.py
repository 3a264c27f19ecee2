"""On a GPU: an ensemble of nets with BatchNorm is the models trained alone on a CPU, statistics included."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from vaescope.data.arrays import from_array
from vaescope.models import Architecture
from vaescope.nets import ResNet
from vaescope.training import Member, Plan, Trainer
from vaescope.training.checkpoint import load_state, save_state

ARCHITECTURE = Architecture(net=ResNet(width=4, widest=8))
DATA = from_array(np.random.default_rng(0).integers(0, 256, (120, 32, 32), dtype=np.uint8))
MEMBERS = tuple(Member(latents, learning_rate=1e-3, seed=seed) for seed, latents in enumerate((4, 2, 4, 3)))


def prepared(members: tuple[Member, ...], device: str, precision: str) -> Trainer:
    plan = Plan(30, 16, precision=precision, log_every=10, evaluate_every=30, monitor_every=10)
    return Trainer(ARCHITECTURE, members, plan, *DATA.split(0.2), device)


def finished(trainer: Trainer) -> Trainer:
    while not trainer.finished:
        trainer.advance()
    return trainer


def test_four_members_equal_models_trained_alone_on_the_cpu() -> None:
    together = finished(prepared(MEMBERS, "cuda", "float64"))
    for position, member in enumerate(MEMBERS):
        alone = finished(prepared((member,), "cpu", "float64")).model().state_dict()
        for name, value in together.model(position).state_dict().items():
            assert float((value - alone[name]).double().abs().max()) <= 1e-9, name


@pytest.mark.parametrize("precision", ["tf32", "bfloat16"])
def test_statistics_stay_in_float32_in_lower_precision(precision: str) -> None:
    coarse, exact = finished(prepared(MEMBERS, "cuda", precision)), finished(prepared(MEMBERS, "cpu", "float64"))
    for name, value in coarse.state.buffers.items():
        if "running_var" in name:
            assert value.dtype == torch.float32
            assert not torch.equal(value, value.bfloat16().float())
            torch.testing.assert_close(value.cpu().double(), exact.state.buffers[name], rtol=0.2, atol=0.02)


def test_training_resumes_with_its_statistics(tmp_path: Path) -> None:
    whole, first = finished(prepared(MEMBERS, "cuda", "float64")), prepared(MEMBERS, "cuda", "float64")
    first.advance()
    save_state(tmp_path / "state.safetensors", first.state)
    second = prepared(MEMBERS, "cuda", "float64")
    second.load(load_state(tmp_path / "state.safetensors"))
    finished(second)
    torch.testing.assert_close(second.state.parameters, whole.state.parameters, rtol=0, atol=1e-9)
    for name, value in whole.state.buffers.items():
        torch.testing.assert_close(second.state.buffers[name], value, rtol=0, atol=1e-9)
