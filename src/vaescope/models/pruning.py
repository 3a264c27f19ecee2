"""Removal of latents: each is held at a constant, which moves into the bias of the decoder's first layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import singledispatch

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.checks import is_whole
from vaescope.errors import ConfigurationError, LatentError
from vaescope.models.architecture import Architecture
from vaescope.models.module import LatentModule
from vaescope.posteriors import Full
from vaescope.priors import Anisotropic, ConditionalGaussian, Mixture, Prior, PriorModule, Sparse, Standard, StudentT
from vaescope.priors.unconditional import AnisotropicPrior


def pruned(
    model: LatentModule,
    architecture: Architecture,
    shape: tuple[int, ...],
    keep: Sequence[int],
    fill: Float[Tensor, "latents"],
) -> tuple[LatentModule, Architecture]:
    """The model with only the latents `keep`, and its architecture.

    Up to rounding, its posterior and prior are those of the whole model at `keep`, and it decodes z[keep] as the whole
    model decodes z with every other latent set to its value in `fill`.

    Args:
        architecture: The architecture of `model`.
        shape: The shape of an item.
        keep: The latents to keep.
        fill: A value for each latent; only those of removed latents count.
    """
    latents = len(model.latent_mask)
    kept = checked_keep(keep, latents)
    _check_exact(model, architecture, kept)
    layer = first_layer(model)
    if model.prior is not None:
        architecture = replace(architecture, prior=kept_prior(architecture.parts.prior, model.prior, kept))
    small = architecture.build(shape, len(kept), seed=None)
    whole, wanted = model.state_dict(), small.state_dict()
    index = torch.tensor(kept, device=fill.device)
    tensors = {name: cut_to_kept(value, wanted[name].shape, latents, index) for name, value in whole.items()}
    tensors[f"{layer}.bias"] = _with_constants(whole[f"{layer}.weight"], whole[f"{layer}.bias"], kept, fill)
    small.to(whole[f"{layer}.bias"]).load_state_dict(tensors)
    return small.train(model.training), architecture


def checked_keep(keep: Sequence[int], latents: int) -> tuple[int, ...]:
    """The latents to keep in ascending order, or an error that says what is wrong with them."""
    given: object = keep.tolist() if hasattr(keep, "tolist") else keep
    numbers = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else []
    if not numbers or not all(is_whole(one, 0, latents - 1) for one in numbers) or len({*numbers}) < len(numbers):
        raise LatentError(
            f"the latents to keep must be different whole numbers from 0 to {latents - 1}, at least one of them, "
            f"got {keep!r}."
        )
    return tuple(sorted(int(one) for one in numbers))


def first_layer(model: LatentModule) -> str:
    """The name of the first layer of the decoder; the last columns of its weight belong to the latents."""
    modules = model.get_submodule("decoder").named_modules()
    layers = ((name, layer) for name, layer in modules if isinstance(layer, nn.Linear))
    name, layer = next(layers, ("", None))
    if layer is None or layer.in_features - len(model.latent_mask) != model.decoder_condition_width:
        raise ConfigurationError(
            "a decoder must begin with a linear layer that takes the code to be pruned or exported, but "
            f"{type(model.decoder).__name__} does not. Use one of this library's nets."
        )
    return f"decoder.{name}"


def _check_exact(model: LatentModule, architecture: Architecture, kept: tuple[int, ...]) -> None:
    """Raise an error for a model that no smaller model can reproduce."""
    if model.encoder is None:
        raise ConfigurationError(
            f"a model {architecture.model!r} cannot be pruned: its code is a gradient through the whole decoder, so a "
            f"smaller model would encode differently. Train one with {len(kept)} latents."
        )
    if isinstance(architecture.posterior, Full) and kept != tuple(range(len(kept))):
        raise ConfigurationError(
            "a model with the posterior 'full' can only lose its last latents, because the Cholesky factor of the "
            f"latents {', '.join(map(str, kept))} is no part of the whole factor. Train one with {len(kept)} latents."
        )


def cut_to_kept(value: Tensor, wanted: tuple[int, ...], latents: int, kept: Tensor) -> Tensor:
    """Remove dropped latents along every axis that is longer than in the small model.

    Entries that come before the latents, those of the decoder's condition, stay.
    """
    for axis, (size, target) in enumerate(zip(value.shape, wanted, strict=True)):
        if size != target:
            before = size - latents
            places = torch.cat([torch.arange(before, device=kept.device), before + kept])
            value = value.index_select(axis, places.to(value.device))
    return value


def _with_constants(weight: Tensor, bias: Tensor, kept: tuple[int, ...], fill: Tensor) -> Tensor:
    """The bias of a layer with some constant inputs; summed in float64, because there may be many."""
    constants = fill.to(weight.device, torch.float64, copy=True)
    constants[list(kept)] = 0
    return (bias.double() + weight[:, -len(constants) :].double() @ constants).to(bias.dtype)


@singledispatch
def kept_prior(prior: Prior, module: PriorModule, kept: tuple[int, ...]) -> Prior:
    """The marginal of a prior over the kept latents; `module` holds its learned parameters."""
    raise ConfigurationError(
        f"a prior {type(prior).__name__} cannot be pruned, because its marginal over fewer latents is unknown. "
        "Register a function that returns it with `vaescope.models.pruning.kept_prior.register`."
    )


@kept_prior.register(ConditionalGaussian)
@kept_prior.register(Sparse)
@kept_prior.register(Standard)
@kept_prior.register(StudentT)
def _(prior: Prior, module: PriorModule, kept: tuple[int, ...]) -> Prior:
    return prior


@kept_prior.register
def _(prior: Anisotropic, module: AnisotropicPrior, kept: tuple[int, ...]) -> Anisotropic:
    """Variances are shares of a sum: the kept ones stay the same if the scale becomes their mean."""
    if prior.kind == "isotropic":
        return prior
    share = torch.softmax(module.log_variance.detach().double(), 0)[list(kept)]
    given = prior.log_variance
    return replace(
        prior,
        log_variance=None if given is None else tuple(given[latent] for latent in kept),
        scale=prior.scale * len(module.log_variance) * float(share.mean()),
    )


@kept_prior.register
def _(prior: Mixture, module: PriorModule, kept: tuple[int, ...]) -> Mixture | Standard:
    """The means lose coordinates; if none is left, all components are N(0, 1)."""
    placed = [latent for latent in kept if latent < len(prior.means[0])]
    return replace(prior, means=tuple(tuple(row[j] for j in placed) for row in prior.means)) if placed else Standard()
