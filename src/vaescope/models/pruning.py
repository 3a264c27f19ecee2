"""A model with fewer latents: the others are held at constants, which the decoder's first layer takes into its bias."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import singledispatch
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.checks import is_whole
from vaescope.errors import ConfigurationError, LatentError
from vaescope.models.architecture import Architecture
from vaescope.posteriors import Full
from vaescope.priors import Anisotropic, ConditionalGaussian, Mixture, Sparse, Standard, StudentT


def pruned(
    model: Any,
    architecture: Architecture,
    shape: tuple[int, ...],
    keep: Sequence[int],
    fill: Float[Tensor, "latents"],
) -> tuple[nn.Module, Architecture]:
    """The model with the latents `keep` alone, and the architecture that builds it.

    To rounding, its posterior and its prior are those of the model at `keep`, and what it decodes from z[keep] is what
    the model decodes from z with every other latent at its number in `fill`, which has one for each latent.
    """
    latents = len(model.latent_mask)
    kept = checked_keep(keep, latents)
    _check_exact(architecture, kept)
    layer = first_layer(model)
    prior = getattr(model, "prior", None)
    if prior is not None:
        architecture = replace(architecture, prior=kept_prior(architecture.prior, prior, kept))
    small = architecture.build(shape, len(kept), seed=None)
    whole, wanted = model.state_dict(), small.state_dict()
    index = torch.tensor(kept, device=fill.device)
    tensors = {name: _cut(value, wanted[name].shape, latents, index) for name, value in whole.items()}
    tensors[f"{layer}.bias"] = _with_constants(whole[f"{layer}.weight"], whole[f"{layer}.bias"], kept, fill)
    small.to(whole[f"{layer}.bias"]).load_state_dict(tensors)
    return small.train(model.training), architecture


def checked_keep(keep: Sequence[int], latents: int) -> tuple[int, ...]:
    """The numbers of the latents to keep in ascending order, or an error that says what is wrong with them."""
    given: Any = keep.tolist() if hasattr(keep, "tolist") else keep
    numbers = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else []
    if not numbers or not all(is_whole(one, 0, latents - 1) for one in numbers) or len({*numbers}) < len(numbers):
        raise LatentError(
            f"the latents to keep must be different whole numbers from 0 to {latents - 1}, at least one of them, "
            f"got {keep!r}."
        )
    return tuple(sorted(int(one) for one in numbers))


def first_layer(model: Any) -> str:
    """The name of the layer through which codes enter the decoder; the columns of its weight end with the latents."""
    layers = ((name, layer) for name, layer in model.decoder.named_modules() if isinstance(layer, nn.Linear))
    name, layer = next(layers, ("", None))
    told = getattr(model, "condition_width", 0)
    if layer is None or layer.in_features - len(model.latent_mask) not in (0, told):
        raise ConfigurationError(
            "a decoder must begin with a linear layer that takes the code for it to be pruned or exported, "
            f"{type(model.decoder).__name__} does not. Use one of this library's nets."
        )
    return f"decoder.{name}"


def _check_exact(architecture: Architecture, kept: tuple[int, ...]) -> None:
    """Models of which no smaller one has the same codes are refused."""
    if architecture.model == "vgon":
        raise ConfigurationError(
            "a model 'vgon' cannot be pruned: its code is a gradient through the whole decoder, so that a smaller one "
            f"would encode differently. Train one with {len(kept)} latents."
        )
    if isinstance(architecture.posterior, Full) and kept != tuple(range(len(kept))):
        raise ConfigurationError(
            "a model with the posterior 'full' can only lose its last latents: it has the Cholesky factor of the "
            f"covariance, and that of the latents {', '.join(map(str, kept))} alone is no part of it. Train one with "
            f"{len(kept)} latents."
        )


def _cut(value: Tensor, wanted: tuple[int, ...], latents: int, kept: Tensor) -> Tensor:
    """A tensor without what belongs to dropped latents, along every axis that is longer than in the small model.

    What such an axis has beside latents, the label that a decoder is told, comes before them and stays.
    """
    for axis, (size, target) in enumerate(zip(value.shape, wanted, strict=True)):
        if size != target:
            before = size - latents
            places = torch.cat([torch.arange(before, device=kept.device), before + kept])
            value = value.index_select(axis, places.to(value.device))
    return value


def _with_constants(weight: Tensor, bias: Tensor, kept: tuple[int, ...], fill: Tensor) -> Tensor:
    """The bias of a layer some of whose inputs are constant; summed in float64, as there may be many of them."""
    constants = fill.to(weight.device, torch.float64, copy=True)
    constants[list(kept)] = 0
    return (bias.double() + weight[:, -len(constants) :].double() @ constants).to(bias.dtype)


@singledispatch
def kept_prior(prior: Any, module: Any, kept: tuple[int, ...]) -> Any:
    """The description of a prior's marginal over the kept latents; `module` holds what was learned of it."""
    raise ConfigurationError(
        f"a prior {type(prior).__name__} cannot be pruned: what it is to fewer latents is not known. Register that "
        "with `vaescope.models.pruning.kept_prior.register`."
    )


@kept_prior.register(ConditionalGaussian)
@kept_prior.register(Sparse)
@kept_prior.register(Standard)
@kept_prior.register(StudentT)
def _(prior: Any, module: Any, kept: tuple[int, ...]) -> Any:
    return prior


@kept_prior.register
def _(prior: Anisotropic, module: Any, kept: tuple[int, ...]) -> Anisotropic:
    """Variances are shares of a sum: for the kept ones to stay what they are, the scale becomes their mean."""
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
def _(prior: Mixture, module: Any, kept: tuple[int, ...]) -> Mixture | Standard:
    """The means lose coordinates; where none is left, all components are N(0, 1) in every latent."""
    placed = [latent for latent in kept if latent < len(prior.means[0])]
    return replace(prior, means=tuple(tuple(row[j] for j in placed) for row in prior.means)) if placed else Standard()
