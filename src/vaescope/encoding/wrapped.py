"""A model of another library as one that every function of vaescope takes; `vaescope.wrap` makes it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from vaescope.data import DataLike, Dataset, open_as_given
from vaescope.data.conditions import ConditionKind
from vaescope.encoding.scvi import ScviAdapter
from vaescope.encoding.untouched import place_of, untouched
from vaescope.errors import ConfigurationError, DataError
from vaescope.likelihoods import Likelihood, LikelihoodModule
from vaescope.models.latent_model import ForwardPass, Items, LatentModel, Noise
from vaescope.models.module import has_mode
from vaescope.models.moments import Moments, Spread
from vaescope.models.other_codes import caveats
from vaescope.models.recognition import (
    Conventions,
    DecoderCall,
    Method,
    Recognised,
    find_decoder,
    find_encoder,
)
from vaescope.models.used_modules import modules_of
from vaescope.numerics.distributions import DiagonalGaussian, Distribution, Point
from vaescope.priors.prior import PriorModule

SpatialLatents = Literal["channels", "flat"]
SPATIAL_LATENTS: tuple[SpatialLatents, ...] = get_args(SpatialLatents)
CHANNELS, FLAT = SPATIAL_LATENTS
BATCH_SIZE = 256
GROUPED = "its latents are in groups"


class WrappedModel(nn.Module, LatentModel):
    """A model of another library, made by `vaescope.wrap`.

    What it does is recognised at its first batch, and shown by `summary()`. Each call runs the model, and modules that
    a function refers to, in evaluation mode without gradients, and gives them back as they were. Codes are in double
    precision, decoded items in single.

    Attributes:
        module: The model; None for a function.
        name: What pages and messages call the model.
        batch_size: The number of items per forward pass.
        recognised: What was recognised; None before the first batch.
        latent_mask: One for each latent; empty before the first batch.
    """

    condition: ClassVar[ConditionKind | None] = None
    prior: PriorModule | None

    def __init__(
        self,
        module: nn.Module | None,
        encode: Method | None,
        decode: Method | None,
        *,
        adapter: ScviAdapter | None = None,
        latents: SpatialLatents = CHANNELS,
        spread: Spread | None = None,
        likelihood: Likelihood | None = None,
        batch_size: int = BATCH_SIZE,
        device: torch.device | str | None = None,
        name: str,
    ) -> None:
        super().__init__()
        self.module, self.name, self.batch_size, self.device = module, name, batch_size, device
        self._adapter = adapter
        self.recognised: Recognised | None = None
        self.condition_width, self.prior, self.noise = 0, None, {}
        # No buffer: those are given back as they were.
        self.latent_mask = torch.ones(0)
        self._encode, self._decode, self._spread, self._likelihood_spec = encode, decode, spread, likelihood
        self._by_channel = latents == CHANNELS
        self._likelihood: LikelihoodModule | None = None
        # Modules that functions use are run in evaluation mode and given back, too.
        self.used = nn.ModuleList([*modules_of(encode), *modules_of(decode)])
        self.training = module is not None and has_mode(module) and module.training

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.summary()})"

    @property
    def latents(self) -> int:
        """The number of latents; 0 before the first batch."""
        return len(self.latent_mask)

    @property
    def positions(self) -> tuple[int, ...]:
        """The height and width of a code whose latents are its channels; empty for vectors."""
        return () if self.recognised is None or not self._by_channel else self.recognised.code_shape[1:]

    @property
    def latent_shape(self) -> tuple[int, ...]:
        """The shape of the code of an item: the latents, and the positions of channels."""
        return self.latents, *self.positions

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups of a hierarchical posterior; empty if there is one group."""
        return () if self.recognised is None else self.recognised.groups

    @property
    def takes_cells(self) -> bool:
        """Whether it encodes the cells of an AnnData, not tensors of items."""
        return self._adapter is not None

    @property
    def no_decoder(self) -> str:
        """Why the model cannot decode; empty if it can."""
        found = None if self.recognised is None else self.recognised.decoder
        return found if isinstance(found, str) else ""

    @property
    def decodes_vectors(self) -> bool:
        """Whether it decodes codes that are vectors; False before the first batch."""
        found = self.recognised
        return found is not None and isinstance(found.decoder, DecoderCall) and not self.positions

    @property
    def conventions(self) -> Conventions:
        """What was wrapped, and what its user said of it."""
        return Conventions(self.module, self._encode, self._decode, self._spread, self._likelihood_spec)

    def summary(self) -> str:
        """What was recognised, in one sentence."""
        found = self.recognised
        if found is None:
            return f"{self.name}, to be recognised when it encodes its first batch"
        latents = f"{self.latents} latents"
        if found.groups:
            latents += f" in {len(found.groups)} groups ({', '.join(found.groups)})"
        elif self.positions:
            latents = f"{self.latents} channels as latents, with {' x '.join(map(str, self.positions))} positions"
        read = "; ".join(reader.words for reader in found.encoder.readers.values())
        decodes = found.decoder.words if isinstance(found.decoder, DecoderCall) else f"nothing ({found.decoder})"
        return (
            f"{self.name}: {found.encoder.words} returns {read}; {latents}; decoded by {decodes}.{caveats(self.module)}"
        )

    def open(self, data: DataLike | None) -> Dataset:
        """The items of `data`, or of what the model was trained on if it knows; any shape before the first batch."""
        if self._adapter is not None:
            with self._running():
                return self._adapter.open(data)
        if data is None:
            raise DataError("A model or function needs data to encode. Pass data.")
        return open_as_given(data)

    def recognise(self, x: Items) -> Recognised:
        """Find out how the model encodes and decodes, from a batch of items; what is known already is kept."""
        if self.recognised is None:
            with self._running():
                found = self._recognise(self._given(x))
            self._set(found)
            return found
        return self.recognised

    def recognised_as(self, found: Recognised, *, name: str) -> WrappedModel:
        """The same model, which is shared, with another way to encode and decode."""
        other = WrappedModel(
            self.module,
            self._encode,
            self._decode,
            adapter=self._adapter,
            latents=CHANNELS if self._by_channel else FLAT,
            spread=self._spread,
            likelihood=self._likelihood_spec,
            batch_size=self.batch_size,
            device=self.device,
            name=name,
        )
        other._set(found)
        return other

    def encode_groups(self, x: Items) -> dict[str, tuple[Moments, Moments | None]]:
        """The posterior of each group of latents by name, and its prior if the model returns one.

        A model with one group has one entry, named ''. Codes are items x latents, or items x channels x positions.
        """
        found = self.recognise(x)
        if x.is_floating_point() and tuple(x.shape[1:]) != found.item_shape:
            raise DataError(f"{self.name} takes items of shape {found.item_shape}, got {tuple(x.shape[1:])}.")
        with self._running():
            return self.run_encoder(self._given(x))

    def run_encoder(self, x: Items) -> dict[str, tuple[Moments, Moments | None]]:
        """What `encode_groups` returns, from the model as it is: in its mode, for items of its device and precision."""
        assert self.recognised is not None
        posteriors = self.recognised.encoder(x)
        if self._by_channel:
            return posteriors
        return {
            name: (posterior.flat(), None if prior is None else prior.flat())
            for name, (posterior, prior) in posteriors.items()
        }

    def encode(self, x: Items, condition: Tensor | None = None) -> Moments:
        """q(z|x): items x latents, or items x channels x positions."""
        if self.recognise(x).groups:
            raise ConfigurationError(
                f"{self.name} encodes groups of latents ({', '.join(self.groups)}), not one. Diagnose it, call "
                "encode_groups, or pass to vs.wrap a function encode that returns one of them."
            )
        return self.encode_groups(x)[""][0]

    def decode(self, z: Float[Tensor, "batch ..."], condition: Tensor | None = None) -> Distribution:
        """p(x|z): all mass at the decoded items unless there is a likelihood."""
        self.check_decodes()
        with self._running():
            return self.run_decoder(self._given(z))

    def decode_with_gradients(self, z: Float[Tensor, "batch ..."]) -> Distribution:
        """What `decode` returns, from which gradients reach the codes."""
        self.check_decodes()
        with untouched(self, self.device):
            return self.run_decoder(self._given(z))

    def run_decoder(self, z: Float[Tensor, "batch ..."]) -> Distribution:
        """What `decode` returns, from the model as it is: in its mode, for codes of its device and precision."""
        decoder, shape = self.check_decodes()
        items = decoder(z.reshape(z.shape[0], *shape))
        return Point(items) if self._likelihood is None else self._likelihood(items)

    def check_decodes(self) -> tuple[DecoderCall, tuple[int, ...]]:
        """How it decodes and the shape of a code, or an error that says why it does not."""
        found = self.recognised
        if found is None:
            raise ConfigurationError(
                f"{self.name} must encode a batch before it decodes. Write wrapped = vs.wrap(model), and pass it to "
                "vs.encode first."
            )
        if isinstance(found.decoder, str):
            raise ConfigurationError(f"{self.name} cannot decode: {found.decoder}. Pass decode= to vs.wrap.")
        return found.decoder, found.code_shape

    def forward(self, x: Items, noise: Noise, condition: Tensor | None = None) -> ForwardPass:
        posterior = self.encode(x)
        z = posterior.sample(noise["posterior"].reshape(posterior.mean.shape))
        zeros = torch.zeros_like(posterior.mean[0])
        return ForwardPass(posterior, z, self.decode(z), DiagonalGaussian(zeros, zeros))

    def _set(self, found: Recognised) -> None:
        self.recognised = found
        self.latent_mask = torch.ones(found.latents, device=place_of(self)[0])
        self.noise = {"posterior": math.prod(found.code_shape)}
        if self._likelihood_spec is not None:
            self._likelihood = self._likelihood_spec.module(found.item_shape)

    @contextmanager
    def _running(self) -> Iterator[None]:
        with torch.no_grad(), untouched(self, self.device):
            yield

    def _given(self, values: Tensor) -> Tensor:
        device, dtype = place_of(self)
        return values.to(device, dtype) if values.is_floating_point() else values.to(device)

    def _recognise(self, x: Tensor) -> Recognised:
        encoder = find_encoder(self.name, self.module, self._encode, x, self._spread)
        codes = [posterior.mean for posterior, _ in encoder(x).values()]
        item_shape = tuple(x.shape[1:]) if self._adapter is None else self._adapter.item_shape
        code_shape = tuple(codes[0].shape[1:])
        decoder: DecoderCall | str = GROUPED
        if len(codes) == 1:
            decode = self._adapter.decoder if self._adapter is not None and self._decode is None else self._decode
            decoder = find_decoder(self.module, decode, self._given(codes[0]), item_shape)
        # Of a spatial code, the channels or all numbers are the latents.
        shapes = [one.shape[1:2] if self._by_channel else one.shape[1:] for one in codes]
        latents = sum(math.prod(shape) for shape in shapes)
        return Recognised(encoder, decoder, item_shape, code_shape if len(codes) == 1 else (latents,), latents)
