"""Linear CKA of all pairs of representations: ours beside loops over pairs, as ratios of one run.

On a CPU 300 representations of 2,000 x 64, on an accelerator (--device cuda) 500 of 5,000 x 256, with the error of each
precision against float64. A loop over kernels is timed on a few pairs and extrapolated.
"""

from __future__ import annotations

import argparse
import itertools
import platform
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vaescope.similarity import all_pairs, linear_cka

SHAPES = {"cpu": (300, 2000, 64), "cuda": (500, 5000, 256)}
SHARED = 32


def related(count: int, items: int, features: int, device: str) -> list[Tensor]:
    """Representations with something in common, from nearly nothing to nearly all."""
    generator = torch.Generator().manual_seed(0)
    shared = torch.randn(items, SHARED, generator=generator)
    tables = []
    for number in range(count):
        own = torch.randn(items, features, generator=generator)
        mixing = torch.randn(SHARED, features, generator=generator) / SHARED**0.5
        tables.append((number / count * shared @ mixing + (1 - number / count) * own + 1).to(device))
    return tables


def from_features(a: Tensor, b: Tensor) -> Tensor:
    """One pair in the precision of the input, centred here, through features."""
    a, b = a - a.mean(0), b - b.mean(0)
    own = torch.linalg.vector_norm(a.T @ a) * torch.linalg.vector_norm(b.T @ b)
    return torch.linalg.vector_norm(a.T @ b).square() / own


def from_kernels(a: Tensor, b: Tensor) -> Tensor:
    """One pair in the precision of the input through items x items kernels, centred as kernels."""
    first, second = (side @ side.T for side in (a, b))
    first, second = (k - k.mean(0) - k.mean(1, keepdim=True) + k.mean() for k in (first, second))
    own = torch.linalg.vector_norm(first) * torch.linalg.vector_norm(second)
    return torch.vdot(first.flatten(), second.flatten()) / own


def seconds(work: Callable[[], Any], device: str) -> tuple[float, Any]:
    """The time of the work, the accelerator's included, and what it returns."""
    for _ in range(device != "cpu"):
        torch.cuda.synchronize()
    start = time.perf_counter()
    result = work()
    for _ in range(device != "cpu"):
        torch.cuda.synchronize()
    return time.perf_counter() - start, result


def a_pair(function: Any, tables: list[Tensor], pairs: list[tuple[int, int]], device: str) -> float:
    """Seconds a pair of a loop over these pairs, the first one not counted."""
    function(tables[0], tables[1])
    return seconds(lambda: [float(function(tables[i], tables[j])) for i, j in pairs], device)[0] / len(pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--representations", type=int)
    parser.add_argument("--items", type=int)
    parser.add_argument("--features", type=int)
    parser.add_argument("--loop-pairs", type=int, default=2000, help="pairs of the loop over features that are timed")
    parser.add_argument("--kernel-pairs", type=int, default=20, help="pairs of the loop over kernels that are timed")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    usual = SHAPES["cpu" if options.device == "cpu" else "cuda"]
    given = (options.representations, options.items, options.features)
    count, items, features = (own or default for own, default in zip(given, usual, strict=True))
    name = platform.machine() if options.device == "cpu" else torch.cuda.get_device_name()
    print(f"{name}, {torch.get_num_threads()} threads, torch {torch.__version__}")
    tables = related(count, items, features, options.device)
    total = count * (count + 1) // 2
    every = list(itertools.combinations_with_replacement(range(count), 2))
    chosen = [every[place] for place in np.random.default_rng(0).permutation(total)]
    checked = chosen[: min(200, total)]
    exact = np.array([linear_cka(tables[i], tables[j]) for i, j in checked])
    print(f"CKA of {total} pairs of {count} representations of {items} x {features}")
    times = {}
    for precision in ("float32", "tf32", "float64"):
        all_pairs(tables[:2], precision=precision)
        runs = [
            seconds(lambda kind=precision: all_pairs(tables, precision=kind), options.device)
            for _ in range(options.repeats)
        ]
        times[precision] = min(run[0] for run in runs)
        error = max(abs(runs[0][1][i, j] - value) for (i, j), value in zip(checked, exact, strict=True))
        print(
            f"  all_pairs, {precision:8} {times[precision]:9.3f} s  {times[precision] / total * 1e6:9.2f} us a pair",
            end="",
        )
        print(f"  error {error:.1e}", flush=True)
    loops = {
        "loop over features": (from_features, chosen[: options.loop_pairs]),
        "loop over kernels": (from_kernels, chosen[: options.kernel_pairs]),
    }
    for title, (function, pairs) in loops.items():
        one = a_pair(function, tables, pairs, options.device)
        ratio = one * total / times["float32"]
        print(
            f"  {title:19} {one * total:9.1f} s  {one * 1e6:9.2f} us a pair  ratio {ratio:8.2f}  ({len(pairs)} timed)"
        )


if __name__ == "__main__":
    main()
