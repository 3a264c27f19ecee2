"""What a conditional model is told about an item: its label, or its factors."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import one_hot

from vaescope.data.dataset import Dataset
from vaescope.errors import DataError, unknown_name

LABEL, FACTORS = "label", "factors"
KINDS = (LABEL, FACTORS)


def condition_width(data: Dataset, kind: str) -> int:
    """How many numbers a condition of this kind has: one for each class, or one for each factor that varies."""
    if kind == LABEL:
        return int(_labels(data).max()) + 1
    if kind == FACTORS:
        return len(_varying(data)[1])
    raise unknown_name("condition", kind, KINDS)


def condition_table(data: Dataset, kind: str, width: int) -> Float[Tensor, "items width"]:
    """The condition of every item: the label as a unit vector, or the varying factors scaled to [0, 1].

    Scales and classes are those of the whole set, so that a subset gives the same rows.
    """
    if condition_width(data, kind) > width:
        raise DataError(
            f"{data.name} must have conditions of at most {width} numbers, as the model was built for, got "
            f"{condition_width(data, kind)}. Use the data that the model was made for."
        )
    if kind == LABEL:
        return one_hot(_labels(data).long(), width).float()
    codes, sizes = _varying(data)
    if len(sizes) != width:
        raise DataError(
            f"{data.name} must have {width} factors that vary, as the model was built for, got {len(sizes)}."
        )
    return codes.float() / (sizes - 1)


def _labels(data: Dataset) -> Tensor:
    if data.labels is None:
        raise DataError(
            f"{data.name} must have labels to condition on, it has none. Use another model, or labelled data."
        )
    return data.labels.cpu()


def _varying(data: Dataset) -> tuple[Tensor, Tensor]:
    """The factors that vary: their codes and how many values each takes."""
    codes = data.factors
    if data.factor_table is None or codes is None:
        raise DataError(
            f"{data.name} must have factors to condition on, it has none. Use another model, or data with factors."
        )
    sizes = torch.tensor(data.factor_table.sizes)
    if not bool((sizes > 1).any()):
        raise DataError(f"{data.name} must have a factor that varies to condition on, none does.")
    return codes[:, sizes > 1], sizes[sizes > 1]
