"""What holds of every model that can be put together from the registered parts."""

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
from vaescope.nets import NETS
from vaescope.objectives import OBJECTIVES, Context
from vaescope.posteriors import POSTERIORS
from vaescope.priors import PRIORS
from vaescope.training.layout import Layout

IMAGE, VECTOR = (1, 16, 16), (12,)
ITEMS, LATENTS, WIDER = 3, 4, 7
STEP = torch.tensor(0)
ONLY_FOR_IMAGES = {"conv"}


def go_together(model: str, posterior: str) -> bool:
    return (model == "autoencoder") == (posterior == "deterministic")


def combinations() -> Iterator[Any]:
    for names in product(MODELS, NETS, POSTERIORS, PRIORS, LIKELIHOODS):
        for kind, shape in (("image", IMAGE), ("vector", VECTOR)):
            if go_together(names[0], names[2]) and (kind == "image" or names[1] not in ONLY_FOR_IMAGES):
                architecture = Architecture(*names, initialisation="torch")
                yield pytest.param(architecture, shape, id="-".join((*names, kind)))


every_model = pytest.mark.parametrize(("architecture", "shape"), list(combinations()))


def build(architecture: Architecture, shape: tuple[int, ...], latents: int = LATENTS, seed: int = 0) -> Any:
    return architecture.build(shape, latents, seed).double()


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def items(shape: tuple[int, ...]) -> Tensor:
    return draw(ITEMS, *shape, seed=0).sigmoid()


def streams_of(model: Any, objective: str = "beta") -> dict[str, int]:
    return {**model.noise, **OBJECTIVES[objective]().noise(len(model.latent_mask))}


def noise_of(model: Any, objective: str = "beta", seed: int = 1) -> dict[str, Tensor]:
    return {name: draw(ITEMS, width, seed=seed) for name, width in streams_of(model, objective).items()}


def context_of(mask: Tensor, noise: Mapping[str, Tensor]) -> Context:
    return Context(STEP, 100, mask, noise)


def parameters_of(model: nn.Module) -> dict[str, Tensor]:
    return {name: parameter.detach() for name, parameter in model.named_parameters()}


@every_model
def test_a_pass_has_the_shapes_of_its_items_and_latents(architecture: Architecture, shape: tuple[int, ...]) -> None:
    model, x = build(architecture, shape), items(shape)
    result = model(x, noise_of(model))
    assert result.z.shape == result.posterior.mean.shape == result.posterior.variance.shape == (ITEMS, LATENTS)
    assert result.likelihood.mean.shape == result.likelihood.variance.shape == (ITEMS, *shape)
    assert result.likelihood.log_prob(x).shape == (ITEMS,)
    assert (result.prior is None) == (architecture.model == "autoencoder")


@every_model
def test_encoding_and_decoding_are_the_halves_of_a_pass(architecture: Architecture, shape: tuple[int, ...]) -> None:
    model, x = build(architecture, shape), items(shape)
    result = model(x, noise_of(model))
    posterior = model.encode(x)
    assert posterior.mean.shape == (ITEMS, LATENTS)
    torch.testing.assert_close(posterior.mean, result.posterior.mean)
    torch.testing.assert_close(posterior.variance, result.posterior.variance)
    torch.testing.assert_close(model.decode(result.z).mean, result.likelihood.mean)


@pytest.mark.parametrize("objective", sorted(OBJECTIVES))
@every_model
def test_the_loss_and_every_gradient_are_finite(
    architecture: Architecture, shape: tuple[int, ...], objective: str
) -> None:
    model, x = build(architecture, shape), items(shape)
    noise = noise_of(model, objective)
    terms = OBJECTIVES[objective]()(x, model(x, noise), context_of(model.latent_mask, noise))
    assert all(value.shape == (ITEMS,) and torch.isfinite(value).all() for value in terms.values.values())
    terms.loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
        assert parameter.grad.any(), name


def loss_and_gradient(
    model: Any, layout: Layout, vector: Tensor, mask: Tensor, x: Tensor, noise: Mapping[str, Tensor], objective: str
) -> tuple[Tensor, Tensor]:
    vector = vector.clone().requires_grad_()
    result = functional_call(model, {**layout.unpack(vector), "latent_mask": mask}, (x, noise))
    loss = OBJECTIVES[objective]()(x, result, context_of(mask, noise)).loss
    return loss.detach(), torch.autograd.grad(loss, vector)[0]


