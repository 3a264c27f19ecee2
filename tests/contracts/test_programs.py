"""The training step of every variant can be traced into one program, and gives the same numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from vaescope.data import Dataset, open_dataset
from vaescope.data.conditions import condition_width
from vaescope.models import MODELS, Architecture
from vaescope.nets import MLP
from vaescope.objectives import OBJECTIVES, Beta, Factor
from vaescope.posteriors import POSTERIORS
from vaescope.priors import PRIORS
from vaescope.training import Member, Plan, Trainer
from vaescope.training.batches import draw_noise

NET = MLP((12,), (12,))
PLAN = Plan(4, 8, precision="float64", log_every=2, evaluate_every=4, monitor_every=0)
STEP = range(1)


@pytest.fixture(scope="module", params=["digits", "dsprites-small"])
def data(request: pytest.FixtureRequest) -> Dataset:
    return open_dataset(request.param).draw(64)


def assert_traceable(architecture: Architecture, objective: Any, data: Dataset) -> None:
    members = [Member(2, objective, 1e-3, 0), Member(4, objective, 1e-3, 1)]
    trainer = Trainer(architecture, members, PLAN, data)
    state, engine, before = trainer.state, trainer.engine, trainer.state.copy()
    items = trainer.order.indices(STEP)[0]
    ensemble = trainer.ensemble
    noise = draw_noise(ensemble.noise, ensemble.inputs.seeds, STEP, trainer.order.batch, state.parameters.dtype)
    drawn = {name: draw[0] for name, draw in noise.items()}
    inputs = (state.parameters, state.slots, state.buffers, items, drawn, torch.tensor(0), ensemble.inputs)
    program = make_fx(lambda *given: engine.step(*given))(*inputs)
    ends = []
    for step in (engine.step, program):
        state.restore(before)
        records = step(*inputs)
        ends.append((state.parameters.clone(), records))
    torch.testing.assert_close(ends[1], ends[0], rtol=1e-12, atol=1e-12)
    assert not torch.equal(ends[0][0], before.parameters)


@pytest.mark.parametrize("name", sorted(OBJECTIVES))
def test_the_training_step_of_every_objective_can_be_traced(name: str, data: Dataset) -> None:
    settings: dict[str, Any] = {"critic_widths": (6, 6)} if OBJECTIVES[name] is Factor else {}
    objective = OBJECTIVES[name](warm_up=10, free_bits=0.01, **settings)
    assert_traceable(Architecture(net=NET), objective, data)


@pytest.mark.parametrize("posterior", sorted(POSTERIORS.keys() - {"deterministic"}))
@pytest.mark.parametrize("prior", sorted(PRIORS.keys() - {"conditional"}))
def test_the_training_step_with_every_prior_and_posterior_can_be_traced(
    prior: str, posterior: str, data: Dataset
) -> None:
    assert_traceable(Architecture(net=NET, posterior=posterior, prior=prior), Beta(2.0), data)


@pytest.mark.parametrize("name", sorted(MODELS))
def test_the_training_step_of_every_model_can_be_traced(name: str, data: Dataset) -> None:
    kind = MODELS[name].condition
    if kind is not None and (data.labels if kind == "label" else data.factors) is None:
        pytest.skip(f"{data.name} has no {kind} to condition on")
    width = 0 if kind is None else condition_width(data, kind)
    assert_traceable(Architecture(name, NET, MODELS[name].default_posterior, condition=width), Beta(2.0), data)
