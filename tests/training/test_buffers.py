"""Persistent buffers are part of the state of a model: they are trained, moved and restored with the parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from vaescope.data import Dataset, open_dataset
from vaescope.errors import ConfigurationError
from vaescope.models import Architecture
from vaescope.nets import NETS, Net
from vaescope.nets.mlp import VectorDecoder, VectorEncoder
from vaescope.training import Member, Plan, State, Trainer
from vaescope.training.checkpoint import load_state, save_state

PLAN = Plan(6, 16, precision="float64", log_every=2, evaluate_every=6, monitor_every=2)
MEMBERS = (Member(2, seed=0), Member(4, seed=1))


class Scaled(nn.Module):
    """A decoder with one persistent factor for each input and a constant."""

    def __init__(self, inputs: int, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.register_buffer("scale", torch.full((inputs,), 2.0))
        self.register_buffer("constant", torch.tensor(1.0), persistent=False)
        self.inner = VectorDecoder(inputs, (5,), shape, "tanh")

    def forward(self, z: Tensor) -> Tensor:
        return self.inner(z * self.scale * self.constant)


@dataclass(frozen=True)
class ScaledNet(Net):
    """A net with state in buffers."""

    takes_vectors: ClassVar[bool] = True

    def encoder(self, shape: tuple[int, ...]) -> VectorEncoder:
        return VectorEncoder(shape[0], (5,), "tanh")

    def decoder(self, inputs: int, shape: tuple[int, ...]) -> Scaled:
        return Scaled(inputs, shape)


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    NETS.register("scaled", summary="a net with buffers")(ScaledNet)
    yield
    NETS.unregister("scaled")


@pytest.fixture(scope="module")
def data() -> Dataset:
    return open_dataset("gaussian-manifold", dimension=2, ambient=6, items=80)


def trainer(data: Dataset, *members: Member) -> Trainer:
    return Trainer(Architecture(net="scaled", likelihood="gaussian"), members, PLAN, data, data)


def finished(one: Trainer) -> Trainer:
    while not one.finished:
        one.advance()
    return one


def test_a_trained_model_has_the_buffers_of_its_state(data: Dataset) -> None:
    one = trainer(data, *MEMBERS)
    assert {name: tuple(values.shape) for name, values in one.state.buffers.items()} == {"decoder.scale": (2, 4)}
    one.state.buffers["decoder.scale"][0, :2] = 3.0
    assert one.model(0).state_dict()["decoder.scale"].tolist() == [3.0, 3.0]
    assert one.model(1).state_dict()["decoder.scale"].tolist() == [2.0] * 4


def test_buffers_take_part_in_training_alone_and_stacked(data: Dataset) -> None:
    together = trainer(data, *MEMBERS)
    together.state.buffers["decoder.scale"][0] = 0.5
    finished(together)
    alone = trainer(data, MEMBERS[0])
    alone.state.buffers["decoder.scale"].fill_(0.5)
    torch.testing.assert_close(together.member_state(0).parameters, finished(alone).state.parameters)
    other = finished(trainer(data, MEMBERS[0])).state.parameters
    assert not torch.allclose(alone.state.parameters, other)


def test_a_checkpoint_resumes_with_its_buffers(data: Dataset, tmp_path: Path) -> None:
    one = trainer(data, *MEMBERS)
    one.state.buffers["decoder.scale"].fill_(0.5)
    one.advance()
    save_state(tmp_path / "state.safetensors", one.state)
    again = trainer(data, *MEMBERS)
    again.load(load_state(tmp_path / "state.safetensors"))
    assert torch.equal(finished(again).state.parameters, finished(one).state.parameters)


def test_new_members_replace_the_buffers_of_old_ones(data: Dataset) -> None:
    one = trainer(data, *MEMBERS)
    one.state.buffers["decoder.scale"].fill_(0.5)
    states = [one.member_state(position) for position in range(2)]
    one.assign_slots(MEMBERS[::-1], [None, None])
    assert one.member_state(1).buffers["decoder.scale"].tolist() == [[2.0, 2.0]]
    one.assign_slots(MEMBERS, states)
    assert one.member_state(1).buffers["decoder.scale"].tolist() == [[0.5] * 4]


def test_a_state_without_the_buffers_of_the_model_is_refused(data: Dataset) -> None:
    one = trainer(data, *MEMBERS)
    state = one.state.copy()
    with pytest.raises(ConfigurationError, match=r"decoder\.scale"):
        one.load(State(state.step, state.parameters, state.slots))