@pytest.mark.parametrize("objective", sorted(OBJECTIVES))
@every_model
def test_a_model_runs_exactly_inside_a_wider_one(
    architecture: Architecture, shape: tuple[int, ...], objective: str
) -> None:
    model, wider, x = build(architecture, shape), build(architecture, shape, WIDER, seed=1), items(shape)
    own, room = Layout.of(model), Layout.of(wider)
    noise = noise_of(wider, objective)
    narrow = {name: noise[name][:, :width] for name, width in streams_of(model, objective).items()}
    mask = (torch.arange(WIDER) < LATENTS).double()
    loss, gradient = loss_and_gradient(
        model, own, own.pack(parameters_of(model)), torch.ones(LATENTS).double(), x, narrow, objective
    )
    wide_loss, wide_gradient = loss_and_gradient(
        wider, room, room.pack(parameters_of(model)), mask, x, noise, objective
    )
    torch.testing.assert_close(wide_loss, loss, rtol=1e-10, atol=1e-10)
    cropped = room.crop(wide_gradient, own)
    torch.testing.assert_close(cropped, gradient, rtol=1e-10, atol=1e-10)
    assert torch.equal(room.pack(own.unpack(cropped)), wide_gradient)


@every_model
def test_what_fills_the_spare_room_does_not_matter(architecture: Architecture, shape: tuple[int, ...]) -> None:
    model, wider, x = build(architecture, shape), build(architecture, shape, WIDER, seed=1), items(shape)
    for name, room in wider.named_parameters():
        value = parameters_of(model)[name]
        room.data[tuple(slice(size) for size in value.shape)] = value
    wider.latent_mask[LATENTS:] = 0
    noise = noise_of(wider)
    result = wider(x, noise)
    expected = model(x, {name: values[:, : model.noise[name]] for name, values in noise.items()})
    torch.testing.assert_close(result.z[:, :LATENTS], expected.z)
    assert not result.z[:, LATENTS:].any()
    torch.testing.assert_close(result.likelihood.log_prob(x), expected.likelihood.log_prob(x))
    if result.prior is not None:
        torch.testing.assert_close(result.posterior.kl(result.prior), expected.posterior.kl(expected.prior))


@every_model
def test_the_weights_come_back_from_a_state(architecture: Architecture, shape: tuple[int, ...]) -> None:
    one, other, x = build(architecture, shape), build(architecture, shape, seed=1), items(shape)
    assert not torch.equal(one.encode(x).mean, other.encode(x).mean)
    state = one.state_dict()
    assert set(state) == {name for name, _ in one.named_parameters()}
    other.load_state_dict(state, strict=True)
    noise = noise_of(one)
    assert torch.equal(one(x, noise).likelihood.mean, other(x, noise).likelihood.mean)


class Recorder(dict[str, Tensor]):
    """A table of noise that remembers what was asked for."""

    def __init__(self, values: Mapping[str, Tensor]) -> None:
        super().__init__(values)
        self.asked: set[str] = set()

    def __getitem__(self, name: str) -> Tensor:
        self.asked.add(name)
        return super().__getitem__(name)


@every_model
def test_the_noise_that_is_declared_is_the_noise_that_is_used(
    architecture: Architecture, shape: tuple[int, ...]
) -> None:
    model, x = build(architecture, shape), items(shape)
    recorder = Recorder(noise_of(model))
    z = model(x, recorder).z
    assert recorder.asked == set(model.noise)
    for name in model.noise:
        assert not torch.isclose(model(x, {**recorder, name: draw(*recorder[name].shape, seed=9)}).z, z).any()
    before = torch.get_rng_state()
    assert torch.equal(model(x, recorder).z, z)
    assert torch.equal(torch.get_rng_state(), before)


@every_model
def test_the_seed_decides_the_weights(architecture: Architecture, shape: tuple[int, ...]) -> None:
    one, again = (parameters_of(build(architecture, shape, seed=3)) for _ in range(2))
    assert all(torch.equal(one[name], again[name]) for name in one)


@pytest.mark.parametrize(("model", "posterior"), list(product(MODELS, POSTERIORS)))
def test_a_model_and_a_posterior_that_do_not_go_together_are_named(model: str, posterior: str) -> None:
    if go_together(model, posterior):
        assert Architecture(model, posterior=posterior).model == model
    else:
        with pytest.raises(ConfigurationError, match=rf"model '{model}' and posterior \w+ do not go together"):
            Architecture(model, posterior=posterior)


@pytest.mark.parametrize("latents", [0, -1, 13, 2.0, True, "3"])
def test_a_number_of_latents_that_the_data_cannot_have_is_named(latents: Any) -> None:
    with pytest.raises(LatentError, match=r"whole number between 1 and 12 .*got "):
        Architecture(net="affine").build(VECTOR, latents, 0)
