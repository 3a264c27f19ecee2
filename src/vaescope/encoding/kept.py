"""Some latents of a model of another library: the others are held at constants before its decoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.encoding.wrapped import WrappedModel
from vaescope.errors import ConfigurationError
from vaescope.models.moments import Moments, Parameters
from vaescope.models.readers import Reader
from vaescope.models.recognition import DecoderCall


def keep_latents(model: WrappedModel, kept: Sequence[int], fill: Float[Tensor, "latents"]) -> WrappedModel:
    """A model that encodes to the latents `kept` and decodes from them; it shares the module, which does not change.

    Args:
        model: A model that decodes and has encoded a batch.
        kept: The latents to keep, in ascending order; of spatial codes, the channels.
        fill: A value for each latent; those that are not kept have it at every position, for every item.
    """
    check_one_group(model)
    decoder, code_shape = model.check_decodes()
    found, latents = model.recognised, model.latents
    assert found is not None
    cut = f"cut to {len(kept)} of {latents} latents"
    # Without positions, all numbers of a code are the latents.
    flat = not model.positions
    encoder = replace(
        found.encoder, readers={name: _cut(one, kept, flat, cut) for name, one in found.encoder.readers.items()}
    )
    dropped = [latent for latent in range(latents) if latent not in kept]
    constants = fill.detach().cpu()[dropped]
    order = torch.tensor([*kept, *dropped]).argsort()

    def decode(z: Tensor) -> object:
        held = constants.to(z).reshape(1, -1, *[1] * (z.ndim - 2)).expand(z.shape[0], -1, *z.shape[2:])
        whole = torch.cat([z, held], 1).index_select(1, order.to(z.device)).reshape(z.shape[0], *code_shape)
        return decoder.function(whole.flatten(1) if decoder.flattens else whole)

    words = f"{decoder.words} with the other {len(dropped)} held at constants"
    return model.recognised_as(
        replace(
            found,
            encoder=encoder,
            decoder=DecoderCall(words, decode, False, decoder.shape),
            code_shape=(len(kept), *model.positions),
            latents=len(kept),
        ),
        name=f"{model.name} ({len(kept)} of {latents} latents)",
    )


def check_one_group(model: WrappedModel) -> None:
    """Raise an error for a model of several groups of latents, which no function decodes from one of them."""
    if model.groups:
        raise ConfigurationError(
            f"{model.name} must have one group of latents to be pruned, it has {len(model.groups)} "
            f"({', '.join(model.groups)}). Pass to vs.wrap functions encode and decode of one of them."
        )


def _cut(reader: Reader, kept: Sequence[int], flat: bool, words: str) -> Reader:
    """A reader of the latents `kept` of what another reads."""

    def some(moments: Moments) -> Parameters:
        found = moments.flat() if flat else moments
        index = torch.tensor(kept, device=found.mean.device)
        return Parameters(found.mean.index_select(1, index), found.variance.index_select(1, index))

    prior = reader.prior
    return Reader(
        f"{reader.words}, {words}",
        lambda output: some(reader.posterior(output)),
        None if prior is None else lambda output: some(prior(output)),
    )
