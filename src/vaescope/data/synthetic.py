"""Synthetic sets with known answers: a pure function of their options, drawn from counter-based noise."""

from __future__ import annotations

import hashlib
import json
import math

import torch
from jaxtyping import Float
from torch import Tensor

from vaescope.data.arrays import ArrayDataset
from vaescope.data.dataset import Factors
from vaescope.data.source import Source
from vaescope.errors import ConfigurationError
from vaescope.numerics import counter

VERSION = 1
SQUARE = Factors(("a", "b"), (100, 100))
NETWORK_SEED = 2019
NETWORK_HIDDEN = 10


def synthetic_linear(*, items: int = 50_000, seed: int = 0, ratio: float = 2.0) -> ArrayDataset:
    """A rectangle tilted in space (Rolinek et al., supplement).

    (a, b), uniform on the unit square, becomes (ratio * a, b, 0), turned by 45 degrees about (1, -1, 1).
    The factors are a and b, each cut into 100 bins of equal width.
    """
    _check_counts(items=(items, 2), seed=(seed, 0))
    if not 0 < ratio < math.inf:
        raise ConfigurationError(f"ratio must be a number above 0, got {ratio!r}.")
    square = _uniform("synthetic-linear", seed, items, 2)
    flat = torch.stack([ratio * square[:, 0], square[:, 1], torch.zeros_like(square[:, 0])], dim=1)
    points = flat @ rotation(math.pi / 4, (1.0, -1.0, 1.0)).T
    options = {"items": items, "seed": seed, "ratio": ratio}
    return _dataset("synthetic-linear", points, options, square=square)


def synthetic_nonlinear(*, items: int = 50_000, seed: int = 0) -> ArrayDataset:
    """A curved sheet in six dimensions (Rolinek et al., supplement).

    (a, b), uniform on the unit square, goes through a fixed random network 2 -> 10 tanh -> 6. The published
    weights are not known. Ours are standard normal, drawn row by row from seed 2019 (`NETWORK_SEED`) and
    independent of `seed`; the output weights are divided by sqrt(10). The factors are a and b, each cut into
    100 bins of equal width.
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
    """Arms of a pinwheel in the plane, one for each label (Adams, 2008; settings of Mathieu et al.).

    A point starts at (1 + along * e1, across * e2), e1 and e2 standard normal, and turns by the angle of its
    arm plus rate * exp(its first coordinate). Mathieu et al. call `along` the tangential and `across` the
    radial spread, because the generator they used applies each to the other's axis.
    """
    _check_counts(classes=(classes, 1), per_class=(per_class, 2), seed=(seed, 0))
    _check_spreads(along=along, across=across)
    labels = torch.arange(classes).repeat_interleave(per_class)
    noise = _normal("pinwheel", seed, len(labels), 2)
    radius, side = 1 + along * noise[:, 0], across * noise[:, 1]
    angle = 2 * math.pi * labels / classes + rate * torch.exp(radius)
    cosine, sine = torch.cos(angle), torch.sin(angle)
    points = torch.stack([radius * cosine + side * sine, side * cosine - radius * sine], dim=1)
    options = {
        "classes": classes,
        "per_class": per_class,
        "along": along,
        "across": across,
        "rate": rate,
        "seed": seed,
    }
    return _dataset("pinwheel", points, options, labels=labels)


def gaussian_manifold(
    *, dimension: int = 5, ambient: int = 20, items: int = 10_000, noise: float = 0.0, seed: int = 0
) -> ArrayDataset:
    """A standard Gaussian of intrinsic dimension `dimension` in a random subspace of the ambient space."""
    _check_counts(dimension=(dimension, 1), ambient=(ambient, dimension), items=(items, 2), seed=(seed, 0))
    inner = _normal("gaussian-manifold", seed, items, dimension)
    return _embedded("gaussian-manifold", inner, dimension, ambient, noise, seed)


def sphere_manifold(
    *, dimension: int = 5, ambient: int = 20, items: int = 10_000, noise: float = 0.0, seed: int = 0
) -> ArrayDataset:
    """The unit sphere of intrinsic dimension `dimension`, evenly covered, in a random subspace one larger."""
    _check_counts(dimension=(dimension, 1), ambient=(ambient, dimension + 1), items=(items, 2), seed=(seed, 0))
    inner = _normal("sphere-manifold", seed, items, dimension + 1)
    inner = inner / inner.norm(dim=1, keepdim=True)
    return _embedded("sphere-manifold", inner, dimension, ambient, noise, seed)


def rotation(angle: float, axis: tuple[float, float, float]) -> Float[Tensor, "3 3"]:
    """The rotation of space by `angle` about `axis` (Rodrigues)."""
    x, y, z = (torch.tensor(axis, dtype=torch.float64) / math.hypot(*axis)).tolist()
    cross = torch.tensor([[0, -z, y], [z, 0, -x], [-y, x, 0]], dtype=torch.float64)
    return torch.eye(3, dtype=torch.float64) + math.sin(angle) * cross + (1 - math.cos(angle)) * cross @ cross


def _embedded(name: str, inner: Tensor, dimension: int, ambient: int, noise: float, seed: int) -> ArrayDataset:
    """The points in `ambient` dimensions by a random map that keeps distances, plus Gaussian noise."""
    items, width = inner.shape
    _check_spreads(noise=noise)
    frame, upper = torch.linalg.qr(_normal(f"{name}/frame", seed, ambient, width))
    # A library may pick the sign of each column of a QR factor: fix it, so that the set is one everywhere.
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
    """The set, identified by its options alone: the last bits of a sine may differ between machines."""
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
    return counter.uniform(torch.tensor(seed), stream, torch.tensor(0), torch.arange(rows), columns)


def _normal(stream: str, seed: int, rows: int, columns: int) -> Float[Tensor, "rows columns"]:
    return counter.normal(torch.tensor(seed), stream, torch.tensor(0), torch.arange(rows), columns)


def _check_counts(**options: tuple[int, int]) -> None:
    """Each option as (value, least value it may have)."""
    for option, (value, least) in options.items():
        if not isinstance(value, int) or not least <= value < 2**63:
            raise ConfigurationError(f"{option} must be a whole number of at least {least}, got {value!r}.")


def _check_spreads(**options: float) -> None:
    for option, value in options.items():
        if not 0 <= value < math.inf:
            raise ConfigurationError(f"{option} must be a standard deviation of at least 0, got {value!r}.")


SOURCES = (
    Source("synthetic-linear", "a rectangle tilted in space", 50_000, (3,), SQUARE.names, synthetic_linear),
    Source(
        "synthetic-nonlinear",
        "a curved sheet in 6 dimensions",
        50_000,
        (6,),
        SQUARE.names,
        synthetic_nonlinear,
    ),
    Source("pinwheel", "four curved arms in the plane, labelled", 400, (2,), (), pinwheel),
    Source("gaussian-manifold", "a Gaussian of known dimension", 10_000, (20,), (), gaussian_manifold),
    Source("sphere-manifold", "a sphere of known dimension", 10_000, (20,), (), sphere_manifold),
)
