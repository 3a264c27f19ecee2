"""Whether a decoder turns its latents into orthogonal changes of an item (Rolinek et al., 2019, section 5, eq. 29)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn
from torch.func import vjp

from vaescope.checks import finite_number, whole_number
from vaescope.codes import Representation
from vaescope.data import open_dataset
from vaescope.encoding import encode
from vaescope.errors import ConfigurationError, DataError, unknown_name
from vaescope.metrics.score import WIDTH, Score
from vaescope.models import MODELS, Linear

OF = ("mean", "logits")
NUMBERS = 2**22  # entries of the Jacobians that are held at once
ZERO = 1e-7  # shorter columns, beside the longest, are below the rounding of the products of columns
Subject = tuple[Callable[[Tensor, Tensor], Tensor], Tensor, Tensor, tuple[int, ...]]


def distance_to_orthogonality(
    decoder: Any, codes: Any, *, items: int = 1000, of: str = "mean", draws: int = 500, seed: int = 0
) -> Score:
    """The mean over items of ||V - P(V)||, U S V^T being the Jacobian at an item's mean; 0 is orthogonal.

    P(V) is the nearest permutation of the axes with signs: where it is V itself, each latent moves an item along a
    direction of its own. Where V is not unique, as for columns of zeros, it is the axes that the columns lie on.

    Args:
        decoder: One of our models, with `codes` a data set or its `Representation`; or any function from a batch of
            codes to a batch of items, with `codes` an array, items x latents, or a `Representation`. A conditional
            model is told the labels of the items.
        items: At most so many are drawn, by `seed`.
        of: Whether the Jacobian is of the mean of p(x|z), whose squared error the theory is about, or of the logits
            of a Bernoulli likelihood.
        draws: Of the random decoders that `baseline` and `baseline_spread`, beside the `spread` over items, come from.
    """
    found = _jacobians(decoder, codes, items, of, seed)
    distances = _distances(_rotations(found.products, found.rounding))
    baseline, baseline_spread = random_decoder_baseline(found.dimensions, len(found.latents), draws, seed)
    parts = {"spread": float(distances.std()), "baseline": baseline, "baseline_spread": baseline_spread}
    return _score("distance_to_orthogonality", distances, found, parts)


def column_orthogonality(
    decoder: Any, codes: Any, *, items: int = 1000, of: str = "mean", least: float = 1e-6, seed: int = 0
) -> Score:
    """The mean absolute cosine between the columns of the Jacobian, one for each latent; 0 is orthogonal.

    The arguments are those of `distance_to_orthogonality`. Columns shorter than `least` of the longest are left out of
    an item, and `passive` counts the latents that are left out of all.
    """
    finite_number("least", least, at_least=0)
    found = _jacobians(decoder, codes, items, of, seed)
    norms = _norms(found.products)
    used = norms > max(least, ZERO) * norms.max(1, keepdims=True)
    pairs = used[:, :, None] & used[:, None, :] & ~np.eye(norms.shape[1], dtype=bool)
    counted = pairs.any((1, 2))
    if not counted.any():
        raise DataError(
            "orthogonality is between two latents that the decoder uses at one item, there are none. The model has "
            "collapsed, or lower least."
        )
    cosines = np.where(pairs, np.abs(_cosines(found.products)), 0.0)[counted]
    means = cosines.sum((1, 2)) / pairs[counted].sum((1, 2))
    passive = ~used.any(0)
    parts = {"spread": float(means.std()), "passive": float(passive.sum())}
    kept = tuple(np.array(found.latents)[~passive].tolist())
    return _score("column_orthogonality", means, replace(found, latents=kept), parts)


@cache
def random_decoder_baseline(dimensions: int, latents: int, draws: int = 500, seed: int = 0) -> tuple[float, float]:
    """Mean and standard deviation of the distance for Jacobians, dimensions x latents, of numbers uniform in [0, 1]."""
    for name, value in (("dimensions", dimensions), ("latents", latents), ("draws", draws)):
        whole_number(name, value, 1)
    generator = np.random.default_rng((seed, 3))
    products = np.empty((draws, latents, latents))
    size = max(1, NUMBERS // (dimensions * latents))
    for start in range(0, draws, size):
        shape = (min(size, draws - start), dimensions, latents)
        columns = generator.random(shape, dtype=np.float32).astype(np.float64)
        products[start : start + size] = columns.transpose(0, 2, 1) @ columns
    distances = _distances(_rotations(products, np.finfo(np.float64).eps))
    return float(distances.mean()), float(distances.std())


@dataclass(frozen=True)
class _Jacobians:
    """J^T J of each item, in float64, and what was differentiated."""

    products: Float[np.ndarray, "items latents latents"]
    latents: tuple[int, ...]
    dimensions: int
    rounding: float
    of: str


@torch.no_grad()
def _jacobians(decoder: Any, codes: Any, items: int, of: str, seed: int) -> _Jacobians:
    """The Jacobians at some of the items, few at a time."""
    whole_number("items", items, 1)
    if of not in OF:
        raise unknown_name("of", of, OF)
    own = isinstance(decoder, (*MODELS.values(), Linear))
    read = _of_model if own else _of_function
    function, means, condition, latents = read(decoder, codes, items, of, seed)
    directions = torch.eye(means.shape[1], dtype=means.dtype, device=means.device)[list(latents)]
    products: list[Tensor] = []
    start, size, dimensions = 0, 1, 0
    while start < len(means):
        part = slice(start, start + size)
        columns = _columns(function, means[part], condition[part], directions)
        products.append(columns.mT @ columns)
        dimensions = columns.shape[1]
        start, size = start + size, max(1, NUMBERS // (dimensions * len(latents)))
    table = torch.cat(products).numpy()
    if not np.isfinite(table).all():
        place = int(np.argwhere(~np.isfinite(table))[0][0])
        raise DataError(f"the Jacobian of the decoder must be finite, that of code {place} is not. Check the codes.")
    return _Jacobians(table, latents, dimensions, float(torch.finfo(means.dtype).eps), of if own else "output")


def _columns(
    function: Callable[[Tensor, Tensor], Tensor],
    z: Float[Tensor, "items latents"],
    condition: Float[Tensor, "items width"],
    directions: Float[Tensor, "kept latents"],
) -> Float[Tensor, "items dimensions kept"]:
    """J e for each direction e: the pullback u -> J^T u is linear, and its own pullback is e -> J e.

    Reverse mode twice costs about as much as forward mode, which not every layer has.
    """
    items, pull = vjp(lambda codes: function(codes, condition), z)[:2]
    push = vjp(lambda change: pull(change)[0], torch.zeros_like(items))[1]
    columns = [push(direction.expand_as(z).contiguous())[0].flatten(1) for direction in directions]
    return torch.stack(columns, 2).cpu().double()


def _of_model(model: Any, data: Any, items: int, of: str, seed: int) -> Subject:
    """The decoder of one of our models, the means of some items, what it is told about them, the latents it has."""
    if not isinstance(data, Representation):
        data = encode(model, open_dataset(data).draw(items, seed))
    rows, mask = _drawn(len(data), items, seed), model.latent_mask
    if data.mean.shape[1:] != mask.shape:
        raise DataError(f"codes must have the {len(mask)} latents of the model, got shape {tuple(data.mean.shape)}.")
    told = model.condition == "label"
    condition = _units(data.labels, model.condition_width)[rows] if told else mask.new_zeros(len(rows), 0)

    def decode(z: Tensor, condition: Tensor) -> Tensor:
        found = model.decode(z, condition) if told else model.decode(z)
        if of == "logits" and not hasattr(found, "logits"):
            raise ConfigurationError(
                f"of 'logits' is for a Bernoulli likelihood, this model's is {type(found).__name__}. Use of 'mean'."
            )
        return found.logits if of == "logits" else found.mean

    return decode, data.mean[rows].to(mask), condition.to(mask), tuple(mask.nonzero()[:, 0].tolist())


def _of_function(decoder: Any, codes: Any, items: int, of: str, seed: int) -> Subject:
    """A function from codes to items, some codes as it takes them, nothing to tell, and all latents."""
    if not callable(decoder):
        raise DataError(f"decoder must be a model or a function from codes to items, got {type(decoder).__name__}.")
    if of != "mean":
        raise ConfigurationError(f"of {of!r} is for our models; of a function the Jacobian is that of what it returns.")
    values = codes.mean if isinstance(codes, Representation) else codes
    table = values.detach() if isinstance(values, Tensor) else torch.from_numpy(np.array(values, dtype=np.float64))
    if table.ndim != 2 or 0 in table.shape:
        raise DataError(f"codes must be a table, items x latents, got the shape {tuple(table.shape)}.")
    table = table if table.is_floating_point() else table.double()
    weights = next(decoder.parameters(), table) if isinstance(decoder, nn.Module) else table

    def decode(z: Tensor, _: Tensor) -> Tensor:
        found = decoder(z)
        if not isinstance(found, Tensor) or found.ndim < 2 or len(found) != len(z):
            got = f"the shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__
            raise DataError(f"decoder must return a tensor with one row for each of {len(z)} codes, got {got}.")
        return found

    rows = table[_drawn(len(table), items, seed)].to(weights)
    return decode, rows, rows.new_zeros(len(rows), 0), tuple(range(rows.shape[1]))


def _drawn(total: int, items: int, seed: int) -> Int[np.ndarray, "rows"]:
    return np.sort(np.random.default_rng(seed).permutation(total)[:items])


def _units(labels: Tensor | None, width: int) -> Float[Tensor, "items width"]:
    if labels is None or int(labels.max()) >= width:
        got = "it has none" if labels is None else f"got {int(labels.max())}"
        raise DataError(f"a conditional decoder must be told a label below {width} for every item, {got}.")
    return nn.functional.one_hot(labels.long(), width).float()


def _norms(products: Float[np.ndarray, "items latents latents"]) -> Float[np.ndarray, "items latents"]:
    return np.sqrt(np.diagonal(products, axis1=1, axis2=2))


def _cosines(products: Float[np.ndarray, "items latents latents"]) -> Float[np.ndarray, "items latents latents"]:
    norms = _norms(products)
    lengths = norms[:, :, None] * norms[:, None, :]
    return np.divide(products, lengths, out=np.zeros_like(products), where=lengths > 0)


def _rotations(
    products: Float[np.ndarray, "items latents latents"], rounding: float
) -> Float[np.ndarray, "items latents latents"]:
    """V of each item, from J^T J = V S^2 V^T.

    Among directions of one singular value the solver would choose at random. A column that is orthogonal to all others
    to within rounding is such a direction already: it is given a value that no other has, which moves no direction.
    """
    norms, diagonal = _norms(products), np.eye(products.shape[1], dtype=bool)
    zero = norms <= ZERO * norms.max(1, keepdims=True)
    apart = (np.abs(_cosines(products)) <= 8 * rounding) | zero[:, :, None] | zero[:, None, :]
    alone = (apart | diagonal).all(2)
    largest = np.maximum(np.trace(products, axis1=1, axis2=2), np.finfo(np.float64).tiny)
    cleaned = np.where(apart & ~diagonal, 0.0, products / largest[:, None, None])
    values = np.where(alone, 2.0 + np.arange(len(diagonal)), np.diagonal(cleaned, axis1=1, axis2=2))
    return np.linalg.eigh(np.where(diagonal, values[:, None], cleaned))[1]


def _distances(rotations: Float[np.ndarray, "items latents latents"]) -> Float[np.ndarray, "items"]:
    """||V - P(V)||: the entries of V are at most 1, so the assignment of the largest sum is the L1-nearest P."""
    nearest = np.zeros_like(rotations)
    for item, rotation in enumerate(rotations):
        rows, columns = linear_sum_assignment(np.abs(rotation), maximize=True)
        nearest[item, rows, columns] = np.where(rotation[rows, columns] < 0, -1.0, 1.0)
    return np.linalg.norm(rotations - nearest, axis=(1, 2))


def _score(metric: str, values: Float[np.ndarray, "items"], found: _Jacobians, parts: dict[str, float]) -> Score:
    """The mean over items, whose standard error is known without half-samples."""
    mean, count = float(values.mean()), len(values)
    width = WIDTH * float(values.std(ddof=1)) / math.sqrt(count) if count > 1 else None
    interval = None if width is None else (mean - width, mean + width)
    title = f"Jacobian of the decoder's {found.of} at {count} {'item' if count == 1 else 'items'}"
    return Score(metric, mean, title, parts, latents=found.latents, interval=interval)
