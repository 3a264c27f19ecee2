"""Every model trains, trains identically in an ensemble and alone, is loaded from its run, and encodes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from vaescope.data.arrays import from_array
from vaescope.data.dataset import Dataset
from vaescope.encoding.encode import encode
from vaescope.errors import ConfigurationError
from vaescope.likelihoods import LIKELIHOODS
from vaescope.models import MODELS, Architecture
from vaescope.nets import MLP, Conv, ResNet
from vaescope.objectives import OBJECTIVES, Beta
from vaescope.posteriors import POSTERIORS
from vaescope.priors import PRIORS
from vaescope.runs import Run, fit
from vaescope.training import HistoryRow, Member, Plan, Trainer

NETS = {"mlp": MLP((24,), (24,), "tanh", "tanh"), "conv": Conv((4, 2), (4, 8), 16), "resnet": ResNet(width=4)}
CLASSES, COLUMNS = 3, 5
# As the critic learns, its estimate of the total correlation rises, and with it the loss; at gamma = 10 above its
# initial value.
SMALL: dict[str, dict[str, Any]] = {"factor": {"critic_widths": (32, 32), "gamma": 1.0}}
MEMBERS = (Member(2, Beta(1.0), 2e-3, seed=0), Member(4, Beta(3.0), 1e-3, seed=5))


@pytest.fixture(scope="module")
def data() -> Dataset:
    """Bars at one of five columns and of three widths, with noise; the width is the label, both are the factors."""
    generator = np.random.default_rng(0)
    codes = np.array(list(itertools.product(range(CLASSES), range(COLUMNS))) * 10)
    images = generator.random((len(codes), 8, 8)) * 0.2
    for image, (width, column) in zip(images, codes, strict=True):
        image[:, column : column + width + 1] += 0.8
    return from_array(images, "bars", labels=codes[:, 0], factors=codes)


def architecture(model: str, net: Any, **parts: Any) -> Architecture:
    condition = {"label": CLASSES, "factors": 2, None: 0}[MODELS[model].condition]
    posterior = "deterministic" if model == "autoencoder" else "diagonal"
    return Architecture(model, net, **{"posterior": posterior, **parts}, condition=condition)


def variants() -> Iterator[Any]:
    """Every model with every objective, with every posterior and prior it can have, and with every likelihood."""
    net = NETS["mlp"]
    for model, name in itertools.product(sorted(MODELS), sorted(OBJECTIVES)):
        objective = OBJECTIVES[name](**SMALL.get(name, {}))
        yield pytest.param(architecture(model, net), objective, id=f"{model}-{name}")
    for model, posterior, prior in itertools.product(sorted(MODELS), sorted(POSTERIORS), sorted(PRIORS)):
        try:
            described = architecture(model, net, posterior=posterior, prior=prior)
        except ConfigurationError as refusal:
            if "do not go together" not in str(refusal):
                raise
            continue
        yield pytest.param(described, Beta(), id=f"{model}-{posterior}-{prior}")
    for model, likelihood in itertools.product(sorted(MODELS), sorted(LIKELIHOODS)):
        yield pytest.param(architecture(model, net, likelihood=likelihood), Beta(), id=f"{model}-{likelihood}")


def trained(
    described: Architecture, members: tuple[Member, ...], data: Dataset, **plan: Any
) -> tuple[Trainer, list[HistoryRow]]:
    settings = {"steps": 20, "batch": 16, "log_every": 10, "evaluate_every": 10, "monitor_every": 10, **plan}
    trainer = Trainer(described, members, Plan(**settings), *data.split(0.2))
    rows: list[HistoryRow] = []
    while not trainer.finished:
        rows += trainer.advance()
    return trainer, rows


def losses(rows: list[HistoryRow], split: str, member: int = 0) -> list[float]:
    return [row.values["loss"] for row in rows if (row.split, row.member) == (split, member)]


def difference(one: nn.Module, other: nn.Module) -> float:
    """The largest difference between parameters, relative to their norm."""
    theirs = other.state_dict()
    return max(
        float((ours - theirs[name]).double().norm() / theirs[name].double().norm().clamp_min(1e-12))
        for name, ours in one.state_dict().items()
    )


@pytest.mark.parametrize(("described", "objective"), list(variants()))
def test_the_loss_falls_within_40_steps(described: Architecture, objective: Any, data: Dataset) -> None:
    member = Member(3, objective, 1e-2, seed=5)
    _, rows = trained(described, (member,), data, steps=40, log_every=10, evaluate_every=40, monitor_every=0)
    values = losses(rows, "train")
    assert all(np.isfinite(values))
    assert values[-1] < values[0] - 1, values


@pytest.mark.parametrize(("described", "objective"), list(variants()))
def test_training_in_an_ensemble_equals_training_alone(described: Architecture, objective: Any, data: Dataset) -> None:
    members = (Member(4, objective, 1e-3), Member(2, objective, 2e-3, seed=5))
    plan = {"precision": "float64", "steps": 6, "log_every": 3, "evaluate_every": 6, "monitor_every": 0}
    together, rows = trained(described, members, data, **plan)
    alone, own_rows = trained(described, members[1:], data, **plan)
    assert difference(together.model(1), alone.model()) <= 1e-9
    for split in ("train", "test"):
        assert losses(rows, split, 1) == pytest.approx(losses(own_rows, split), rel=1e-9)


@pytest.mark.parametrize("net", sorted(NETS))
@pytest.mark.parametrize("model", sorted(MODELS))
def test_a_member_equals_the_model_trained_alone(model: str, net: str, data: Dataset) -> None:
    described = architecture(model, NETS[net])
    together, rows = trained(described, MEMBERS, data, precision="float64")
    for position, member in enumerate(MEMBERS):
        alone, own_rows = trained(described, (member,), data, precision="float64")
        assert difference(together.model(position), alone.model()) <= 1e-9
        for split in ("train", "test"):
            assert losses(rows, split, position) == pytest.approx(losses(own_rows, split), rel=1e-9)
        rates = [[row.values["rate"] for row in some if row.split == "probe"] for some in (rows, own_rows)]
        assert rates[0][position :: len(MEMBERS)] == pytest.approx(rates[1], rel=1e-9)


@pytest.mark.parametrize("model", sorted(MODELS))
def test_training_is_a_function_of_the_seed(model: str, data: Dataset) -> None:
    one, _ = trained(architecture(model, NETS["mlp"]), MEMBERS[:1], data)
    torch.manual_seed(17)
    other, _ = trained(architecture(model, NETS["mlp"]), MEMBERS[:1], data)
    assert torch.equal(one.state.parameters, other.state.parameters)


@pytest.mark.parametrize("model", sorted(MODELS))
def test_a_model_is_loaded_from_its_run_and_encodes(model: str, data: Dataset, tmp_path: Path) -> None:
    prior = MODELS[model].default_prior
    settings = {"model": model, "net": NETS["mlp"], "prior": prior, "steps": 10, "runs": tmp_path}
    run = fit(data, 3, **settings)
    model_of_run: Any = Run.open(run.path).model
    codes = encode(model_of_run, data, chunk=64)
    assert codes.mean.shape == codes.variance.shape == codes.sample.shape == (len(data), 3)
    assert all(torch.isfinite(part).all() for part in (codes.mean, codes.variance, codes.sample))
    # Up to rounding, a code does not depend on its chunk.
    torch.testing.assert_close(encode(model_of_run, data, chunk=7).mean, codes.mean, rtol=1e-4, atol=1e-5)
    assert fit(data, 3, **settings).id == run.id
