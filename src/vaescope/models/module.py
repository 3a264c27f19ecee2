"""The base of the models that an architecture builds from its parts (Bonheme, figure 3.1)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.data.conditions import checked_condition
from vaescope.data.dataset import Missing
from vaescope.data.pixel_scale import UNIT_SCALE, PixelScale
from vaescope.likelihoods.likelihood import Likelihood, LikelihoodModule
from vaescope.likelihoods.units import ItemUnits, item_units
from vaescope.models.latent_model import Items, LatentModel
from vaescope.nets.net import Decoder, Encoder, Net, Shape
from vaescope.numerics.distributions import DiagonalGaussian, Distribution
from vaescope.posteriors.posterior import Posterior, PosteriorHead
from vaescope.priors.prior import Prior
from vaescope.priors.unconditional import StandardPrior
from vaescope.registry import Registry


@dataclass(frozen=True)
class Parts:
    """The parts that a model is built from.

    Attributes:
        condition_width: Number of columns of the condition; 0 for an unconditional model.
        standardise, missing: How the model takes items, as in `Dataset`.
    """

    net: Net
    posterior: Posterior
    prior: Prior
    likelihood: Likelihood
    condition_width: int = 0
    standardise: bool = False
    missing: Missing | None = None


class TrainableModel(nn.Module, LatentModel):
    """A `LatentModel` as a torch module that can be trained and kept as a run.

    Attributes:
        nests: Whether a model with n latents runs exactly inside a wider one.
        item_shape: The shape of an item.
        units: From the units of the data to those inside of the model, and back; None if they are the same.
        pixel_scale: The scale of the images that it was trained on. Its own methods take and give pixels in [0, 1]; the
            functions of `vaescope.encoding` and the methods of a run, pixels in this scale.
    """

    nests: ClassVar[bool] = True

    item_shape: tuple[int, ...]
    pixel_scale: PixelScale = UNIT_SCALE
    units: ItemUnits | None

    @property
    def missing(self) -> Missing | None:
        """'mask' if the model takes NaNs as missing values."""
        return None if self.units is None else self.units.missing

    def inside(self, x: Items) -> Items:
        """Items as the encoder takes them: in the units and in the precision of the model."""
        return x if self.units is None else self.units.inside(x).to(self.latent_mask.dtype)


class LatentModule(TrainableModel):
    """A trainable model made of an encoder, a posterior, a prior, a decoder and a likelihood.

    A subclass is built from `(shape, latents, parts)` and its options, and implements `encode`, which passes items
    through `inside`, and `forward`. A model without an encoder has None in its place; a deterministic posterior has no
    noise and no prior. A model that decodes in another way implements `LatentModel`.

    Attributes:
        conditioned_decoder: Whether the decoder takes the condition before z; default: z alone.
    """

    conditioned_decoder: ClassVar[bool] = False

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.decode is not LatentModule.decode:
            raise TypeError(f"{cls.__name__} must not override decode. Implement LatentModel to decode in another way.")

    def __init__(
        self,
        shape: Shape,
        latents: int,
        parts: Parts,
        *,
        encoder: Encoder | None,
        features: int,
        noise: Mapping[str, int] | None = None,
    ) -> None:
        """Build the modules after the encoder, which gives `features` numbers to the posterior.

        The default noise is one stream, 'posterior', with a column for each latent.
        """
        super().__init__()
        self.item_shape = tuple(shape)
        self.condition_width = parts.condition_width
        deterministic = parts.posterior.deterministic
        # The order of these modules is the order of the parameters in every saved training state.
        self.encoder = encoder
        self.posterior: PosteriorHead = parts.posterior.head(features, latents)
        self.prior = None if deterministic else parts.prior.module(latents, self.condition_width)
        self.decoder: Decoder = parts.net.decoder(self.decoder_condition_width + latents, shape)
        self.likelihood: LikelihoodModule = parts.likelihood.module(shape)
        self.units = item_units(self.item_shape, parts.standardise, parts.missing)
        if noise is None:
            noise = {} if deterministic else {"posterior": latents}
        self.noise = dict(noise)
        self.latent_mask: Tensor
        self.register_buffer("latent_mask", torch.ones(latents), persistent=False)

    @final
    def decode(self, z: Float[Tensor, "batch latents"], condition: Tensor | None = None) -> Distribution:
        """p(x|z), or p(x|z, condition)."""
        z = z.to(self.latent_mask.dtype)
        # The condition comes first, so that z can grow.
        inputs = torch.cat([self.given(condition), z], 1) if self.conditioned_decoder else z
        found = self.likelihood(self.decoder(inputs))
        return found if self.units is None else self.units(found)

    @property
    def decoder_condition_width(self) -> int:
        """How many numbers come before z in the input of the decoder."""
        return self.condition_width if self.conditioned_decoder else 0

    def given(self, condition: Tensor | None) -> Float[Tensor, "batch width"]:
        """The condition, checked and in the precision of the model."""
        found = checked_condition(condition, self.condition_width, self.condition or "condition")
        return found.to(self.latent_mask.dtype)


MODELS: Registry[type[LatentModule]] = Registry("model", "vaescope.models", LatentModule)


def gaussian_prior(model: LatentModel, condition: Tensor | None = None) -> DiagonalGaussian | None:
    """The prior of a model if it is a Gaussian other than N(0, 1); codes are measured against N(0, 1) otherwise."""
    if model.prior is None or isinstance(model.prior, StandardPrior):
        return None
    prior = model.prior(model.latent_mask, condition)
    return prior if isinstance(prior, DiagonalGaussian) else None


def has_mode(module: nn.Module) -> bool:
    """Whether it has a mode; what TorchScript has frozen has none."""
    return hasattr(module, "training")


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Evaluation mode inside the block; afterwards every submodule returns to its mode.

    Modes are set without `eval`, which may do more: adapters of weights merge them, exported programs refuse.
    """
    modes = [(module, module.training) for module in model.modules() if has_mode(module)]
    try:
        for module, _ in modes:
            module.training = False
        yield
    finally:
        for module, training in modes:
            module.training = training


@contextmanager
def copied_buffers(model: nn.Module) -> Iterator[None]:
    """Copies of all buffers inside the block; afterwards every submodule has its own again, unchanged."""
    owned = [
        (module, name, buffer)
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    for module, name, buffer in owned:
        module._buffers[name] = buffer.clone()
    try:
        yield
    finally:
        for module, name, buffer in owned:
            module._buffers[name] = buffer
