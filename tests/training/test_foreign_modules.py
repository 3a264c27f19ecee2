"""Users' modules in training: BatchNorm, dropout, tied weights, and operations that cannot be batched."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.fx.experimental.proxy_tensor import make_fx

from vaescope.data import Dataset, open_dataset
from vaescope.models import Architecture
from vaescope.nets import NETS, Net
from vaescope.nets.mlp import VectorDecoder
from vaescope.nets.net import Shape
from vaescope.numerics.counter import seeded
from vaescope.training import Member, Plan, Trainer
from vaescope.training.batches import draw_noise
from vaescope.training.checkpoint import load_state, save_state
from vaescope.training.engines import SingleEngine, StackedEngine

WIDTH = 6
PLAN = Plan(6, 16, precision="float64", log_every=2, evaluate_every=2, monitor_every=2)
MEMBERS = (Member(2, learning_rate=1e-2, seed=0), Member(3, learning_rate=1e-2, seed=1))


class Normalised(nn.Sequential):
    """An encoder with BatchNorm."""

    features = WIDTH

    def __init__(self, width: int) -> None:
        super().__init__(nn.Linear(width, WIDTH), nn.BatchNorm1d(WIDTH), nn.Tanh())


class Dropped(nn.Sequential):
    """An encoder with dropout."""

    features = WIDTH

    def __init__(self, width: int) -> None:
        super().__init__(nn.Linear(width, WIDTH), nn.Dropout(0.4), nn.Tanh())


class Stubborn(nn.Module):
    """An encoder whose operations depend on values, and which replaces its buffer by a new tensor."""

    features = WIDTH

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, WIDTH)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls = self.calls + 1
        hidden: Tensor = self.layer(x)
        return hidden.tanh() if float(hidden.sum()) > 0 else hidden


class Tied(nn.Module):
    """An encoder that uses one layer under two names."""

    features = WIDTH

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.Linear(width, WIDTH)
        self.again = self.layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x).tanh() + self.again(x)


class Recurrent(nn.Module):
    """An encoder whose layer can be batched with gradients, but not without."""

    features = WIDTH

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layer = nn.GRU(width, WIDTH, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.layer(x[:, None])[0]
        return outputs[:, 0]


ENCODERS = {"normalised": Normalised, "dropped": Dropped, "stubborn": Stubborn, "tied": Tied, "recurrent": Recurrent}


@dataclass(frozen=True)
class ForeignNet(Net):
    """A net with one of the encoders."""

    kind: str = "normalised"

    def encoder(self, shape: Shape) -> nn.Module:  # type: ignore[override]
        return ENCODERS[self.kind](shape[0])

    def decoder(self, inputs: int, shape: Shape) -> VectorDecoder:
        return VectorDecoder(inputs, (5,), shape, "tanh")


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    NETS.register("foreign", summary="modules of other people")(ForeignNet)
    yield
    NETS.unregister("foreign")


@pytest.fixture(scope="module")
def data() -> Dataset:
    return open_dataset("gaussian-manifold", dimension=2, ambient=8, items=80)


def trainer(data: Dataset, kind: str, *members: Member, plan: Plan = PLAN) -> Trainer:
    return Trainer(Architecture(net=ForeignNet(kind), likelihood="gaussian"), members, plan, data, data)


def finished(one: Trainer) -> Trainer:
    while not one.finished:
        one.advance()
    return one


def stepped(one: Trainer) -> dict[str, Tensor]:
    """The buffers of the first member after a forward pass by hand on the items and noise of the first step."""
    model = one.model(0).train().double()
    noise = draw_noise(one.ensemble.noise, one.ensemble.inputs.seeds[:1], range(1), PLAN.batch, torch.float64)
    x = one.data.batch(one.order.indices(range(1))[0, 0])
    model(x.double(), {name: draw[0, 0, :, : one.members[0].latents] for name, draw in noise.items()})
    return {name: buffer for name, buffer in model.named_buffers() if name != "latent_mask"}


@pytest.mark.parametrize("members", [MEMBERS[:1], MEMBERS], ids=["alone", "stacked"])
def test_batch_norm_keeps_the_statistics_of_a_plain_forward_pass(data: Dataset, members: tuple[Member, ...]) -> None:
    one = trainer(data, "normalised", *members)
    assert isinstance(one.engine, SingleEngine if len(members) == 1 else StackedEngine)
    expected = stepped(one)
    one.advance(until=1)
    trained = one.model(0)
    for name, buffer in expected.items():
        torch.testing.assert_close(trained.get_buffer(name), buffer, rtol=1e-12, atol=0)
    assert trained.get_buffer("encoder.1.num_batches_tracked") == 1
    assert not torch.equal(trained.get_buffer("encoder.1.running_var"), torch.ones(WIDTH))


def test_evaluation_uses_running_statistics_and_leaves_them(data: Dataset) -> None:
    """The test loss is that of evaluation mode; probing and evaluating change no buffer."""
    one = trainer(data, "normalised", *MEMBERS)
    finished(one)
    before = one.state.copy()
    assert one._evaluated is not None
    first = one.ensemble.evaluate(one.state, one._evaluated)
    one.monitor.probe(one.state)
    assert torch.equal(one.ensemble.evaluate(one.state, one._evaluated)["loss"], first["loss"])
    for name, buffer in before.buffers.items():
        assert torch.equal(one.state.buffers[name], buffer)
    one.state.buffers["encoder.1.running_mean"] += 1.0
    assert not torch.allclose(one.ensemble.evaluate(one.state, one._evaluated)["loss"], first["loss"])


@pytest.mark.parametrize("kind", sorted(ENCODERS))
def test_a_member_of_an_ensemble_is_the_member_alone(data: Dataset, kind: str) -> None:
    together, alone = trainer(data, kind, *MEMBERS), trainer(data, kind, MEMBERS[1])
    rows = [[row for row in one.advance() if row.member == len(one.members) - 1] for one in (together, alone)]
    for mine, other in zip(*rows, strict=True):
        assert (mine.step, mine.split, mine.values.keys()) == (other.step, other.split, other.values.keys())
        for name in {"loss", "rate"} & mine.values.keys():
            assert mine.values[name] == pytest.approx(other.values[name], rel=1e-9)
    state, other_state = finished(together).member_state(1), finished(alone).member_state(0)
    torch.testing.assert_close(state.parameters, other_state.parameters, rtol=1e-7, atol=1e-9)
    for name, buffer in other_state.buffers.items():
        # The gradient of a bias before BatchNorm is only rounding, which Adam turns into a step.
        torch.testing.assert_close(state.buffers[name], buffer, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("kind", sorted(ENCODERS))
@pytest.mark.parametrize("members", [MEMBERS[:1], MEMBERS], ids=["alone", "together"])
def test_training_resumes_bit_for_bit(data: Dataset, kind: str, members: tuple[Member, ...], tmp_path: Path) -> None:
    """A checkpoint between two rows, read in another trainer, ends in the same state."""
    whole, first = (trainer(data, kind, *members) for _ in range(2))
    finished(whole)
    first.advance()
    first.advance(until=3)
    save_state(tmp_path / "state.safetensors", first.state)
    second = trainer(data, kind, *members)
    second.load(load_state(tmp_path / "state.safetensors"))
    torch.rand(3)  # the state of torch's own generator makes no difference
    finished(second)
    assert torch.equal(second.state.parameters, whole.state.parameters)
    assert all(torch.equal(second.state.buffers[name], buffer) for name, buffer in whole.state.buffers.items())


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("normalised", ""),
        ("tied", ""),
        ("dropped", "random numbers"),
        ("stubborn", "torch cannot batch it"),
        ("recurrent", "torch cannot batch it"),
    ],
)
def test_what_cannot_be_batched_trains_one_by_one(data: Dataset, kind: str, reason: str) -> None:
    one = trainer(data, kind, *MEMBERS)
    assert reason in one.ensemble.one_by_one
    assert bool(one.ensemble.one_by_one) == bool(reason)
    assert isinstance(one.engine, SingleEngine if reason else StackedEngine)
    assert one.ensemble.draws == (kind == "dropped")


def test_weights_that_a_constructor_draws_depend_on_the_seed_alone(data: Dataset) -> None:
    architecture, before = Architecture(net=ForeignNet("recurrent"), likelihood="gaussian"), torch.get_rng_state()
    one, same, other = (
        architecture.build(data.shape, 2, seed).get_parameter("encoder.layer.weight_hh_l0") for seed in (0, 0, 1)
    )
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
    assert torch.equal(torch.get_rng_state(), before)


def test_dropout_is_drawn_for_each_step_and_leaves_the_generator(data: Dataset) -> None:
    one = trainer(data, "dropped", MEMBERS[0])
    before = torch.random.get_rng_state()
    one.advance()
    assert torch.equal(torch.random.get_rng_state(), before)
    x = data.batch(torch.arange(4)).double()
    encoder = one.ensemble.model.get_submodule("encoder")
    drawn = []
    for number in (0, 0, 1):
        with seeded(MEMBERS[0].seed, f"step {number}", torch.device("cpu")):
            drawn.append(functional_call(encoder, {}, (x,)))
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])


def test_a_buffer_that_is_replaced_is_kept(data: Dataset) -> None:
    one = finished(trainer(data, "stubborn", *MEMBERS))
    assert one.state.buffers["encoder.calls"].tolist() == [PLAN.steps] * 2


def test_a_step_with_batch_norm_can_be_traced(data: Dataset) -> None:
    """The program that a GPU compiles updates the running statistics, too."""
    one = trainer(data, "normalised", *MEMBERS)
    engine = one.engine
    assert isinstance(engine, StackedEngine)
    noise = draw_noise(one.ensemble.noise, one.ensemble.inputs.seeds, range(1), PLAN.batch, torch.float64)
    inputs = (
        one.state.parameters,
        one.state.slots,
        one.state.buffers,
        one.order.indices(range(1))[0],
        {},
        {name: draw[0] for name, draw in noise.items()},
        torch.tensor(0),
        one.ensemble.inputs,
    )
    before = one.state.copy()
    program = make_fx(lambda *given: engine.step(*given))(*inputs)
    ends = []
    for step in (engine.step, program):
        one.state.restore(before)
        step(*inputs)
        ends.append(one.state.copy())
    torch.testing.assert_close(ends[1].parameters, ends[0].parameters, rtol=1e-12, atol=1e-12)
    for name, buffer in ends[0].buffers.items():
        torch.testing.assert_close(ends[1].buffers[name], buffer, rtol=1e-12, atol=1e-12)
        assert not torch.equal(buffer, before.buffers[name])
