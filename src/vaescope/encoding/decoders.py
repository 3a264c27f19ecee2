"""Metrics of a model's decoder, and of a model on a full grid of factors."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from vaescope.codes import Representation
from vaescope.data import DataLike, Dataset, Subset, open_dataset
from vaescope.data.arrays import from_array
from vaescope.data.conditions import conditions_of
from vaescope.encoding.encode import adapt, encode, open_for, recognise
from vaescope.encoding.wrap import checked_model, model_name, model_of
from vaescope.encoding.wrapped import WrappedModel
from vaescope.errors import ConfigurationError, DataError, unknown_name
from vaescope.likelihoods.likelihood import BernoulliDistribution
from vaescope.metrics import DecoderFunction, FactorGrid, Score
from vaescope.metrics import column_orthogonality as column_orthogonality_of_decoder
from vaescope.metrics import distance_to_orthogonality as distance_to_orthogonality_of_decoder
from vaescope.models.latent_model import LatentModel

OUTPUTS = ("mean", "logits")


def decoder_of(model: object, data: Dataset | None = None, *, of: str = "mean") -> DecoderFunction | None:
    """The decoder of a model or a run as a function of codes, which must be vectors; None for anything else.

    Args:
        model: The model.
        data: The items whose codes are decoded. A conditional model needs them.
        of: "mean" for the mean of p(x|z), or "logits" of a Bernoulli likelihood.
    """
    if of not in OUTPUTS:
        raise unknown_name("of", of, OUTPUTS)
    model = model_of(model)
    if model is None:
        return None
    if data is not None:
        recognise(model, data)
    if isinstance(model, WrappedModel) and not model.decodes_vectors:
        return None
    run = model.decode_with_gradients if isinstance(model, WrappedModel) else model.decode

    def decode(z: Tensor, *condition: Tensor) -> Tensor:
        found = run(z, *condition)
        if of == "mean":
            return found.mean
        if isinstance(found, BernoulliDistribution):
            return found.logits
        raise ConfigurationError(
            f"of='logits' needs a Bernoulli likelihood, this model's is {type(found).__name__}. Use of='mean'."
        )

    mask = model.latent_mask
    if data is None and model.condition is not None:
        raise DataError("a conditional decoder needs the items whose codes are decoded. Pass data.")
    conditions = None if data is None else conditions_of(model, data)
    return DecoderFunction(decode, conditions, tuple(mask.nonzero()[:, 0].tolist()), mask, of)


def distance_to_orthogonality(
    model: object,
    data: DataLike | Representation,
    *,
    of: str = "mean",
    items: int = 1000,
    draws: int = 500,
    seed: int = 0,
) -> Score:
    """How far a model's decoder is from orthogonal: `metrics.distance_to_orthogonality` at the codes of `data`.

    Args:
        model: A model of this library, a run, or a wrapped model that has encoded a batch.
        data: A data set, or its `Representation` under the model, with the labels or factors that the model is
            conditioned on.
        of: "mean" for the mean of p(x|z), whose squared error the theory is about, or "logits" of a Bernoulli
            likelihood.
        items, draws, seed: As in `metrics.distance_to_orthogonality`.
    """
    decoder, codes = _decoder_and_codes(model, data, of, items, seed)
    return distance_to_orthogonality_of_decoder(decoder, codes, items=items, draws=draws, seed=seed)


def column_orthogonality(
    model: object,
    data: DataLike | Representation,
    *,
    of: str = "mean",
    items: int = 1000,
    least: float = 1e-6,
    seed: int = 0,
) -> Score:
    """The mean cosine between a decoder's columns: `metrics.column_orthogonality` at the codes of `data`.

    The arguments are those of `distance_to_orthogonality` and of `metrics.column_orthogonality`.
    """
    decoder, codes = _decoder_and_codes(model, data, of, items, seed)
    return column_orthogonality_of_decoder(decoder, codes, items=items, least=least, seed=seed)


def factor_grid(model: object, data: DataLike) -> FactorGrid:
    """A grid of factors that metrics draw from; a model encodes the items that are drawn.

    Args:
        model: A model, a run, or a function from a batch of items to (mean, variance).
        data: A data set that holds every combination of its factors once, in order.
    """
    if model_of(model) is None:
        raise DataError(
            f"a grid needs a model or a function that encodes its data, got {type(model).__name__}. Pass codes and "
            "their factors to the metric instead."
        )
    opened = open_dataset(data)
    if not opened.grid or opened.factor_table is None:
        raise DataError(
            f"a grid must hold every combination of its factors once, in order; {opened.name!r} does not. "
            "Encode its items, and pass the codes and their factors to the metric instead."
        )

    def codes(items: Int[np.ndarray, "items"]) -> Representation:
        return adapt(model, Subset.of(opened, torch.from_numpy(items)))

    return FactorGrid(codes, opened.factor_table.sizes, opened.factor_table.names)


def _decoder_and_codes(
    model: object, data: DataLike | Representation, of: str, items: int, seed: int
) -> tuple[DecoderFunction, Representation]:
    model, encoded = checked_model(model), None
    if not isinstance(data, Representation):
        encoded = open_for(model, data).draw(items, seed)
        codes = encode(model, encoded)
    else:
        codes = data
        if isinstance(model, LatentModel) and model.condition is not None:
            # Conditions are made from labels and factors.
            encoded = from_array(codes.mean, "codes", labels=codes.labels, factors=codes.factors)
    decoder = decoder_of(model, encoded, of=of)
    if decoder is None or decoder.like is None:
        raise DataError(
            f"The decoder of {model_name(model)} must take codes that are vectors. Encode a batch first, or pass a "
            "function from codes to items to vaescope.metrics."
        )
    if codes.latents != len(decoder.like):
        raise DataError(f"codes must have the model's {len(decoder.like)} latents, got {codes.latents}.")
    return decoder, codes
