"""How many latents a model of other people needs: our loop or theirs, our search."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn
from torch.utils.data import DataLoader

import vaescope as vs
from factories import Plain
from vaescope.errors import ConfigurationError, VaescopeError
from vaescope.models import Architecture
from vaescope.sizing import Question, SearchOptions, search_many
from vaescope.sizing.own_training import TrainingItems
from vaescope.training import Trainer

AMBIENT, ITEMS = 24, 1000
QUICK = {"period": 200, "max_periods": 1, "learning_rate": 0.02, "batch": 32, "device": "cpu"}
UNIT = {"name": "gaussian", "variance": 1.0}


def on_a_subspace(dimension: int) -> NDArray[np.float32]:
    """Gaussian items on a subspace, with a little noise around it."""
    generator = np.random.default_rng(dimension)
    axes, _ = np.linalg.qr(generator.normal(size=(AMBIENT, AMBIENT)))
    codes = 4 * generator.normal(size=(ITEMS, dimension))
    found: NDArray[np.float32] = codes @ axes[:dimension] + 0.1 * generator.normal(size=(ITEMS, AMBIENT))
    return found.astype(np.float32)


def batch_normalised(latents: int) -> Plain:
    return Plain(latents, AMBIENT, width=48)


@pytest.mark.parametrize("dimension", [3, 6, 10])
def test_the_size_of_a_plain_net_is_the_dimension_of_the_data(dimension: int) -> None:
    # Few sizes keep the test quick; benchmarks/factory_sizes.py starts where a search starts by default.
    options = SearchOptions(model=batch_normalised, likelihood=UNIT, seeds=3, runs=None, near=True, **QUICK)
    (found,) = search_many(on_a_subspace(dimension), [Question(init=dimension + 1)], options)
    assert len(found.values) == 3
    assert all(abs(value - dimension) <= 1 for value in found.values), found.curve


def test_a_net_of_ours_has_one_answer_built_in_or_by_a_factory() -> None:
    data = vs.open_dataset("gaussian-manifold", dimension=3, ambient=12, items=300)
    net = {"name": "mlp", "encoder_widths": [16], "decoder_widths": [16]}
    ours = Architecture(net=net, likelihood=UNIT)
    shared = {**QUICK, "seeds": 1, "period": 100, "width": 1, "runs": None}
    answers = [
        search_many(data, [Question(init=4)], SearchOptions(**parts, **shared))[0]
        for parts in (
            {"net": net, "likelihood": UNIT},
            {"model": lambda latents: ours.build((12,), latents, seed=0)},
        )
    ]
    one, other = answers
    assert one.values == other.values
    assert [probe.value for probe in one.probes] == [probe.value for probe in other.probes]
    for built_in, by_factory in zip(one.probes, other.probes, strict=True):
        assert by_factory.gap == pytest.approx(built_in.gap, abs=1e-3)


def test_an_interrupted_search_of_a_factory_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = on_a_subspace(3)[:200]
    options = {
        **QUICK,
        "period": 20,
        "likelihood": UNIT,
        "init": 2,
        "largest": 4,
        "seeds": 2,
        "model": batch_normalised,
    }
    whole = vs.fondue(data, runs=None, **options)
    left, advance = iter(range(1)), Trainer.advance

    def interrupted(trainer: Trainer, until: int | None = None) -> object:
        if next(left, None) is None:
            raise KeyboardInterrupt
        return advance(trainer, until)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "advance", interrupted)
        with pytest.raises(KeyboardInterrupt):
            vs.fondue(data, runs=tmp_path, **options)
    first = vs.fondue(data, runs=tmp_path, **options)
    assert first.probes == whole.probes
    again = vs.fondue(data, runs=tmp_path, **options)
    assert 0 < first.trained_steps < whole.trained_steps
    assert again.trained_steps == 0
    assert again.probes == first.probes
    other = vs.fondue(data, runs=tmp_path, **{**options, "model": lambda latents: Plain(latents, AMBIENT, 20)})
    assert other.trained_steps > 0


class OwnLoop:
    """A training loop as people write it, with an optimiser for each model, which later calls continue."""

    def __init__(self) -> None:
        self.optimisers: dict[nn.Module, torch.optim.Optimizer] = {}
        self.calls: list[tuple[nn.Module, int, int]] = []

    def __call__(self, model: nn.Module, data: TrainingItems, steps: int, seed: int) -> None:
        assert isinstance(model, Plain)
        assert model.training
        self.calls.append((model, steps, seed))
        optimiser = self.optimisers.setdefault(model, torch.optim.Adam(model.parameters(), 0.02))
        for _ in range(steps):
            x = data[torch.randint(len(data), (32,))]
            mean, log_variance = model.encode(x)
            z = mean + (log_variance / 2).exp() * torch.randn_like(mean)
            error = (model.decode(z) - x).square().sum(1) / 2
            rate = (mean.square() + log_variance.exp() - 1 - log_variance).sum(1) / 2
            optimiser.zero_grad()
            (error + rate).mean().backward()
            optimiser.step()


def test_models_that_the_user_trains_have_the_size_of_the_data() -> None:
    found = vs.fondue(
        on_a_subspace(3), model=batch_normalised, train=OwnLoop(), init=3, seeds=2, period=200, max_periods=1, runs=None
    )
    assert all(abs(value - 3) <= 1 for value in found.values), found.curve
    assert found.trained_steps == 200 * found.models
    assert found.settings["train"] == "OwnLoop"


def test_a_model_that_the_user_trains_continues_in_the_next_period(tmp_path: Path) -> None:
    loops = OwnLoop(), OwnLoop()
    options = {"model": batch_normalised, "init": 2, "largest": 3, "seeds": [4], "period": 5, "max_periods": 2}
    found = [vs.fondue(on_a_subspace(3)[:100], train=loop, runs=tmp_path, **options) for loop in loops]
    assert found[0].probes == found[1].probes
    assert not list(tmp_path.iterdir())
    models = [model for model, _, _ in loops[0].calls]
    assert len(models) == 2 * len(set(models))
    assert {steps for _, steps, _ in loops[0].calls} == {5}
    for model in set(models):
        assert len({seed for one, _, seed in loops[0].calls if one is model}) == 2


def test_the_items_that_the_user_trains_on_are_a_data_set_of_torch() -> None:
    data = on_a_subspace(3)[:10]
    items = TrainingItems(vs.open_dataset(data))
    batches = list(DataLoader(items, 4))
    assert torch.equal(torch.cat(batches), torch.tensor(data))
    assert torch.equal(items[3], torch.tensor(data[3]))
    assert torch.equal(items[[1, 2]], torch.tensor(data[1:3]))
    assert torch.equal(items[-2:], torch.tensor(data[-2:]))


def nothing(model: nn.Module, data: TrainingItems, steps: int, seed: int) -> None:
    """Trains nothing."""


def another(model: nn.Module, data: TrainingItems, steps: int, seed: int) -> nn.Module:
    return batch_normalised(2)


def diverging(model: nn.Module, data: TrainingItems, steps: int, seed: int) -> None:
    for parameter in model.parameters():
        parameter.data += float("nan")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"train": 3}, r"train must be a function of \(model, data, steps, seed\).*got int"),
        ({"train": lambda model, data: None}, "too many positional arguments"),
        ({"train": nothing, "model": "vae"}, "train needs a factory"),
        ({"train": nothing, "model": None}, "train needs a factory"),
        ({"train": nothing, "model": Plain(2, AMBIENT)}, "a function from a number of latents"),
        ({"train": nothing, "learning_rate": 0.1}, "learning_rate has no effect"),
        ({"train": nothing, "objective": "beta"}, "objective has no effect"),
        ({"train": nothing, "likelihood": "gaussian"}, "likelihood has no effect"),
        ({"train": nothing, "over": "beta", "latents": 3}, "over has no effect"),
        ({"train": another}, "another returns another one"),
        ({"train": diverging}, "the model diverged"),
    ],
)
def test_a_wrong_training_of_the_user_is_one_sentence(options: dict[str, object], said: str) -> None:
    shared = {"model": batch_normalised, "init": 2, "period": 2, "max_periods": 1, "runs": None}
    with pytest.raises(VaescopeError, match=said) as caught:
        vs.fondue(on_a_subspace(3)[:50], **{**shared, **options})
    assert "\n" not in str(caught.value)


def test_data_in_other_units_are_not_for_the_users_training() -> None:
    data = vs.open_dataset(on_a_subspace(3)[:50], standardise=True)
    with pytest.raises(ConfigurationError, match="must not be opened with standardise"):
        vs.fondue(data, model=batch_normalised, train=nothing, init=2, period=2, runs=None)


def test_an_error_of_the_users_function_reaches_the_user() -> None:
    def failing(model: nn.Module, data: TrainingItems, steps: int, seed: int) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        vs.fondue(on_a_subspace(3)[:50], model=batch_normalised, train=failing, init=2, period=2, runs=None)
