"""Measurements that several documents share, and arrays as values of JSON."""

from __future__ import annotations

import base64

import numpy as np
import torch
from torch import Tensor

from vaescope.data import Dataset
from vaescope.runs import MeasurementSpec, Run, measure
from vaescope.similarity import SimilarityMap
from vaescope.studies.context import Measurement
from vaescope.studies.results import JsonTable

HISTOGRAM_BINS = 40


def regime(items: int = 10_000) -> Measurement:
    """The number of active, mixed and passive latents, and the rate, over at most `items` items."""
    return Measurement("regime", _regime, {"items": items})


def _regime(run: Run, data: Dataset, device: str, items: int) -> dict[str, float | None]:
    return measure(run, MeasurementSpec(items=items), device)


def histogram(values: Tensor, bins: int = HISTOGRAM_BINS) -> dict[str, list[float]]:
    """Edges and counts of a histogram."""
    counts, edges = torch.histogram(values.detach().double().cpu(), bins)
    return {"edges": edges.tolist(), "counts": counts.tolist()}


def pictures(items: Tensor) -> JsonTable:
    """Images with values in [0, 1] as bytes, in 255 steps."""
    steps = (items.detach().clamp(0, 1) * 255).round().to(torch.uint8).cpu().contiguous()
    return {"shape": list(steps.shape), "pixels": base64.b64encode(steps.numpy().tobytes()).decode()}


def images(table: JsonTable) -> Tensor:
    """The images that `pictures` packed."""
    steps = np.frombuffer(base64.b64decode(table["pixels"]), dtype=np.uint8).reshape(table["shape"])
    return torch.from_numpy(steps.astype(np.float32) / 255)


def plain_map(found: SimilarityMap) -> JsonTable:
    """A map as lists; NaN where a layer never varied."""
    numbers = {name: getattr(found, name).tolist() for name in ("matrix", "deviation", "pairs")}
    names = {name: list(getattr(found, name)) for name in ("rows", "columns", "constant")}
    return {"measure": found.measure, **names, **numbers}


def map_of(table: JsonTable) -> SimilarityMap:
    """The map that `plain_map` wrote."""
    return SimilarityMap(
        table["measure"],
        tuple(table["rows"]),
        tuple(table["columns"]),
        np.array(table["matrix"], dtype=np.float64),
        np.array(table["deviation"], dtype=np.float64),
        np.array(table["pairs"], dtype=np.int64),
        tuple(table["constant"]),
    )
