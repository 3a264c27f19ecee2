"""Seconds of the whole estimate of an intrinsic dimension, 10,000 x 4,096 by default: ours beside scikit-dimension.

All rows of a table come from one run on one machine with the same cores; compare ratios, not absolute times.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from vaescope.data import open_dataset
from vaescope.dimension import estimate

KS = (3, 5, 10, 20)
# What scikit-dimension calls our two averagings, with the divisors k - 2 and k - 1.
SETTINGS = [(k, comb, unbiased) for k in KS for comb, unbiased in (("mle", True), ("mean", False))]


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


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """How long the work takes, and what comes of it."""
    start = time.perf_counter()
    result = work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start, result


def peer(points: Tensor) -> dict[str, float]:
    """Seconds of each call of scikit-dimension that gives one of our numbers, and of all from one search by hand."""
    from skdim import get_nn
    from skdim.id import MLE, TwoNN

    x, cores = points.numpy(), torch.get_num_threads()

    def call(k: int, comb: str, unbiased: bool) -> None:
        MLE(unbiased=unbiased).fit(x, n_neighbors=k, comb=comb, n_jobs=cores)

    times = {f"MLE, {comb}, k = {k}": seconds(partial(call, k, comb, unbiased))[0] for k, comb, unbiased in SETTINGS}
    times["TwoNN"] = seconds(lambda: TwoNN().fit(x))[0]

    def one_search() -> None:
        distances, places = get_nn(x, k=KS[-1], n_jobs=cores)
        for k, comb, unbiased in SETTINGS:
            MLE(unbiased=unbiased).fit(x, precomputed_knn_arrays=(distances[:, :k], places[:, :k]), comb=comb)
        TwoNN(dist=True).fit(distances[:, :2])

    times["one search by hand"] = seconds(one_search)[0]
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--dimensions", type=int, default=4096)
    parser.add_argument("--no-peer", action="store_true", help="without scikit-dimension, which need not be there then")
    options = parser.parse_args()
    print(f"{platform.machine()} CPU, {torch.get_num_threads()} threads, torch {torch.__version__}", flush=True)
    points = curved(options.items, options.dimensions)
    for name, data in {"curved sheet": points, "dSprites": sprites(options.items)}.items():
        estimate(data[:200])
        ours, found = seconds(partial(estimate, data, KS))
        print(f"{name}, {len(data)} x {data.shape[1]}: vaescope {ours:.2f} s: {found.summary()}", flush=True)
        if torch.cuda.is_available():
            there = data.cuda()
            estimate(there, KS)
            value, found = seconds(partial(estimate, there, KS))
            print(f"{name}, {torch.cuda.get_device_name()}: vaescope {value:.3f} s: {found.summary()}", flush=True)
    if options.no_peer:
        return
    # Before and after, as the machine may not be ours alone.
    before = [seconds(partial(estimate, points, KS))[0] for _ in range(2)]
    times = peer(points)
    again = statistics.median([*before, seconds(partial(estimate, points, KS))[0]])
    together = times.pop("one search by hand")
    total = sum(times.values())
    for name, value in times.items():
        print(f"  scikit-dimension, {name:24} {value:8.2f} s")
    print("curved sheet, all numbers:")
    print(f"  {'vaescope':42} {again:8.2f} s   ratio   1.00")
    print(f"  {f'scikit-dimension, {len(times)} calls':42} {total:8.2f} s   ratio {total / again:6.2f}")
    print(f"  {'scikit-dimension, one search by hand':42} {together:8.2f} s   ratio {together / again:6.2f}")


if __name__ == "__main__":
    main()
