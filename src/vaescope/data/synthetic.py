"""Synthetic data sets with known geometry, each a pure function of its options (counter-based noise)."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.special import nbdtrik
from torch import Tensor

from vaescope.checks import MAX_SEED, finite_number, whole_number
from vaescope.data.arrays import ArrayDataset
from vaescope.data.dataset import DatasetEntry, Factors
from vaescope.memory import check_memory
from vaescope.numerics import counter

VERSION = 1
SQUARE = Factors(("a", "b"), (100, 100))
NETWORK_SEED = 2019
NETWORK_HIDDEN = 10
LOG_TOTAL_SPREAD = 0.3


def synthetic_linear(*, items: int = 50_000, seed: int = 0, ratio: float = 2.0) -> ArrayDataset:
    """A tilted rectangle in three dimensions (Rolinek et al., supplement).

    (a, b), uniform on the unit square, becomes (ratio * a, b, 0), rotated by 45 degrees about (1, -1, 1).
    The factors are a and b, each divided into 100 bins of equal width.
    """
    _check_counts(items=(items, 2), seed=(seed, 0))
    finite_number("ratio", ratio, above=0)
    square = _uniform("synthetic-linear", seed, items, 2)
    flat = torch.stack([ratio * square[:, 0], square[:, 1], torch.zeros_like(square[:, 0])], dim=1)
    points = flat @ rotation(math.pi / 4, (1.0, -1.0, 1.0)).T
    return _dataset("synthetic-linear", points, {"items": items, "seed": seed, "ratio": ratio}, square=square)


def synthetic_nonlinear(*, items: int = 50_000, seed: int = 0) -> ArrayDataset:
    """A curved sheet in six dimensions (Rolinek et al., supplement).

    (a, b), uniform on the unit square, passes through a fixed random network 2 -> 10 tanh -> 6. The published
    weights are unknown. Ours are standard normal, drawn row by row with seed 2019 (`NETWORK_SEED`) whatever
    `seed` is; the output weights are divided by sqrt(10). The factors are a and b, each divided into 100 bins
    of equal width.
    """
    _check_counts(items=(items, 2), seed=(seed, 0))
    square = _uniform("synthetic-nonlinear", seed, items, 2)
    inward = _normal("synthetic-nonlinear/hidden", NETWORK_SEED, NETWORK_HIDDEN, 3)
    outward = _normal("synthetic-nonlinear/output", NETWORK_SEED, 6, NETWORK_HIDDEN) / math.sqrt(NETWORK_HIDDEN)
    points = torch.tanh(square @ inward[:, :2].T + inward[:, 2]) @ outward.T
    return _dataset("synthetic-nonlinear", points, {"items": items, "seed": seed}, square=square)


def pinwheel(
    *,
    classes: int = 4,
    per_class: int = 100,
    along: float = 0.3,
    across: float = 0.1,
    rate: float = 0.25,
    seed: int = 0,
) -> ArrayDataset:
    """A pinwheel in the plane with one arm for each label (Adams, 2008; settings of Mathieu et al.).

    A point starts at (1 + along * e1, across * e2), with e1 and e2 standard normal, and is rotated by the angle of
    its arm plus rate * exp(its first coordinate). Mathieu et al. call `along` the tangential and `across` the
    radial spread, because their generator applies each to the other axis.
    """
    _check_counts(classes=(classes, 1), per_class=(per_class, 2), seed=(seed, 0))
    for option, spread in (("along", along), ("across", across)):
        finite_number(option, spread, at_least=0)
    finite_number("rate", rate)
    noise = _normal("pinwheel", seed, classes * per_class, 2)
    labels = torch.arange(classes).repeat_interleave(per_class)
    radius, side = 1 + along * noise[:, 0], across * noise[:, 1]
    angle = 2 * math.pi * labels / classes + rate * torch.exp(radius)
    cosine, sine = torch.cos(angle), torch.sin(angle)
    points = torch.stack([radius * cosine + side * sine, side * cosine - radius * sine], dim=1)
    options: dict[str, int | float] = {"classes": classes, "per_class": per_class, "seed": seed}
    options |= {"along": along, "across": across, "rate": rate}
    return _dataset("pinwheel", points, options, labels=labels)


def gaussian_manifold(
    *, dimension: int = 5, ambient: int = 20, items: int = 10_000, noise: float = 0.0, seed: int = 0
) -> ArrayDataset:
    """A standard Gaussian in a random subspace of dimension `dimension` of the ambient space."""
    _check_counts(dimension=(dimension, 1), ambient=(ambient, dimension), items=(items, 2), seed=(seed, 0))
    inner = _normal("gaussian-manifold", seed, items, dimension)
    return _embedded("gaussian-manifold", inner, dimension, ambient, noise, seed)


def sphere_manifold(
    *, dimension: int = 5, ambient: int = 20, items: int = 10_000, noise: float = 0.0, seed: int = 0
) -> ArrayDataset:
    """Uniform samples of the unit sphere of dimension `dimension`, in a random subspace of one dimension more."""
    _check_counts(dimension=(dimension, 1), ambient=(ambient, dimension + 1), items=(items, 2), seed=(seed, 0))
    inner = _normal("sphere-manifold", seed, items, dimension + 1)
    inner = inner / inner.norm(dim=1, keepdim=True)
    return _embedded("sphere-manifold", inner, dimension, ambient, noise, seed)


def synthetic_counts(
    *,
    dimension: int = 4,
    genes: int = 100,
    items: int = 4000,
    depth: float = 1000.0,
    effect: float = 0.5,
    dispersion: float = 10.0,
    seed: int = 0,
) -> ArrayDataset:
    """Counts of genes in cells whose state has `dimension` independent, standard normal coordinates.

    The shares of the genes are a softmax of base levels, N(0, 1), plus the coordinates times the effects of each gene,
    N(0, effect^2). A count is negative binomial with mean m, its share of the total of the cell, and variance
    m + m^2 / dispersion. Totals are log-normal around `depth`, with standard deviation 0.3 of their logs.
    """
    _check_counts(dimension=(dimension, 1), genes=(genes, dimension + 1), items=(items, 2), seed=(seed, 0))
    for option, number in (("depth", depth), ("effect", effect), ("dispersion", dispersion)):
        finite_number(option, number, above=0)
    name = "synthetic-counts"
    states = _normal(name, seed, items, dimension).double()
    gene = _normal(f"{name}/genes", seed, genes, dimension + 1).double()
    shares = torch.softmax(gene[:, 0] + effect * states @ gene[:, 1:].T, dim=1)
    totals = depth * torch.exp(LOG_TOTAL_SPREAD * _normal(f"{name}/totals", seed, items, 1).double())
    chance = dispersion / (dispersion + totals * shares)
    noise = _uniform(f"{name}/counts", seed, items, genes).double()
    # The inverse of the distribution function, at numbers that may be 0.
    counts = torch.from_numpy(np.ceil(nbdtrik(noise.numpy(), dispersion, chance.numpy()))).clamp_min(0)
    options: dict[str, int | float] = {"dimension": dimension, "genes": genes, "items": items, "seed": seed}
    options |= {"depth": depth, "effect": effect, "dispersion": dispersion}
    return replace(_dataset(name, counts, options), holds_counts=True)


def rotation(angle: float, axis: tuple[float, float, float]) -> Float[Tensor, "3 3"]:
    """The rotation matrix for `angle` about `axis` (Rodrigues' formula)."""
    x, y, z = (torch.tensor(axis, dtype=torch.float64) / math.hypot(*axis)).tolist()
    cross = torch.tensor([[0, -z, y], [z, 0, -x], [-y, x, 0]], dtype=torch.float64)
    return torch.eye(3, dtype=torch.float64) + math.sin(angle) * cross + (1 - math.cos(angle)) * cross @ cross


def _embedded(name: str, inner: Tensor, dimension: int, ambient: int, noise: float, seed: int) -> ArrayDataset:
    """The points mapped isometrically into `ambient` dimensions, plus Gaussian noise."""
    items, width = inner.shape
    finite_number("noise", noise, at_least=0)
    frame, upper = torch.linalg.qr(_normal(f"{name}/frame", seed, ambient, width))
    # LAPACK implementations choose the signs of the columns: fix them, so that the data are the same everywhere.
    frame = frame * upper.diagonal().sign()
    points = inner @ frame.T
    if noise > 0:
        points = points + noise * _normal(f"{name}/noise", seed, items, ambient)
    options = {"dimension": dimension, "ambient": ambient, "items": items, "noise": noise, "seed": seed}
    return _dataset(name, points, options)


def _dataset(
    name: str,
    points: Tensor,
    options: dict[str, int | float],
    *,
    square: Tensor | None = None,
    labels: Tensor | None = None,
) -> ArrayDataset:
    """The data set. Its options identify it, because the last bits of a sine may differ between machines."""
    recipe = json.dumps([name, VERSION, {key: float(value) for key, value in options.items()}], sort_keys=True)
    return ArrayDataset(
        name,
        points.to(torch.float32),
        (points.shape[1],),
        hashlib.sha256(recipe.encode()).hexdigest(),
        labels,
        None if square is None else SQUARE,
        None if square is None else (square * 100).floor().to(torch.int16),
    )


def _uniform(stream: str, seed: int, rows: int, columns: int) -> Float[Tensor, "rows columns"]:
    return counter.uniform(torch.tensor(seed), stream, torch.tensor(0), _positions(rows, columns), columns)


def _normal(stream: str, seed: int, rows: int, columns: int) -> Float[Tensor, "rows columns"]:
    return counter.normal(torch.tensor(seed), stream, torch.tensor(0), _positions(rows, columns), columns)


def _positions(rows: int, columns: int) -> Int[Tensor, "rows"]:
    check_memory(f"{rows:,} items of {columns:,} numbers", 4 * rows * columns, "Ask for fewer items or dimensions.")
    return torch.arange(rows)


def _check_counts(**options: tuple[int, int]) -> None:
    """Check options given as (value, minimum)."""
    for option, (value, minimum) in options.items():
        whole_number(option, value, minimum, MAX_SEED if option == "seed" else None)


_ROLINEK, _AB = "Rolinek et al., 2019, supplement", SQUARE.names

ENTRIES = (
    DatasetEntry(
        "synthetic-linear", "a tilted rectangle in 3 dimensions", _ROLINEK, 50_000, (3,), _AB, synthetic_linear
    ),
    DatasetEntry(
        "synthetic-nonlinear",
        "a curved sheet in 6 dimensions",
        _ROLINEK,
        50_000,
        (6,),
        SQUARE.names,
        synthetic_nonlinear,
    ),
    DatasetEntry("pinwheel", "four curved arms in the plane, labelled", "Adams, 2008", 400, (2,), (), pinwheel),
    DatasetEntry("gaussian-manifold", "a Gaussian of known dimension", "", 10_000, (20,), (), gaussian_manifold),
    DatasetEntry(
        "synthetic-counts", "counts of genes in cells of known dimension", "", 4000, (100,), (), synthetic_counts
    ),
    DatasetEntry("sphere-manifold", "a sphere of known dimension", "", 10_000, (20,), (), sphere_manifold),
)
