"""Many steps of several members on a CPU run as a traced program, with the same numbers bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor, nn

from vaescope.data import Dataset, open_dataset
from vaescope.models import Architecture
from vaescope.nets import MLP, NETS, Conv, Net
from vaescope.nets.mlp import VectorDecoder
from vaescope.nets.net import Shape
from vaescope.objectives import Beta, BetaTC, Factor, Terms
from vaescope.objectives.objective import ScheduledObjective
from vaescope.runs import FitOptions
from vaescope.training import HistoryRow, Member, Plan, Trainer
from vaescope.training.engines import StackedEngine
from vaescope.training.traced_steps import TracedStep, tracing_pays

PLAN = Plan(16, 16, log_every=4, evaluate_every=8, monitor_every=0)
SMALL = MLP((6,), (6,))


class Encoder(nn.Sequential):
    """An encoder with BatchNorm, whose forward pass may depend on how often it was called."""

    features = 6

    def __init__(self, width: int, counts: bool) -> None:
        super().__init__(nn.Linear(width, 6), nn.BatchNorm1d(6), nn.Tanh())
        self.counts, self.calls = counts, 0

    def forward(self, x: Tensor) -> Tensor:
        self.calls += self.counts
        return super().forward(x * (1 + 0.01 * self.calls))


@dataclass(frozen=True)
class OwnNet(Net):
    """A net of somebody else."""

    counts: bool = False

    def encoder(self, shape: Shape) -> nn.Module:  # type: ignore[override]
        return Encoder(shape[0], self.counts)

    def decoder(self, inputs: int, shape: Shape) -> VectorDecoder:
        return VectorDecoder(inputs, (5,), shape, "tanh")


@dataclass(frozen=True, kw_only=True)
class Stepwise(Beta):
    """An objective that reads the number of the step in Python."""

    def __call__(self, x: Tensor, result: object, context: object) -> Terms:
        terms = super().__call__(x, result, context)  # type: ignore[arg-type]
        late = int(context.step) >= 8  # type: ignore[attr-defined]
        return Terms(terms.values, {**terms.weights, "rate": 5.0 * late})


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    NETS.register("own", summary="a net of somebody else")(OwnNet)
    yield
    NETS.unregister("own")


@pytest.fixture
def train(monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Trainer, TracedStep, list[HistoryRow]]]:
    """Train two members, with steps that are traced or not."""

    def trained(
        traced: bool, architecture: Architecture, objective: ScheduledObjective, data: Dataset, streamed: bool = False
    ) -> tuple[Trainer, TracedStep, list[HistoryRow]]:
        monkeypatch.setattr("vaescope.training.traced_steps.MIN_TRACED_STEPS", PLAN.steps if traced else PLAN.steps + 1)
        members = [Member(2, objective, 1e-2), Member(3, replace(objective, free_bits=0.5), 3e-3, seed=1)]
        one = Trainer(architecture, members, PLAN, data, data, streamed=streamed)
        rows: list[HistoryRow] = []
        while not one.finished:
            rows += one.advance()
        assert isinstance(one.engine, StackedEngine)
        return one, one.engine.cpu_step, rows

    return trained


def assert_equal(one: Trainer, other: Trainer) -> None:
    assert torch.equal(one.state.parameters, other.state.parameters)
    for mine, theirs in ((one.state.slots, other.state.slots), (one.state.buffers, other.state.buffers)):
        assert mine.keys() == theirs.keys()
        assert all(torch.equal(tensor, theirs[name]) for name, tensor in mine.items())


@pytest.fixture(scope="module")
def vectors() -> Dataset:
    return open_dataset("gaussian-manifold", dimension=2, ambient=8, items=80)


@pytest.mark.parametrize(
    ("architecture", "objective", "streamed"),
    [
        (Architecture(net=SMALL), Beta(warm_up=15, free_bits=0.1), False),
        (Architecture(net=SMALL), Beta(), True),
        (Architecture(net=SMALL), BetaTC(), False),
        (Architecture(net=SMALL), Factor(critic_widths=(8, 8)), False),
        (Architecture(net=Conv(channels=(2, 2, 2, 2), hidden=6)), Beta(), False),
        (Architecture(net=SMALL, model="conditional", condition=10), Beta(), False),
        (Architecture(net=OwnNet(), likelihood="gaussian"), Beta(), False),
    ],
    ids=["warm-up", "streamed", "total correlation", "critic", "convolutions", "condition", "batch norm"],
)
def test_traced_steps_give_the_same_numbers(
    train: Callable[..., tuple[Trainer, TracedStep, list[HistoryRow]]],
    architecture: Architecture,
    objective: ScheduledObjective,
    streamed: bool,
    vectors: Dataset,
) -> None:
    data = vectors if architecture.net == OwnNet() else open_dataset("digits").draw(80)
    eager, untraced, rows = train(False, architecture, objective, data, streamed)
    other, traced, same = train(True, architecture, objective, data, streamed)
    assert untraced.program is None
    assert traced.program is not None
    assert same == rows
    assert_equal(eager, other)


@pytest.mark.parametrize(
    ("architecture", "objective"),
    [
        (Architecture(net=OwnNet(counts=True), likelihood="gaussian"), Beta()),
        (Architecture(net=SMALL, likelihood="gaussian"), Stepwise()),
    ],
    ids=["calls are counted", "the step is read in Python"],
)
def test_a_step_that_depends_on_more_than_its_tensors_is_not_traced(
    train: Callable[..., tuple[Trainer, TracedStep, list[HistoryRow]]],
    architecture: Architecture,
    objective: ScheduledObjective,
    vectors: Dataset,
) -> None:
    eager, _, rows = train(False, architecture, objective, vectors)
    other, traced, same = train(True, architecture, objective, vectors)
    assert traced.program is None
    assert eager.state.step == other.state.step == PLAN.steps
    if objective == Stepwise():
        assert same == rows
        assert_equal(eager, other)


class Linear(nn.Module):
    """A model that a user's factory builds."""

    def __init__(self, latents: int) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Linear(8, 2 * latents), nn.Linear(latents, 8)

    def encode(self, x: Tensor) -> tuple[Tensor, ...]:
        return self.encoder(x).chunk(2, 1)

    def decode(self, z: Tensor) -> Tensor:
        return self.decoder(z)


def test_steps_of_a_model_of_a_factory_are_not_traced(vectors: Dataset) -> None:
    architecture = FitOptions(model=Linear).architecture(vectors)
    trainer = Trainer(architecture, [Member(2), Member(2, seed=1)], Plan(250), vectors)
    assert isinstance(trainer.engine, StackedEngine)
    assert not trainer.engine.cpu_step.traces


def test_a_step_is_traced_where_that_pays() -> None:
    assert [tracing_pays(steps, certain=True) for steps in (1, 249, 250)] == [False, False, True]
    # A search usually ends long before the steps that it may need.
    assert [tracing_pays(steps, certain=False) for steps in (250, 999, 1000)] == [False, False, True]
