"""Memory above the start and seconds of `variable_types` on memory-mapped codes of many items."""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import torch
from recorded import add_json, save

from vaescope.regime.variable_types import variable_types

WRITTEN = 50_000
PAGE = 4096


def write(folder: Path, items: int, latents: int) -> None:
    """Codes under the polarised regime, in float32: thirds of active, mixed and passive latents."""
    generator = np.random.default_rng(0)
    kind = np.arange(latents) * 3 // latents
    with (folder / "mean").open("wb") as means, (folder / "variance").open("wb") as variances:
        for start in range(0, items, WRITTEN):
            shape = (min(WRITTEN, items - start), latents)
            awake = (kind == 0) | ((kind == 1) & (generator.random(shape, dtype=np.float32) < 0.5))
            noise = generator.standard_normal(shape, dtype=np.float32)
            np.where(awake, noise, 0.01 * noise).astype(np.float32).tofile(means)
            np.where(awake, 0.02, 1 - 0.01 * np.abs(noise)).astype(np.float32).tofile(variances)


def resident() -> int:
    """Bytes of this process in memory now, pages of mapped files included."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


class Peak:
    """The largest resident memory while the block runs, looked at every five milliseconds."""

    def __enter__(self) -> Peak:
        self.start = self.most = resident()
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._look)
        self._watch.start()
        return self

    def _look(self) -> None:
        while not self._over.wait(0.005):
            self.most = max(self.most, resident())

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._watch.join()

    @property
    def megabytes(self) -> float:
        """How far the memory rose above the start."""
        return (self.most - self.start) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--latents", type=int, default=50)
    add_json(parser)
    options = parser.parse_args()
    shape = (options.items, options.latents)
    with tempfile.TemporaryDirectory() as name:
        write(Path(name), *shape)
        pair = [np.memmap(Path(name) / part, np.float32, "r", shape=shape) for part in ("mean", "variance")]
        with Peak() as peak:
            start = time.perf_counter()
            types = variable_types(pair)
            seconds = time.perf_counter() - start
    row = {"items": shape[0], "latents": shape[1], "seconds": seconds, "megabytes above the start": peak.megabytes}
    print(f"{torch.get_num_threads()} threads: {row}, {types.summary()}")
    save(options, __file__, "Types of the latents of many codes", {"one pass over mapped files": [row]})


if __name__ == "__main__":
    main()
