"""Similarity of representations as ratios of one run: single measures and plain numpy, all pairs and loops over pairs.

Single measures take turns with numpy in the precision of ours, float64; the shortest of several turns counts, by the
clock of the processor.
On a CPU 300 representations of 2,000 x 64, on an accelerator (--device cuda) 500 of 5,000 x 256, with the error of each
precision against float64. A loop over kernels is timed on a few pairs and extrapolated.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from recorded import add_json, machine, save
from torch import Tensor

from vaescope.similarity import all_pairs, linear_cka, rsa

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


def plain_rsa(a: np.ndarray, b: np.ndarray) -> float:
    """The correlation of distances as published code writes it."""
    from scipy.spatial.distance import pdist

    return float(np.corrcoef(pdist(a), pdist(b))[0, 1])


def plain_cka(a: np.ndarray, b: np.ndarray) -> float:
    """CKA of centred tables through features or kernels, whichever is less work."""
    x, y = a - a.mean(0), b - b.mean(0)
    if x.shape[1] + y.shape[1] > len(x):
        first, second = x @ x.T, y @ y.T
        return float((first * second).sum() / np.sqrt((first * first).sum() * (second * second).sum()))
    return float(np.linalg.norm(x.T @ y) ** 2 / (np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y)))


def against_numpy(turns: int) -> list[dict[str, Any]]:
    """RSA by Pearson's correlation and wide CKA of single pairs, ours and plain numpy in turn."""
    cases: list[tuple[str, int, int, Callable[..., Any], Callable[..., Any]]] = [
        *(
            ("rsa", items, width, partial(rsa, correlation="pearson"), plain_rsa)
            for items, width in ((300, 10), (1000, 10), (1000, 100), (1000, 1000))
        ),
        *(
            ("linear_cka", items, width, linear_cka, plain_cka)
            for items, width in ((500, 2000), (1000, 4000), (1000, 1000), (2000, 500), (5000, 500))
        ),
    ]
    found = []
    for name, items, width, ours, theirs in cases:
        generator = np.random.default_rng(0)
        a = generator.standard_normal((items, width))
        b = a + generator.standard_normal((items, width))
        times: list[list[float]] = [[], []]
        for _ in range(turns):
            for function, own in zip((ours, theirs), times, strict=True):
                start = time.process_time()
                function(a, b)
                own.append(time.process_time() - start)
        our, their = map(min, times)
        error = abs(ours(a, b) - theirs(a, b))
        row = {"measure": name, "items": items, "features": width, "ours": our, "numpy": their, "ratio": their / our}
        found.append(row | {"difference": error})
        print(
            f"  {name:10} {items:5} x {width:5}  {our * 1e3:8.2f} ms, numpy {their * 1e3:8.2f} ms, "
            f"ratio {their / our:5.2f}, difference {error:.0e}",
            flush=True,
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--representations", type=int)
    parser.add_argument("--items", type=int)
    parser.add_argument("--features", type=int)
    parser.add_argument("--loop-pairs", type=int, default=2000, help="pairs of the loop over features that are timed")
    parser.add_argument("--kernel-pairs", type=int, default=20, help="pairs of the loop over kernels that are timed")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--turns", type=int, default=15, help="of single measures and numpy")
    parser.add_argument("--no-pairs", action="store_true", help="single measures alone")
    add_json(parser)
    options = parser.parse_args()
    usual = SHAPES["cpu" if options.device == "cpu" else "cuda"]
    given = (options.representations, options.items, options.features)
    count, items, features = (own or default for own, default in zip(given, usual, strict=True))
    print(machine(options.device))
    tables: dict[str, list[dict[str, Any]]] = {}
    if options.device == "cpu":
        tables["single pairs compared with numpy, processor seconds"] = against_numpy(options.turns)
    if not options.no_pairs:
        caption = f"CKA of all pairs of {count} representations of {items} x {features}, seconds"
        tables[caption] = all_pairs_and_loops(options, count, items, features)
    save(options, __file__, "Similarity of representations", tables, device=options.device)


def all_pairs_and_loops(options: argparse.Namespace, count: int, items: int, features: int) -> list[dict[str, Any]]:
    """Seconds of all pairs in each precision, and of loops over pairs."""
    tables = related(count, items, features, options.device)
    total = count * (count + 1) // 2
    every = list(itertools.combinations_with_replacement(range(count), 2))
    chosen = [every[place] for place in np.random.default_rng(0).permutation(total)]
    checked = chosen[: min(200, total)]
    exact = np.array([linear_cka(tables[i], tables[j]) for i, j in checked])
    print(f"CKA of {total} pairs of {count} representations of {items} x {features}")
    times, rows = {}, []
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
        rows.append({"method": precision, "seconds": times[precision], "error": float(error)})
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
        rows.append({"method": title, "seconds": one * total, "ratio": ratio, "timed pairs": len(pairs)})
    return rows


if __name__ == "__main__":
    main()
