"""CPU seconds of estimates of the intrinsic dimension: ours compared with scikit-dimension, on a grid of shapes.

Both take turns in one process, and the shortest of several turns counts: compare ratios, not absolute times. Unless
told otherwise both use one thread. With --whole also the whole estimate (9 numbers with intervals) of one large set.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial

import torch
from recorded import Row, add_json, machine, save
from torch import Tensor

from vaescope.data import open_dataset
from vaescope.dimension import estimate, mle, twonn

KS = (3, 5, 10, 20)
# What scikit-dimension calls our two averagings, with the divisors k - 2 and k - 1.
SETTINGS = [(k, comb, unbiased) for k in KS for comb, unbiased in (("mle", True), ("mean", False))]
SHAPES = [
    *((items, dimensions) for items in (1_000, 5_000, 20_000) for dimensions in (2, 5, 10, 20, 100)),
    (1_000, 1_000),
    (5_000, 784),
    (50_000, 2),
    (50_000, 5),
    (50_000, 10),
    (50_000, 100),
    (10_000, 4_096),
]
MIN_SECONDS, MAX_TURNS = 0.5, 20  # turns are repeated until they have taken this long


@dataclass(frozen=True)
class Timing:
    """Seconds of the fastest turns, ours and theirs, by the clock of the processor and on the wall."""

    estimator: str
    data: str
    items: int
    dimensions: int
    ours: float
    theirs: float
    ours_wall: float
    theirs_wall: float
    turns: int

    @property
    def ratio(self) -> float:
        """How many times as long theirs takes."""
        return self.theirs / self.ours


def normal(items: int, dimensions: int) -> Tensor:
    """Normal points, which have as many dimensions as they can."""
    return torch.randn(items, dimensions, generator=torch.Generator().manual_seed(0))


def curved(items: int, dimensions: int, coordinates: int = 10) -> Tensor:
    """A curved sheet of ten coordinates with a little noise."""
    generator = torch.Generator().manual_seed(0)
    sizes = ((items, coordinates), (coordinates, 64), (64, dimensions), (items, dimensions))
    within, inward, outward, noise = (torch.randn(size, generator=generator) for size in sizes)
    return torch.tanh(0.3 * within @ inward) @ outward + 0.01 * noise


def sprites(items: int) -> Tensor:
    """Images of dSprites, drawn at random."""
    data = open_dataset("dsprites")
    return data.batch(torch.randperm(len(data), generator=torch.Generator().manual_seed(0))[:items]).flatten(1)


def seconds(work: Callable[[], object]) -> tuple[float, float]:
    """How long the work takes, by the clock of the processor and on the wall."""
    processor, wall = time.process_time(), time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.process_time() - processor, time.perf_counter() - wall


def compare(name: str, data: str, points: Tensor, ours: Callable[[], object], theirs: Callable[[], object]) -> Timing:
    """Both in turn, until they have taken `MIN_SECONDS` together."""
    turns: list[tuple[float, float, float, float]] = []
    while not turns or (len(turns) < MAX_TURNS and sum(sum(turn[::2]) for turn in turns) < MIN_SECONDS):
        turns.append((*seconds(ours), *seconds(theirs)))
    our, our_wall, their, their_wall = (min(column) for column in zip(*turns, strict=True))
    found = Timing(name, data, *points.shape, our, their, our_wall, their_wall, len(turns))
    shape = f"{found.items:,} x {found.dimensions:,}"
    print(
        f"  {name:22} {data:8} {shape:>15}  ours {our:9.4f} s, theirs {their:9.4f} s, ratio {found.ratio:6.2f}",
        flush=True,
    )
    return found


def grid(shapes: list[tuple[int, int]]) -> list[Timing]:
    """MLE at k = 20 and TwoNN, of normal points and of a curved sheet; ours with an interval, theirs without."""
    from skdim.id import MLE, TwoNN

    found = []
    for data, draw in (("normal", normal), ("curved", curved)):
        for items, dimensions in shapes:
            points = draw(items, dimensions)
            x = points.numpy()
            theirs: Callable[[], object] = partial(MLE(unbiased=True).fit, x, n_neighbors=KS[-1])
            found.append(compare("MLE", data, points, partial(mle, points, KS[-1]), theirs))
            found.append(compare("TwoNN", data, points, partial(twonn, points), partial(TwoNN().fit, x)))
    return found


def whole(points: Tensor, data: str) -> list[Timing]:
    """All numbers of `estimate` from one search, compared with one call for each and with one search by hand."""
    from skdim import get_nn
    from skdim.id import MLE, TwoNN

    x = points.numpy()

    def separate() -> None:
        for k, comb, unbiased in SETTINGS:
            MLE(unbiased=unbiased).fit(x, n_neighbors=k, comb=comb)
        TwoNN().fit(x)

    def one_search() -> None:
        distances, places = get_nn(x, k=KS[-1])
        for k, comb, unbiased in SETTINGS:
            MLE(unbiased=unbiased).fit(x, precomputed_knn_arrays=(distances[:, :k], places[:, :k]), comb=comb)
        TwoNN(dist=True).fit(distances[:, :2])

    ours = partial(estimate, points, KS)
    return [
        compare("all, nine calls", data, points, ours, separate),
        compare("all, one search", data, points, ours, one_search),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", nargs="*", default=None, help="such as 1000x2; default: the whole grid")
    parser.add_argument("--whole", action="store_true", help="also all numbers of 10,000 x 4,096 and of dSprites")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--no-peer", action="store_true", help="without scikit-dimension, which need not be there then")
    add_json(parser)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    print(machine(device), flush=True)
    tables: dict[str, list[Row]] = {}
    if device == "cuda" or options.no_peer:
        rows = tables.setdefault("the whole estimate of 10,000 items", [])
        for name, points in {"curved sheet": curved(10_000, 4_096), "dSprites": sprites(10_000)}.items():
            points = points.to(device)
            estimate(points, KS)
            rows.append({"data": name, "device": device, "seconds": seconds(partial(estimate, points, KS))[1]})
            print(rows[-1], flush=True)
    if not options.no_peer:
        tables["compared with scikit-dimension, processor seconds"] = compared(options)
    save(options, __file__, "Intrinsic dimension", tables, device=device)


def compared(options: argparse.Namespace) -> list[Row]:
    """A row for each estimate and shape."""
    given = [tuple(map(int, shape.split("x"))) for shape in options.shapes] if options.shapes is not None else SHAPES
    mle(normal(100, 5)), twonn(normal(100, 5))
    found = grid([(items, dimensions) for items, dimensions in given])
    if options.whole:
        found += whole(curved(10_000, 4_096), "curved") + whole(sprites(10_000), "dSprites")
    middle = math.exp(sum(math.log(one.ratio) for one in found) / len(found))
    print(f"ratios: least {min(one.ratio for one in found):.2f}, geometric mean {middle:.2f}")
    return [asdict(one) | {"ratio": one.ratio} for one in found]


if __name__ == "__main__":
    main()
