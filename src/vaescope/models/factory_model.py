"""A module that a factory built, as a model to train: its encoder and decoder, our sampling and objective."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.distributions import Distribution as TorchDistribution

from vaescope.errors import ConfigurationError, DataError
from vaescope.likelihoods import Bernoulli, Likelihood
from vaescope.likelihoods.units import ItemUnits
from vaescope.models.factory import FactoryRecord, built_module, checked_factory_size, factory_name
from vaescope.models.factory_source import FactoryFunction
from vaescope.models.latent_model import ForwardPass, Items, Noise
from vaescope.models.module import TrainableModel, evaluation_mode
from vaescope.models.readers import Reader
from vaescope.models.recognition import (
    Conventions,
    DecoderCall,
    EncoderCall,
    Form,
    Function,
    decoded_part,
    find_decoder,
    find_encoder,
    first_line,
    in_form,
)
from vaescope.nets.net import Shape
from vaescope.numerics import counter
from vaescope.numerics.distributions import DiagonalGaussian, Distribution
from vaescope.priors import Prior

# A model is examined with this many latents and random items, whatever it is trained with: these are enough for
# log-variances and logits to have both signs.
LATENTS, ITEMS, WIDE = 8, 32, 10.0
FORWARD = "forward"
# What an error about a model that exists ends with.
ADVICE = re.compile(r" (?=Pass |Check that )")


@dataclass(frozen=True)
class Reading:
    """How the modules of a factory encode and decode, recognised as `vaescope.wrap` does.

    Attributes:
        encode, decode: The names of the methods.
        form: The form in which `encode` takes items.
        reader: How to read what `encode` returns.
        likelihood: What the tensor that `decode` returns parametrises, if the factory says so.
        decodes_distribution: Whether `decode` returns p(x|z) itself.
        within_unit: Whether `decode` returns numbers in [0, 1], as after a sigmoid.
        convolutional: Whether there are convolutions.
    """

    encode: str
    form: Form
    reader: Reader
    decode: str
    likelihood: Likelihood | None
    decodes_distribution: bool
    within_unit: bool
    convolutional: bool


@dataclass(frozen=True)
class KeptLatents:
    """The latents that a pruned model keeps of those of the module: their numbers, and how many the module has."""

    kept: tuple[int, ...]
    whole: int


class FactoryModel(TrainableModel):
    """A module of other people between our posterior, prior and likelihood.

    Attributes:
        module: What the factory built.
        likelihood: From the output of `decode` to p(x|z); None if `decode` returns it.
        kept: The latents of a pruned model; None for all.
    """

    # A module with fewer latents has other weights than the first ones of a wider module.
    nests = False

    def __init__(
        self,
        module: nn.Module,
        reading: Reading,
        shape: Shape,
        latents: int,
        prior: Prior,
        likelihood: Likelihood | None,
        kept: KeptLatents | None = None,
        units: ItemUnits | None = None,
    ) -> None:
        super().__init__()
        self.module, self.reading, self.item_shape, self.kept = module, reading, tuple(shape), kept
        self.prior = prior.module(latents)
        self.likelihood = None if likelihood is None else likelihood.module(shape)
        self.units = units
        self.condition_width, self.noise = 0, {"posterior": latents}
        self.latent_mask: Tensor
        self.held_at: Tensor
        self.register_buffer("latent_mask", torch.ones(latents), persistent=False)
        if kept is not None:
            self.register_buffer("held_at", torch.zeros(kept.whole))

    def encode(self, x: Items, condition: Tensor | None = None) -> DiagonalGaussian:
        """q(z|x)."""
        # Other people's modules flatten with view, and change their input in place.
        x = in_form(self.inside(x), self.reading.form).clone(memory_format=torch.contiguous_format)
        found = self.reading.reader.parameters(method_of(self.module, self.reading.encode)(x)).gaussian()
        if self.kept is not None:
            index = torch.tensor(self.kept.kept, device=x.device)
            found = DiagonalGaussian(found.mean.index_select(1, index), found.log_variance.index_select(1, index))
        return DiagonalGaussian(found.mean * self.latent_mask, found.log_variance * self.latent_mask)

    def decode(self, z: Float[Tensor, "batch latents"], condition: Tensor | None = None) -> Distribution:
        """p(x|z)."""
        z = z.to(self.latent_mask.dtype)
        if self.kept is not None:
            z = self._with_dropped(z, self.kept)
        found = decoded_part(method_of(self.module, self.reading.decode)(z.clone()))
        if isinstance(found, Tensor):
            assert self.likelihood is not None
            items = self.likelihood(found.reshape(z.shape[0], *self.item_shape))
            return items if self.units is None else self.units(items)
        if isinstance(found, TorchDistribution):
            return ItemDistribution(found, self.item_shape)
        assert found is not None
        return found

    def forward(self, x: Items, noise: Noise, condition: Tensor | None = None) -> ForwardPass:
        posterior = self.encode(x)
        z = posterior.sample(noise["posterior"]) * self.latent_mask
        assert self.prior is not None
        return ForwardPass(posterior, z, self.decode(z), self.prior(self.latent_mask, None))

    def _with_dropped(self, z: Tensor, kept: KeptLatents) -> Tensor:
        """The codes of the module: dropped latents are at their constants."""
        dropped = [latent for latent in range(kept.whole) if latent not in kept.kept]
        constants = self.held_at[torch.tensor(dropped, device=z.device)].to(z).expand(z.shape[0], -1)
        order = torch.tensor([*kept.kept, *dropped], device=z.device).argsort()
        return torch.cat([z, constants], 1).index_select(1, order)


@dataclass(frozen=True)
class ItemDistribution:
    """A distribution of torch over items."""

    distribution: TorchDistribution
    shape: tuple[int, ...]

    @property
    def mean(self) -> Float[Tensor, "batch ..."]:
        """The mean, in the shape of an item."""
        return self._items(self.distribution.mean)

    @property
    def variance(self) -> Float[Tensor, "batch ..."]:
        """The variance of each dimension."""
        return self._items(self.distribution.variance)

    def sample(self, noise: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch ..."]:
        """A draw from standard normal noise: the quantile with the same cumulative probability."""
        own = self.distribution.mean.shape
        return self._items(self.distribution.icdf(torch.special.ndtr(noise.reshape(own))))

    def log_prob(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch"]:
        """log p(x|z), summed over the item."""
        found = self.distribution
        try:
            density = found.log_prob(x.reshape(*found.batch_shape, *found.event_shape))
        except ValueError as error:
            raise ConfigurationError(
                f"the distribution {type(found).__name__} that decode returns must take the items, but "
                f"{first_line(error)}. Return another one, or pass validate_args=False to it."
            ) from error
        return density.reshape(x.shape[0], -1).sum(1)

    def _items(self, values: Tensor) -> Tensor:
        return values.reshape(values.shape[0], *self.shape)


def method_of(module: nn.Module, name: str) -> Function:
    """A method of a module by its name; the module itself for its forward pass, so that hooks run."""
    found: Function = module if name == FORWARD else getattr(module, name)
    return found


def examine(function: FactoryFunction, shape: Shape) -> tuple[FactoryRecord, Reading]:
    """What a run keeps of a factory, and how its modules encode and decode items of a shape."""
    latents = min(LATENTS, math.prod(shape))
    found = built_module(function, latents, seed=0)
    assert found.module is not None
    return FactoryRecord.of(function, found.module), _reading(found, f"{factory_name(function)}", latents, shape)


def check_size(module: nn.Module, reading: Reading, name: str, latents: int, shape: Shape) -> None:
    """Raise an error unless a module that was built encodes items to `latents` latents, and decodes them."""
    with torch.no_grad(), evaluation_mode(module), counter.seeded(0, name, torch.device("cpu")):
        x = _items(shape)[:1]
        encoded = reading.reader.parameters(method_of(module, reading.encode)(in_form(x, reading.form)))
        assert isinstance(encoded.mean, Tensor)
        checked_factory_size(latents, tuple(encoded.mean.shape[1:]), name)


def _reading(given: Conventions, name: str, latents: int, shape: Shape) -> Reading:
    module, x = given.module, _items(shape)
    assert module is not None
    call = f"{name}({latents})"
    with torch.no_grad(), evaluation_mode(module), counter.seeded(0, name, torch.device("cpu")):
        encoder = _encoder(given, call, x)
        (reader,) = encoder.readers.values()
        codes = reader.parameters(encoder.function(in_form(x.clone(), encoder.form)))
        if codes.second is None:
            raise ConfigurationError(
                f"the model that {call} returns must encode to a mean and a variance, got a code without noise. "
                "Return (mean, log_variance) from encode."
            )
        assert isinstance(codes.mean, Tensor)
        checked_factory_size(latents, tuple(codes.mean.shape[1:]), name)
        decoder = _decoder(given, call, codes.mean, shape)
        wide = WIDE * torch.randn(ITEMS, latents)
        decoded = decoded_part(decoder.function(wide))
    within = isinstance(decoded, Tensor) and 0 <= float(decoded.min()) < float(decoded.max()) <= 1
    return Reading(
        encode=encoder.words.partition("(")[0],
        form=encoder.form,
        reader=reader,
        decode=decoder.words.partition("(")[0],
        likelihood=given.likelihood,
        decodes_distribution=not isinstance(decoded, Tensor),
        within_unit=within,
        convolutional=any(isinstance(part, nn.modules.conv._ConvNd) for part in module.modules()),
    )


def _encoder(given: Conventions, call: str, x: Tensor) -> EncoderCall:
    try:
        found = find_encoder(f"the model that {call} returns", given.module, given.encode, x, given.spread)
    except ConfigurationError as error:
        problem = ADVICE.split(str(error))[0]
        raise ConfigurationError(
            f"{problem} Give it a method encode(x) that returns (mean, log_variance), or return from the factory what "
            "vs.wrap(model, encode='method', spread='variance') returns."
        ) from error
    if len(found.readers) > 1:
        raise ConfigurationError(
            f"the model that {call} returns must have one group of latents, it has {len(found.readers)} "
            f"({', '.join(found.readers)}). Return one posterior from encode."
        )
    return found


def _decoder(given: Conventions, call: str, codes: Tensor, shape: Shape) -> DecoderCall:
    # An error in a method decode is not to be hidden by a submodule decoder, which is its part.
    method = "decode" if given.decode is None and callable(getattr(given.module, "decode", None)) else given.decode
    found = find_decoder(given.module, method, codes, shape)
    if isinstance(found, str):
        raise ConfigurationError(
            f"the model that {call} returns must decode its codes to items of shape {tuple(shape)}, but {found}. Give "
            "it a method decode(z) that does."
        )
    return found


def _items(shape: Shape) -> Tensor:
    """Random items in [0, 1]."""
    generator = torch.Generator().manual_seed(0)
    return torch.rand(ITEMS, *shape, generator=generator)


def refuse_sigmoid(reading: Reading, likelihood: Likelihood, name: str) -> None:
    """Raise an error for a decoder that ends with a sigmoid, if its output is read as logits."""
    if reading.within_unit and isinstance(likelihood, Bernoulli):
        raise DataError(
            f"{reading.decode} of the model that {name} returns gives numbers in [0, 1], as after a sigmoid, but "
            "likelihood 'bernoulli' takes logits. Remove the sigmoid, or pass likelihood='gaussian'."
        )
