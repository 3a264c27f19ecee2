"""Models that a factory builds: recognised, trained by our loop, alone and as ensembles; errors on one line."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import vaescope as vs
from factories import DIMENSIONS, Branching, Dropped, Normal, Plain, Sigmoid, Tied, plain
from vaescope.data import Dataset
from vaescope.errors import ConfigurationError, VaescopeError
from vaescope.models import Architecture, FactoryArchitecture, FactoryModel
from vaescope.models.factory import FactoryRecord, seeded_generators
from vaescope.numerics.distributions import DiagonalGaussian
from vaescope.runs import fit_in_memory
from vaescope.training import Member, Plan, Trainer

SHAPE, LATENTS = (DIMENSIONS,), 3
PLAN = Plan(30, 16, precision="float64", log_every=10, evaluate_every=30, monitor_every=10)
Factory = Callable[[int], object]


@pytest.fixture(scope="module")
def data() -> Dataset:
    return vs.open_dataset("gaussian-manifold", dimension=2, ambient=DIMENSIONS, items=80)


def architecture(factory: Factory, **parts: object) -> FactoryArchitecture:
    found = vs.FitOptions(model=factory, **parts).architecture(vs.open_dataset(np.eye(DIMENSIONS)))
    assert isinstance(found, FactoryArchitecture)
    return found


def trained(factory: Factory, data: Dataset, *members: Member) -> Trainer:
    one = Trainer(architecture(factory), members, PLAN, data, data)
    while not one.finished:
        one.advance()
    return one


def refused(factory: Factory, **parts: object) -> str:
    """The error about a factory: one paragraph on one line."""
    with pytest.raises(VaescopeError) as caught:
        architecture(factory, **parts)
    text = str(caught.value)
    assert "\n" not in text
    assert text.endswith(".")
    return text


def test_a_module_is_wrapped_between_our_posterior_prior_and_likelihood() -> None:
    model = architecture(plain).build(SHAPE, LATENTS, seed=0).eval()
    x = torch.rand(5, *SHAPE)
    posterior, (mean, log_variance) = model.encode(x), model.module.encode(x)
    assert isinstance(posterior, DiagonalGaussian)
    assert torch.equal(posterior.mean, mean)
    assert torch.equal(posterior.log_variance, log_variance)
    assert torch.equal(model.decode(mean).mean, model.module.decode(mean))
    assert {"likelihood.log_variance", "module.mean.weight"} <= dict(model.named_parameters()).keys()


def test_a_masked_latent_has_the_prior_as_its_posterior() -> None:
    model = architecture(plain).build(SHAPE, LATENTS, seed=0).eval()
    model.latent_mask[1] = 0
    found = model.encode(torch.rand(5, *SHAPE))
    assert not found.mean[:, 1].any()
    assert torch.equal(found.variance[:, 1], torch.ones(5))


def test_the_seed_decides_the_weights_and_no_generator_is_touched() -> None:
    def drawing(latents: int) -> Plain:
        model = Plain(latents)
        model.mean.bias.data += random.random() + np.random.rand()  # noqa: NPY002
        return model

    found = architecture(drawing)
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    one, same, other = (found.build(SHAPE, LATENTS, seed).state_dict() for seed in (1, 1, 2))
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1] == np.random.get_state()[1].tolist()  # noqa: NPY002
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["module.mean.bias"], other["module.mean.bias"])


def test_the_generator_of_python_continues_where_it_was() -> None:
    before = random.getstate()
    with seeded_generators(0, "a name"):
        random.random()
    assert random.getstate() == before


@pytest.mark.parametrize("factory", [plain, Normal], ids=["tensors", "distributions"])
def test_a_member_of_an_ensemble_equals_the_model_alone(factory: Factory, data: Dataset) -> None:
    # A bias in front of BatchNorm has only rounding as its gradient, which Adam enlarges: a small rate keeps it small.
    members = tuple(Member(LATENTS, learning_rate=1e-3, seed=seed) for seed in range(4))
    together = trained(factory, data, *members)
    assert not together.ensemble.one_by_one
    for place in (0, 3):
        ours = together.member_state(place)
        alone = trained(factory, data, members[place]).member_state(0)
        assert torch.allclose(ours.parameters, alone.parameters, rtol=0, atol=1e-9)
        for name, buffer in alone.buffers.items():
            assert torch.allclose(ours.buffers[name].double(), buffer.double(), rtol=0, atol=1e-9), name


@pytest.mark.parametrize("factory", [Dropped, Branching])
def test_a_module_that_torch_cannot_batch_trains_one_by_one(factory: Factory, data: Dataset) -> None:
    members = (Member(LATENTS, seed=0), Member(LATENTS, seed=1))
    together = trained(factory, data, *members)
    assert together.ensemble.one_by_one
    alone = trained(factory, data, members[1])
    assert torch.equal(together.member_state(1).parameters, alone.member_state(0).parameters)


def test_models_of_several_sizes_are_no_ensemble(data: Dataset) -> None:
    one = trained(plain, data, Member(LATENTS))
    with pytest.raises(ConfigurationError, match="of other sizes"):
        one.assign_slots([Member(LATENTS - 1)], [None])


def test_a_factory_of_a_net_of_ours_trains_as_the_net_itself(data: Dataset) -> None:
    ours = Architecture(net="mlp", likelihood="gaussian")
    options = {"net": "mlp", "likelihood": "gaussian", "steps": 20, "batch": 16, "precision": "float64"}
    wanted = fit_in_memory(data, Member(LATENTS), vs.FitOptions(**options))
    factory = {**options, "net": None, "likelihood": None}
    got = fit_in_memory(
        data, Member(LATENTS), vs.FitOptions(model=lambda latents: ours.build(SHAPE, latents, seed=0), **factory)
    )
    assert got.history[0]["loss"] == pytest.approx(wanted.history[0]["loss"], abs=1e-9)
    assert got.history[-2]["loss"] == pytest.approx(wanted.history[-2]["loss"], abs=1e-9)


def test_a_tied_weight_trains_once_and_a_frozen_one_not_at_all(data: Dataset) -> None:
    one = trained(Tied, data, Member(LATENTS, learning_rate=1e-2))
    before, after = architecture(Tied).build(SHAPE, LATENTS, seed=0).state_dict(), one.model().state_dict()
    assert torch.equal(after["module.decoder.3.weight"], after["module.again.weight"])
    assert not torch.allclose(after["module.decoder.3.weight"].float(), before["module.decoder.3.weight"])
    assert torch.equal(after["module.decoder.3.bias"].float(), before["module.decoder.3.bias"])


def test_the_data_choose_the_likelihood_unless_factory_or_user_do() -> None:
    def wrapped(latents: int) -> object:
        return vs.wrap(Plain(latents), likelihood="laplace", spread="log_variance")

    assert architecture(plain).plain()["likelihood"] == {"name": "gaussian", "variance": 1.0, "learned": True}
    assert architecture(wrapped).plain()["likelihood"] == {"name": "laplace", "scale": 0.1}
    assert architecture(wrapped, likelihood="bernoulli").plain()["likelihood"] == {"name": "bernoulli"}
    assert architecture(Normal).plain()["likelihood"] is None


def test_a_wrapped_model_says_how_it_encodes() -> None:
    class Other(Plain):
        decode = None

        def moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
            mean, log_variance = self.encode(x)
            return mean, log_variance.exp()

        def items(self, z: Tensor) -> Tensor:
            return super().decode(z)

    found = architecture(lambda latents: vs.wrap(Other(latents), "moments", "items", spread="variance"))
    model = found.build(SHAPE, LATENTS, seed=0).eval()
    x = torch.rand(5, *SHAPE)
    assert torch.allclose(model.encode(x).log_variance, model.module.encode(x)[1], atol=1e-5)


def test_only_the_source_of_a_lambda_itself_matters() -> None:
    first = architecture(lambda latents: Plain(latents), likelihood="gaussian").factory
    (second,) = [architecture(one).factory for one in (lambda latents: Plain(latents), 5) if callable(one)]
    third = architecture(lambda latents: Plain(latents + 0)).factory
    assert second == first
    assert first.changes(third) == ["the source of <lambda>"]


def test_a_script_that_is_imported_has_the_same_factory() -> None:
    run_as_script = FactoryRecord(None, (("VAE", "1"), ("make", "2")), "3")
    imported = FactoryRecord("train:make", (("train:VAE", "1"), ("train:make", "2")), "3")
    assert run_as_script.changes(imported) == []
    other = FactoryRecord("train:make", (("train:VAE", "1"), ("train:make", "4")), "3")
    assert run_as_script.changes(other) == ["the source of make"]


class InPlace(Plain):
    """One that prepares its inputs in place."""

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return super().encode(x.sub_(0.5))

    def decode(self, z: Tensor) -> Tensor:
        return super().decode(z.mul_(2))


class Shifted(Plain):
    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return super().encode(x - 0.5)

    def decode(self, z: Tensor) -> Tensor:
        return super().decode(z * 2)


def test_a_module_that_changes_its_input_in_place_trains_on_the_items(data: Dataset) -> None:
    found, wanted = (trained(one, data, Member(LATENTS, learning_rate=1e-2)) for one in (InPlace, Shifted))
    assert all(map(torch.equal, found.model().state_dict().values(), wanted.model().state_dict().values()))


@pytest.mark.parametrize("precision", [torch.float16, torch.float64])
def test_the_training_decides_the_precision(precision: torch.dtype, data: Dataset) -> None:
    weights = [
        trained(one, data, Member(LATENTS)).model().state_dict() for one in (lambda n: plain(n).to(precision), plain)
    ]
    for name, value in weights[1].items():
        assert weights[0][name].dtype == value.dtype
        torch.testing.assert_close(weights[0][name], value, rtol=0, atol=1e-2)


def test_advice_for_a_factory_is_not_that_for_a_model_that_exists() -> None:
    said = refused(partial(Plain, dimensions=5))
    assert "Give it a method encode(x)" in said
    assert "a function of a batch" not in said


class Recurrent(nn.Module):
    """A model of sequences, which have the shape of grey images."""

    def __init__(self, latents: int) -> None:
        super().__init__()
        self.net, self.heads, self.back = (
            nn.GRU(4, 6, batch_first=True),
            nn.Linear(6, 2 * latents),
            nn.Linear(latents, 24),
        )

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = self.heads(self.net(x)[1][0]).chunk(2, 1)
        return mean, log_variance

    def decode(self, z: Tensor) -> Tensor:
        found: Tensor = self.back(z)
        return found.reshape(-1, 6, 4)


def test_a_module_of_sequences_is_given_sequences(tmp_path: Path) -> None:
    x = np.random.default_rng(0).random((60, 6, 4), dtype=np.float32)
    run = vs.fit(x, 2, model=Recurrent, steps=3, batch=8, runs=tmp_path, progress=False)
    assert run.reconstruct(x[:3]).shape == (3, 1, 6, 4)


def raising(latents: int) -> nn.Module:
    raise KeyError("no such size")


class Narrow(Plain):
    def decode(self, z: Tensor) -> Tensor:
        return super().decode(z)[:, :5]


class Point(Plain):
    def encode(self, x: Tensor) -> dict[str, Tensor]:
        return {"mean": super().encode(x)[0]}


class Deviation(Plain):
    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = super().encode(x)
        return mean, (log_variance / 2).exp()


class Lazy(Plain):
    def __init__(self, latents: int) -> None:
        super().__init__(latents)
        self.more = nn.LazyLinear(3)


class Spatial(Plain):
    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = super().encode(x)
        return mean[:, :, None], log_variance[:, :, None]


def constant(latents: int) -> nn.Module:
    return Plain(latents).requires_grad_(False)


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        (constant, "has no parameters that require gradients"),
        (lambda latents: None, "must return a torch module, got NoneType"),
        (lambda latents: "vae", "got str"),
        (lambda latents: Plain(10), "returns 10"),
        (raising, "raising(8) fails: KeyError"),
        (Narrow, "must return items of shape (12,), got"),
        (Point, "a code without noise"),
        (Deviation, "variance or a standard deviation. Give"),
        (Lazy, "lazy"),
        (Spatial, "codes of shape (8, 1)"),
        (lambda latents: nn.Linear(DIMENSIONS, latents), "must return a posterior"),
        (lambda latents: vs.wrap(Plain(latents), encode=lambda x: (x, x)), "the name of a method"),
        (partial(Plain, dimensions=5), "fails for a batch of shape (32, 12)"),
    ],
)
def test_a_wrong_factory_is_one_sentence(factory: Factory, said: str) -> None:
    assert said in refused(factory)


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"net": "mlp"}, "builds its own net"),
        ({"posterior": "full"}, "builds its own posterior"),
        ({"initialisation": "torch"}, "builds its own initialisation"),
        ({"prior": "conditional"}, "no condition"),
    ],
)
def test_parts_that_a_factory_builds_are_refused(parts: dict[str, object], said: str) -> None:
    assert said in refused(plain, **parts)


def test_a_sigmoid_is_no_logit() -> None:
    assert "Remove the sigmoid" in refused(Sigmoid, likelihood="bernoulli")
    assert isinstance(architecture(Sigmoid).build(SHAPE, LATENTS, 0), FactoryModel)
    assert isinstance(architecture(plain, likelihood="bernoulli").build(SHAPE, LATENTS, 0), FactoryModel)


def test_a_distribution_is_its_own_likelihood() -> None:
    assert "Remove likelihood" in refused(Normal, likelihood="gaussian")


def test_a_distribution_that_refuses_the_items_is_one_sentence(data: Dataset) -> None:
    class Bits(Plain):
        def decode(self, z: Tensor) -> torch.distributions.Distribution:
            return torch.distributions.Bernoulli(logits=super().decode(z), validate_args=True)

    with pytest.raises(ConfigurationError, match="validate_args=False"):
        trained(Bits, data, Member(LATENTS))


def test_a_module_or_a_name_is_no_factory(data: Dataset) -> None:
    for given in (Plain(LATENTS), 3):
        with pytest.raises(ConfigurationError, match="a function from a number of latents"):
            vs.FitOptions(model=given).architecture(data)
    with pytest.raises(ConfigurationError, match="the name 'factories:plain' of a factory"):
        vs.FitOptions(model="factories:plain").architecture(data)
