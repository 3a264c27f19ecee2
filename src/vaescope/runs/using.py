"""The use of a run's model: what the methods of `Run` do with items, labels and factors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.checks import whole_number
from vaescope.codes import Representation
from vaescope.codes.arrays import ArrayLike, as_numpy
from vaescope.data import DataLike, Dataset, Factors, Subset
from vaescope.data.conditions import FACTORS, LABEL, ConditionKind, conditions_of
from vaescope.data.items import conditions_only, open_items
from vaescope.encoding import Traversals, encode, interpolate, reconstruct, sample, traversals_from
from vaescope.errors import ConfigurationError, DataError

if TYPE_CHECKING:
    from vaescope.runs.run import Run

KEYWORDS: dict[ConditionKind, str] = {LABEL: "labels", FACTORS: "factors"}
MAX_RANGE_ITEMS = 10_000  # over which the usual range of a latent is measured


def encode_items(
    run: Run,
    x: DataLike | None,
    labels: ArrayLike | None,
    factors: ArrayLike | None,
    seed: int,
    device: str | torch.device | None,
) -> Representation:
    """The codes of items, or of the data of the run."""
    return encode(run.model, items_of(run, x, labels, factors), seed=seed, device=device)


def reconstruct_items(
    run: Run,
    x: DataLike,
    labels: ArrayLike | None,
    factors: ArrayLike | None,
    device: str | torch.device | None,
) -> Float[Tensor, "items ..."]:
    """The items decoded from their mean codes."""
    return reconstruct(run.model, items_of(run, x, labels, factors), device=device)


def sample_items(
    run: Run, count: int, seed: int, labels: ArrayLike | None, factors: ArrayLike | None
) -> Float[Tensor, "count ..."]:
    """Items decoded from codes that are drawn from the prior."""
    model, given = run.model, {LABEL: labels, FACTORS: factors}
    for kind, values in given.items():
        if values is not None and kind != model.condition:
            raise ConfigurationError(
                f"run {run.id} is conditioned on {model.condition or 'nothing'}, got {KEYWORDS[kind]}. Leave them out."
            )
    if model.condition is None or model.prior is None:
        return sample(model, count, seed=seed)
    if given[model.condition] is None:
        raise ConfigurationError(
            f"run {run.id} is conditioned on the {model.condition} of an item, which samples need, too. Pass "
            f"{KEYWORDS[model.condition]}: one row for each item, or one for all."
        )
    items = conditions_only(whole_number("count", count, 1), labels, factors, _factors_of(run, factors))
    return sample(model, count, seed=seed, conditions=conditions_of(model, items))


def interpolate_items(
    run: Run, a: DataLike, b: DataLike, steps: int, labels: ArrayLike | None, factors: ArrayLike | None
) -> Float[Tensor, "steps ..."]:
    """Items decoded along the line between the mean codes of two items."""
    first, second = (
        items_of(run, x, _at_end(end, "labels", labels, 1), _at_end(end, "factors", factors, 2), name)
        for end, (name, x) in enumerate((("a", a), ("b", b)))
    )
    return interpolate(run.model, first, second, steps)


def traverse_items(
    run: Run,
    x: DataLike | None,
    latents: Sequence[int] | None,
    example: int,
    labels: ArrayLike | None,
    factors: ArrayLike | None,
) -> Traversals:
    """Items decoded while one latent varies."""
    items, model = items_of(run, x, labels, factors), run.model
    start = Subset.of(items, torch.tensor([whole_number("example", example, 0, len(items) - 1)]))
    others = items if len(items) > 1 else _data_for(run, "the usual range of a latent needs more than one item")
    codes = encode(model, others.draw(MAX_RANGE_ITEMS))
    conditions = conditions_of(model, start)
    condition = None if conditions is None else conditions[0]
    return traversals_from(model, encode(model, start).mean[0], condition, codes, example=example, latents=latents)


def items_of(
    run: Run, x: DataLike | None, labels: ArrayLike | None, factors: ArrayLike | None, name: str = "x"
) -> Dataset:
    """The items of `x`, with what they are conditioned on; the data of the run if there is no `x`."""
    if x is not None:
        table = _factors_of(run, factors)
        model = run.model
        return open_items(
            x,
            model.item_shape,
            name,
            labels=labels,
            factors=factors,
            factor_table=table,
            scale=model.pixel_scale,
            missing=model.missing,
        )
    if labels is not None or factors is not None:
        raise ConfigurationError("labels and factors go with x; the data of a run have their own. Pass x as well.")
    return _data_of(run)


def _data_of(run: Run) -> Dataset:
    from vaescope.runs.store import data_of  # which loads runs

    return data_of(run)


def _data_for(run: Run, what: str) -> Dataset:
    """The data of the run; an error says what they are needed for."""
    try:
        return _data_of(run)
    except DataError as error:
        raise DataError(f"{what}, but {error} As x, pass a data set that has them.") from error


def _factors_of(run: Run, factors: ArrayLike | None) -> Factors | None:
    """Names and sizes of the factors of the run's data, if factors are given."""
    if factors is None:
        return None
    return _data_for(run, "factors are scaled by the number of their values in the data of the run").factor_table


def _at_end(end: int, name: str, values: ArrayLike | None, rank: int) -> ArrayLike | None:
    """The value at one end of a line; it may be given for both."""
    if values is None:
        return None
    given = as_numpy(values, name)
    if given.ndim < rank:
        return given
    if given.shape[0] != 2:
        raise DataError(f"{name} must be one row for both ends of the line, or two, got shape {given.shape}.")
    row: ArrayLike = given[end]
    return row
