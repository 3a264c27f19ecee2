"""Contract tests for every model that can be built from registered parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.func import functional_call

from vaescope.errors import ConfigurationError, LatentError
from vaescope.likelihoods import LIKELIHOODS
from vaescope.models import MODELS, Architecture
from vaescope.nets import MLP, NETS
from vaescope.numerics.distributions import latent_rate
from vaescope.objectives import OBJECTIVES, Context
from vaescope.posteriors import POSTERIORS
from vaescope.priors import PRIORS
from vaescope.training.layout import Layout, Weights

IMAGE, SIGNAL, VECTOR = (1, 16, 16), (2, 13), (12,)
ITEMS, LATENTS, WIDER = 3, 4, 7
CONDITION = 3
STEP = torch.tensor(0)
ONLY_FOR = {"conv": "image", "conv1d": "signal", "resnet": "image"}
SMALL = MLP((6,), (6,), "tanh", "tanh")


def describe(model: str, **parts: Any) -> Architecture:
    """An architecture of registered parts, with a condition if its model takes one."""
    condition = CONDITION if MODELS[model].condition else 0
    return Architecture(model, initialisation="torch", condition=condition, **parts)


def are_compatible(model: str, **parts: Any) -> bool:
    try:
        return bool(describe(model, **parts))
    except ConfigurationError as refusal:
        if "do not go together" in str(refusal):
            return False
        raise


def default_posterior(model: str) -> str:
    """The diagonal posterior if it is compatible, else the first one that is."""
    return next(name for name in ("diagonal", *POSTERIORS) if are_compatible(model, posterior=name))


def every_posterior_and_prior() -> Iterator[Any]:
    """Small architectures: every model with every compatible posterior and prior."""
    for model, posterior, prior in product(MODELS, POSTERIORS, PRIORS):
        if are_compatible(model, posterior=posterior, prior=prior):
            architecture = describe(model, net=SMALL, posterior=posterior, prior=prior, likelihood="gaussian")
            yield pytest.param(architecture, VECTOR, id=f"{model}-{posterior}-{prior}")


def every_net_and_likelihood() -> Iterator[Any]:
    """Every net with every model, and every likelihood, for every kind of item; other parts are defaults."""
    for kind, shape in (("image", IMAGE), ("signal", SIGNAL), ("vector", VECTOR)):
        for model, net in product(MODELS, NETS):
            if ONLY_FOR.get(net, kind) == kind:
                architecture = describe(model, net=net, posterior=default_posterior(model))
                yield pytest.param(architecture, shape, id=f"{model}-{net}-{kind}")
        for likelihood in LIKELIHOODS:
            yield pytest.param(describe("vae", net=SMALL, likelihood=likelihood), shape, id=f"{likelihood}-{kind}")


def one_model_per_part() -> Iterator[Any]:
    """Every model with default parts, and every posterior and prior in one compatible model."""
    models = {name: describe(name, net=SMALL, posterior=default_posterior(name)) for name in MODELS}
    for part, table in (("posterior", POSTERIORS), ("prior", PRIORS)):
        for name in table:
            model = next(
                m for m in ("vae", *MODELS) if are_compatible(m, **{"posterior": default_posterior(m), part: name})
            )
            models[name] = describe(model, **{"net": SMALL, "posterior": default_posterior(model), part: name})
    for name, architecture in models.items():
        yield pytest.param(architecture, VECTOR, id=name)


every_model = pytest.mark.parametrize(
    ("architecture", "shape"),
    [*every_posterior_and_prior(), *every_net_and_likelihood()],
)
# An objective with a critic needs it in training, and is tested in test_factor.py.
every_objective = pytest.mark.parametrize(
    "objective", sorted(name for name, kind in OBJECTIVES.items() if kind().critic(LATENTS) is None)
)
some_models = pytest.mark.parametrize(("architecture", "shape"), list(one_model_per_part()))


def build(architecture: Architecture, shape: tuple[int, ...], latents: int = LATENTS, seed: int = 0) -> Any:
    return architecture.build(shape, latents, seed).double()


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def items(shape: tuple[int, ...]) -> Tensor:
    return draw(ITEMS, *shape, seed=0).sigmoid()


def condition_of(model: Any) -> Tensor | None:
    """The conditions of the items for a conditional model."""
    return draw(ITEMS, CONDITION, seed=2).sigmoid() if model.condition_width else None


def streams_of(model: Any, objective: str = "beta") -> dict[str, int]:
    return {**model.noise, **OBJECTIVES[objective]().noise(len(model.latent_mask))}


def noise_of(model: Any, objective: str = "beta", seed: int = 1) -> dict[str, Tensor]:
    return {name: draw(ITEMS, width, seed=seed) for name, width in streams_of(model, objective).items()}


def context_of(mask: Tensor, noise: Mapping[str, Tensor]) -> Context:
    return Context(STEP, 100, mask, noise)


def parameters_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


@every_model
def test_forward_pass_has_the_shapes_of_items_and_latents(architecture: Architecture, shape: tuple[int, ...]) -> None:
    model, x = build(architecture, shape), items(shape)
    result = model(x, noise_of(model), condition_of(model))
    assert result.z.shape == result.posterior.mean.shape == result.posterior.variance.shape == (ITEMS, LATENTS)
    assert result.likelihood.mean.shape == result.likelihood.variance.shape == (ITEMS, *shape)
    assert result.likelihood.log_prob(x).shape == (ITEMS,)
    assert (result.prior is None) == (architecture.model == "autoencoder")


@every_model
def test_encode_and_decode_agree_with_the_forward_pass(architecture: Architecture, shape: tuple[int, ...]) -> None:
    model, x = build(architecture, shape), items(shape)
    # Encoding uses no noise except that of the posterior.
    noise = {name: draw if name == "posterior" else draw * 0 for name, draw in noise_of(model).items()}
    result = model(x, noise, condition_of(model))
    posterior = model.encode(x, condition_of(model))
    assert posterior.mean.shape == (ITEMS, LATENTS)
    torch.testing.assert_close(posterior.mean, result.posterior.mean)
    torch.testing.assert_close(posterior.variance, result.posterior.variance)
    torch.testing.assert_close(model.decode(result.z, condition_of(model)).mean, result.likelihood.mean)


def assert_finite_loss_and_gradients(architecture: Architecture, shape: tuple[int, ...], objective: str) -> None:
    model, x = build(architecture, shape), items(shape)
    noise = noise_of(model, objective)
    terms = OBJECTIVES[objective]()(x, model(x, noise, condition_of(model)), context_of(model.latent_mask, noise))
    assert all(value.shape == (ITEMS,) and torch.isfinite(value).all() for value in terms.values.values())
    terms.loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.any(), name


@every_model
def test_loss_and_gradients_are_finite(architecture: Architecture, shape: tuple[int, ...]) -> None:
    assert_finite_loss_and_gradients(architecture, shape, "beta")


@every_objective
@some_models
def test_loss_and_gradients_are_finite_for_every_objective(
    architecture: Architecture, shape: tuple[int, ...], objective: str
) -> None:
    assert_finite_loss_and_gradients(architecture, shape, objective)


def loss_and_gradient(
    model: Any, layout: Layout, vector: Tensor, mask: Tensor, x: Tensor, noise: Mapping[str, Tensor], objective: str
) -> tuple[Tensor, Tensor]:
    vector = vector.clone().requires_grad_()
    result = functional_call(
        model, {**layout.unpack(vector).model, "latent_mask": mask}, (x, noise, condition_of(model))
    )
    loss = OBJECTIVES[objective]()(x, result, context_of(mask, noise)).loss
    return loss.detach(), torch.autograd.grad(loss, vector)[0]


def assert_same_loss_inside_a_wider_one(architecture: Architecture, shape: tuple[int, ...], objective: str) -> None:
    model, wider = build(architecture, shape), build(architecture, shape, WIDER, seed=1)
    x = items(shape)
    own, room = Layout.of(model), Layout.of(wider)
    noise = noise_of(wider, objective)
    narrow = {name: noise[name][:, :width] for name, width in streams_of(model, objective).items()}
    mask = (torch.arange(WIDER) < LATENTS).double()
    packed = Weights(parameters_of(model))
    loss, gradient = loss_and_gradient(model, own, own.pack(packed), torch.ones(LATENTS).double(), x, narrow, objective)
    wide_loss, wide_gradient = loss_and_gradient(wider, room, room.pack(packed), mask, x, noise, objective)
    torch.testing.assert_close(wide_loss, loss, rtol=1e-10, atol=1e-10)
    cropped = room.crop(wide_gradient, own)
    torch.testing.assert_close(cropped, gradient, rtol=1e-10, atol=1e-10)
    assert torch.equal(room.pack(own.unpack(cropped)), wide_gradient)


@every_model
def test_a_model_gives_the_same_loss_inside_a_wider_one(architecture: Architecture, shape: tuple[int, ...]) -> None:
    assert_same_loss_inside_a_wider_one(architecture, shape, "beta")


@every_objective
@some_models
def test_a_model_gives_the_same_loss_inside_a_wider_one_for_every_objective(
    architecture: Architecture, shape: tuple[int, ...], objective: str
) -> None:
    assert_same_loss_inside_a_wider_one(architecture, shape, objective)


@every_model
def test_weights_of_masked_latents_do_not_matter(architecture: Architecture, shape: tuple[int, ...]) -> None:
    model, wider = build(architecture, shape), build(architecture, shape, WIDER, seed=1)
    x = items(shape)
    for name, room in wider.named_parameters():
        value = parameters_of(model)[name]
        room.data[tuple(slice(size) for size in value.shape)] = value
    wider.latent_mask[LATENTS:] = 0
    noise = noise_of(wider)
    result = wider(x, noise, condition_of(wider))
    expected = model(x, {name: values[:, : model.noise[name]] for name, values in noise.items()}, condition_of(model))
    torch.testing.assert_close(result.z[:, :LATENTS], expected.z)
    assert not result.z[:, LATENTS:].any()
    torch.testing.assert_close(result.likelihood.log_prob(x), expected.likelihood.log_prob(x))
    if result.prior is not None:
        rate, expected_rate = (latent_rate(one.posterior, one.prior, one.z).sum(1) for one in (result, expected))
        torch.testing.assert_close(rate, expected_rate)


@every_model
def test_a_state_dict_restores_the_model(architecture: Architecture, shape: tuple[int, ...]) -> None:
    one, other, x = build(architecture, shape), build(architecture, shape, seed=1), items(shape)
    assert not torch.equal(one.encode(x, condition_of(one)).mean, other.encode(x, condition_of(one)).mean)
    state = one.state_dict()
    layout = Layout.of(one)
    assert set(state) == {*layout.names, *layout.buffers}
    other.load_state_dict(state, strict=True)
    inputs = (x, noise_of(one), condition_of(one))
    assert torch.equal(one(*inputs).likelihood.mean, other(*inputs).likelihood.mean)


class Recorder(dict[str, Tensor]):
    """A table of noise that records which streams are read."""

    def __init__(self, values: Mapping[str, Tensor]) -> None:
        super().__init__(values)
        self.used: set[str] = set()

    def __getitem__(self, name: str) -> Tensor:
        self.used.add(name)
        return super().__getitem__(name)


@every_model
def test_a_model_uses_exactly_the_noise_it_declares(architecture: Architecture, shape: tuple[int, ...]) -> None:
    model, x = build(architecture, shape), items(shape)
    recorder = Recorder(noise_of(model))
    z = model(x, recorder, condition_of(model)).z
    assert recorder.used == set(model.noise)
    for name in model.noise:
        other = {**recorder, name: draw(*recorder[name].shape, seed=9)}
        assert (model(x, other, condition_of(model)).z != z).all()
    before = torch.get_rng_state()
    assert torch.equal(model(x, recorder, condition_of(model)).z, z)
    assert torch.equal(torch.get_rng_state(), before)


@every_model
def test_equal_seeds_give_equal_weights(architecture: Architecture, shape: tuple[int, ...]) -> None:
    one, again = (parameters_of(build(architecture, shape, seed=3)) for _ in range(2))
    assert all(torch.equal(one[name], again[name]) for name in one)


@pytest.mark.parametrize(("model", "posterior"), list(product(MODELS, POSTERIORS)))
def test_an_incompatible_model_and_posterior_are_named_in_the_error(model: str, posterior: str) -> None:
    if (model == "autoencoder") == (posterior == "deterministic"):
        assert describe(model, posterior=posterior).model == model
    else:
        with pytest.raises(ConfigurationError, match=rf"'{model}' and posterior"):
            describe(model, posterior=posterior)


def test_every_registered_part_is_tested() -> None:
    tested = [parameter.id.split("-") for parameter in every_posterior_and_prior()]
    assert [set(column) for column in zip(*tested, strict=True)] == [set(MODELS), set(POSTERIORS), set(PRIORS)]


@pytest.mark.parametrize("latents", [0, -1, 13, 2.0, True, "3"])
def test_an_invalid_number_of_latents_is_refused(latents: Any) -> None:
    with pytest.raises(LatentError, match=r"between 1 and 12 .*got "):
        Architecture(net="affine").build(VECTOR, latents, 0)
