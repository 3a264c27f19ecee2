"""Conditions of conditional models: a one-hot label, or the varying factors scaled to [0, 1]."""

from __future__ import annotations

from typing import Literal, Protocol, get_args, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vaescope.data.dataset import Dataset
from vaescope.errors import DataError, unknown_name

ConditionKind = Literal["label", "factors"]
KINDS: tuple[ConditionKind, ...] = get_args(ConditionKind)
LABEL, FACTORS = KINDS
MAX_ONE_HOT_NUMBERS = 2**30


@runtime_checkable
class TakesCondition(Protocol):
    """A model that declares its condition."""

    @property
    def condition(self) -> ConditionKind | None:
        """'label', 'factors', or None for an unconditional model."""

    @property
    def condition_width(self) -> int:
        """The length of the condition vector."""


def conditions_of(
    model: object, data: Dataset, device: torch.device | str = "cpu"
) -> Float[Tensor, "items width"] | None:
    """The condition of every item for `model`, on `device`; None if the model is unconditional."""
    if not isinstance(model, TakesCondition) or model.condition is None:
        return None
    return condition_table(data, model.condition, model.condition_width).to(device)


def has_condition(data: Dataset, kind: ConditionKind | None) -> bool:
    """Whether the items have the labels or factors that this kind of condition needs."""
    return kind is None or (data.labels if kind == LABEL else data.factor_table) is not None


def checked_condition(condition: Tensor | None, width: int, kind: str = "condition") -> Float[Tensor, "items width"]:
    """The condition if it has `width` columns; otherwise an error that says what to pass."""
    if condition is None or condition.shape[1:] != (width,):
        got = "none" if condition is None else f"shape {tuple(condition.shape)}"
        raise DataError(
            f"the {kind} of each item must be given as {width} numbers, got {got}. Pass a tensor of items x {width} "
            "or encode a data set, which has the conditions of its items."
        )
    return condition


def condition_width(data: Dataset, kind: str) -> int:
    """The length of the condition vector: the number of classes, or the number of varying factors."""
    if kind == LABEL:
        classes = int(_labels(data).max()) + 1
        if classes * len(data) > MAX_ONE_HOT_NUMBERS:
            raise DataError(
                f"{data.name}: labels to condition on must be numbered 0, 1, 2, ... without large gaps, got "
                f"{classes - 1} as the largest of {len(data)}. Renumber the classes."
            )
        return classes
    if kind == FACTORS:
        return len(_varying_factors(data)[1])
    raise unknown_name("condition", kind, KINDS)


def condition_table(data: Dataset, kind: str, width: int) -> Float[Tensor, "items width"]:
    """The condition of every item for a model with conditions of length `width`.

    Classes and scales are those of the whole data set, so a subset has the same rows as the whole.
    """
    found = condition_width(data, kind)
    # A model with more classes accepts data with fewer; factors are scaled one by one and must match.
    if found > width or (kind == FACTORS and found < width):
        what = f"at most {width} classes" if kind == LABEL else f"{width} varying factors"
        raise DataError(
            f"{data.name} must have {what}, as the model was built for, got {found}. Use data like those it was "
            "trained on."
        )
    if kind == LABEL:
        return torch.zeros(len(data), width).scatter_(1, _labels(data).long()[:, None], 1)
    codes, sizes = _varying_factors(data)
    return codes.float() / (sizes - 1)


def _labels(data: Dataset) -> Int[Tensor, "items"]:
    if data.labels is None:
        raise DataError(
            f"{data.name} must have labels to condition on, got none. Use labelled data, pass labels with an array, or "
            "use an unconditional model."
        )
    return data.labels.cpu()


def _varying_factors(data: Dataset) -> tuple[Int[Tensor, "items varying"], Int[Tensor, "varying"]]:
    """The codes of the factors that take more than one value, and the number of values of each."""
    codes = data.factors
    if data.factor_table is None or codes is None:
        raise DataError(
            f"{data.name} must have factors to condition on, got none. Use data with factors, pass factors with an "
            "array, or use an unconditional model."
        )
    sizes = torch.tensor(data.factor_table.sizes)
    if not bool((sizes > 1).any()):
        raise DataError(f"{data.name} must have a factor that varies to condition on, but all factors are constant.")
    return codes[:, sizes > 1], sizes[sizes > 1]
