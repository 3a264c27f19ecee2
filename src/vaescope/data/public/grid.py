"""Stored data sets that hold every combination of their factor values exactly once, in order."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch

from vaescope.data.arrays import ArrayDataset


@dataclass(frozen=True, repr=False)
class GridDataset(ArrayDataset):
    """Items in memory where item i is the i-th combination of all factor values, the last varying fastest."""

    grid: bool = True


def as_grid(dataset: ArrayDataset) -> ArrayDataset:
    """The same data set, a grid if its factor codes are one: only they tell whether a file is complete."""
    table, codes = dataset.factor_table, dataset.factor_codes
    if table is None or codes is None or table.cells != len(dataset):
        return dataset
    if not torch.equal(table.index(codes.to(torch.int64)), torch.arange(len(dataset))):
        return dataset
    return GridDataset(**{field.name: getattr(dataset, field.name) for field in fields(ArrayDataset)})
