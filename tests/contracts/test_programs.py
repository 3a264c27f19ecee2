"""The training step of every variant can be traced into one program, for one model too, and gives the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from vaescope.data import Dataset, open_dataset
from vaescope.data.conditions import condition_width
from vaescope.likelihoods import LIKELIHOODS
from vaescope.models import MODELS, Architecture
from vaescope.nets import MLP, Conv, Net, ResNet
from vaescope.objectives import OBJECTIVES, Beta, Factor
from vaescope.posteriors import POSTERIORS
from vaescope.priors import PRIORS
from vaescope.training import Member, Plan, Trainer
from vaescope.training.batches import Batches, draw_noise
from vaescope.training.engines import StackedEngine
from vaescope.training.traced_steps import one_fake_mode, traced

NET = MLP((12,), (12,))
PLAN = Plan(4, 8, precision="float64", log_every=2, evaluate_every=4, monitor_every=0)
STEP = range(1)


@pytest.fixture(scope="module")
def digits() -> Dataset:
    """Items with labels, whose likelihood is a Gaussian."""
    return open_dataset("digits").draw(64)


@pytest.fixture(scope="module")
def sprites() -> Dataset:
    """Items with factors, whose likelihood is Bernoulli."""
    return open_dataset("dsprites-small").draw(64)


Step = Callable[..., dict[str, torch.Tensor]]


def inputs_of(trainer: Trainer) -> tuple[object, ...]:
    """The inputs of the first step."""
    state, ensemble = trainer.state, trainer.ensemble
    noise = draw_noise(ensemble.noise, ensemble.inputs.seeds, STEP, trainer.order.batch, state.parameters.dtype)
    drawn, items = {name: draw[0] for name, draw in noise.items()}, trainer.order.indices(STEP)[0]
    return state.parameters, state.slots, state.buffers, items, {}, drawn, torch.tensor(0), ensemble.inputs


def traced_step(trainer: Trainer, step: Step) -> Step:
    """The step as one program, which waits for no number of a GPU."""
    before = trainer.state.copy()
    with one_fake_mode():
        program = traced(step, inputs_of(trainer))
    trainer.state.restore(before)
    nodes = program.graph.nodes  # type: ignore[attr-defined]
    assert torch.ops.aten._local_scalar_dense.default not in {node.target for node in nodes}
    return program


def assert_equal_steps(trainer: Trainer, steps: Sequence[Step]) -> None:
    state, before, ends = trainer.state, trainer.state.copy(), []
    for step in steps:
        state.restore(before)
        records = step(*inputs_of(trainer))
        ends.append((state.parameters.clone(), records))
    for end in ends[1:]:
        torch.testing.assert_close(end, ends[0], rtol=1e-12, atol=1e-12)
    assert not torch.equal(ends[0][0], before.parameters)


def assert_traceable(architecture: Architecture, objective: Any, data: Dataset) -> None:
    members = [Member(2, objective, 1e-3, 0), Member(4, objective, 1e-3, 1)]
    for own in (members, members[1:]):
        trainer = Trainer(architecture, own, PLAN, data)
        batches = Batches.of(data, trainer.ensemble.model, trainer.device)
        engine = StackedEngine(trainer.ensemble, batches, trainer.order)
        step = engine.step if len(own) > 1 else engine.single_step
        assert_equal_steps(trainer, list(dict.fromkeys([engine.step, step, traced_step(trainer, step)])))


@pytest.mark.parametrize("name", sorted(OBJECTIVES))
def test_the_training_step_of_every_objective_can_be_traced(name: str, digits: Dataset) -> None:
    settings: dict[str, Any] = {"critic_widths": (6, 6)} if OBJECTIVES[name] is Factor else {}
    objective = OBJECTIVES[name](warm_up=10, free_bits=0.01, **settings)
    assert_traceable(Architecture(net=NET), objective, digits)


@pytest.mark.parametrize("posterior", sorted(POSTERIORS.keys() - {"deterministic"}))
@pytest.mark.parametrize("prior", sorted(PRIORS.keys() - {"conditional"}))
def test_the_training_step_with_every_prior_and_posterior_can_be_traced(
    prior: str, posterior: str, digits: Dataset
) -> None:
    assert_traceable(Architecture(net=NET, posterior=posterior, prior=prior), Beta(2.0), digits)


@pytest.mark.parametrize("likelihood", sorted(LIKELIHOODS))
def test_the_training_step_with_every_likelihood_can_be_traced(likelihood: str, digits: Dataset) -> None:
    assert_traceable(Architecture(net=NET, likelihood=likelihood), Beta(2.0), digits)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_training_step_of_every_model_can_be_traced(name: str, digits: Dataset, sprites: Dataset) -> None:
    kind = MODELS[name].condition
    data = digits if kind == "label" else sprites
    width = 0 if kind is None else condition_width(data, kind)
    assert_traceable(Architecture(name, NET, MODELS[name].default_posterior, condition=width), Beta(2.0), data)


@pytest.mark.parametrize(
    "net", [Conv(channels=(4, 6, 6, 8), hidden=8), ResNet(width=4, widest=8)], ids=["conv", "resnet"]
)
def test_the_training_step_of_convolutional_nets_can_be_traced(net: Net, sprites: Dataset) -> None:
    assert_traceable(Architecture(net=net), Beta(2.0), sprites)
