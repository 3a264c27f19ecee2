"""Peak memory and seconds of metrics and of CKA on large arrays, in memory and mapped from a file.

Every case runs in a process of its own, which makes the input, reads all of it, and then measures how far its resident
memory rises above that; pages of a mapped file that are resident count as input. Linux only.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from recorded import add_json, save

ITEMS, LATENTS, CLASSES = 1_000_000, 50, (3, 6, 40, 32, 32)
CKA_ITEMS, CKA_FEATURES = 50_000, 2_000
METRICS = ("mig", "modularity", "irs", "factor_vae", "hoyer")
MEGABYTE = 2**20


def megabytes(field: str) -> float:
    """A field of this process's status: VmRSS is resident now, VmHWM was at most."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(field)) / 1024


def drawn(items: int, columns: int, seed: int, kind: str, folder: Path | None) -> np.ndarray:
    """Normal numbers made in chunks; in memory, or mapped from a file in the folder to be read only."""
    path = folder / f"{seed}.npy" if folder else None
    shape = (items, columns)
    array = np.lib.format.open_memmap(path, "w+", kind, shape) if path else np.empty(shape, kind)
    generator = np.random.default_rng(seed)
    for start in range(0, items, 10_000):
        array[start : start + 10_000] = generator.standard_normal((min(10_000, items - start), columns))
    if path is None:
        return array
    del array
    mapped = np.load(path, mmap_mode="r")
    mapped.max()  # makes its pages resident
    return mapped


def work(case: str, kind: str, share: float, folder: Path | None) -> tuple[Callable[[], float], int]:
    """What is measured, after a small run that imports everything, and the bytes of its input."""
    from vaescope import metrics
    from vaescope.similarity import linear_cka

    if case == "linear_cka":
        a, b = (drawn(int(share * CKA_ITEMS), CKA_FEATURES, seed, kind, folder) for seed in (0, 1))
        linear_cka(a[:10], b[:10])
        return partial(linear_cka, a, b), a.nbytes + b.nbytes
    items = int(share * ITEMS)
    codes = drawn(items, LATENTS, 0, kind, folder)
    factors = np.stack([np.random.default_rng(1).integers(0, count, items) for count in CLASSES], 1)
    metric = getattr(metrics, case)
    arguments = (codes,) if case == "hoyer" else (codes, factors)
    metric(*(part[:1000] for part in arguments))
    return lambda: float(metric(*arguments)), sum(part.nbytes for part in arguments)


def measure(case: str, kind: str, share: float, mapped: bool) -> dict[str, object]:
    """One case, in this process."""
    with tempfile.TemporaryDirectory() as folder:
        run, size = work(case, kind, share, Path(folder) if mapped else None)
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        before, start = megabytes("VmRSS"), time.process_time()
        score = run()
        seconds, above = time.process_time() - start, megabytes("VmHWM") - before
    source = "memory map" if mapped else "memory"
    return {"case": case, "source": source, "type": kind, "input_mb": round(size / MEGABYTE)} | {
        "above_mb": round(above),
        "cpu_seconds": round(seconds, 2),
        "score": score,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="*", default=[*METRICS, "linear_cka"])
    parser.add_argument("--share", type=float, default=1.0, help="of the items")
    add_json(parser)
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        case, kind, mapped = options.worker
        print(json.dumps(measure(case, kind, options.share, mapped == "map")))
        return
    found = []
    for case in options.cases:
        for kind, source in (("float64", "memory"), ("float32", "memory"), ("float64", "map"), ("float32", "map")):
            command = [sys.executable, __file__, "--share", str(options.share), "--worker", case, kind, source]
            answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            found.append(json.loads(answer.splitlines()[-1]))
            print(
                "  {case:12} {type:8} {source:10} input {input_mb:5} MB, above it {above_mb:5} MB, "
                "{cpu_seconds:7.2f} s, score {score!r}".format(**found[-1]),
                flush=True,
            )
    save(options, __file__, "Memory of metrics and CKA above their input", {"peak memory": found})


if __name__ == "__main__":
    main()
