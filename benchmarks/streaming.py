"""Training on images larger than memory: anonymous memory, and the time of a step next to a small resident set.

Rounds of both alternate, so that other work on the machine slows both. The pages of the large file are dropped from the
page cache before each of its rounds, so that every batch is read from the disk. On an accelerator there are also rounds
with the pages in the page cache, and 50 steps in a round:

    python benchmarks/streaming.py --device cuda --members 8 --json streaming-cuda.json
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import torch
from recorded import add_json, save

from vaescope.data import open_dataset
from vaescope.data.dataset import Dataset
from vaescope.models import Architecture
from vaescope.training import Member, Plan, Trainer

SHAPE = (3, 64, 64)
BLOCK_ITEMS, RESIDENT_ITEMS = 4096, 4096
EVALUATION_ITEMS = 512
STEPS = {"cpu": 10, "cuda": 50}  # in a round
STATUS = Path("/proc/self/status")


def write_images(path: Path, size: int) -> int:
    """Write a .npy file of about `size` bytes, a block of random pixels many times; returns the number of items."""
    items = int(size // np.prod(SHAPE))
    block = np.random.default_rng(0).integers(0, 256, (BLOCK_ITEMS, *SHAPE), dtype=np.uint8)
    with path.open("wb") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": (items, *SHAPE)}
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, items, BLOCK_ITEMS):
            block[0, 0, 0, :8] = np.frombuffer(start.to_bytes(8, "little"), np.uint8)  # no two blocks are equal
            file.write(block[: items - start].data)
        file.flush()
        os.fsync(file.fileno())
    return items


def drop_pages(path: Path) -> bool:
    """Drop the pages of a file from the page cache, where the system can."""
    if not hasattr(os, "posix_fadvise"):
        return False
    with path.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return True


def read_pages(path: Path) -> None:
    """Bring a file into the page cache, as far as it fits."""
    with path.open("rb", buffering=0) as file:
        while file.read(2**24):
            pass


def megabytes(name: str) -> float:
    """A number of /proc/self/status, such as RssAnon, the memory that is not backed by a file."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) / 1e3


class MemoryPeak:
    """The largest anonymous memory while the block runs."""

    def __enter__(self) -> MemoryPeak:
        self.most, self._done = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._done.wait(0.01):
            self.most = max(self.most, megabytes("RssAnon"))

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def trainer_on(dataset: Dataset, options: argparse.Namespace, steps: int, streamed: bool) -> Trainer:
    """Convolutional VAEs on nine tenths of the data, which are evaluated and probed in the last round."""
    every = steps * options.rounds
    plan = Plan(10**9, log_every=steps, evaluate_every=every, monitor_every=every, evaluation_items=EVALUATION_ITEMS)
    members = [Member(10, seed=seed) for seed in range(options.members)]
    # On a CPU, a file is read by the step, without threads that read ahead.
    streamed = streamed and options.device != "cpu"
    return Trainer(Architecture(), members, plan, *dataset.split(), options.device, streamed=streamed)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=8.0)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--members", type=int, default=1)
    parser.add_argument("--folder", help="Folder for the file; default: that of temporary files.")
    add_json(parser)
    options = parser.parse_args()
    resident = np.random.default_rng(0).integers(0, 256, (RESIDENT_ITEMS, *SHAPE), dtype=np.uint8)
    kind = torch.device(options.device).type
    steps = STEPS.get(kind, STEPS["cuda"])
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        os.environ["XDG_CACHE_HOME"] = temporary  # the user's own cache stays as it is
        path = Path(temporary) / "images.npy"
        items, before = write_images(path, int(options.gigabytes * 1e9)), megabytes("RssAnon")
        with MemoryPeak() as peak:
            began = time.perf_counter()
            streamed = open_dataset(path)
            opening = time.perf_counter() - began
            trainers = {
                name: trainer_on(data, options, steps, name != "resident")
                for name, data in (("resident", open_dataset(resident)), ("streamed", streamed))
            }
            rounds = ["resident", "streamed"] + (["streamed from page cache"] if kind != "cpu" else [])
            times: dict[str, list[float]] = {name: [] for name in rounds}
            for _ in range(options.rounds):
                for name in rounds:
                    if name == "streamed":
                        dropped = drop_pages(path)
                    elif name != "resident":
                        read_pages(path)
                    began = time.perf_counter()
                    trainers[name.split()[0]].advance()
                    times[name].append((time.perf_counter() - began) / steps)
        index = trainers["streamed"].order.indices(range(steps))[:, 0].cpu()
        drop_pages(path)
        began = time.perf_counter()
        for batch in index:
            streamed.batch(batch)
        cold = (time.perf_counter() - began) / steps
    # Without the first round, which warms up, and the last, which evaluates.
    seconds = {name: statistics.median(one[1:-1]) for name, one in times.items()}
    memory = {
        "gigabytes": items * float(np.prod(SHAPE)) / 1e9,
        "items": items,
        "seconds_to_open": opening,
        "peak_anonymous_megabytes": peak.most,
        "anonymous_megabytes_before": before,
        "page_cache_dropped": dropped,
        "seconds_to_read_a_batch_from_disk": cold,
    }
    base = seconds["resident"]
    rows = [
        {"data": name, "seconds_per_step": each, "ratio_to_resident": each / base} for name, each in seconds.items()
    ]
    tables = {"opening, and memory": [memory], "steps": rows}
    print(f"{torch.get_num_threads()} threads: {tables}")
    save(options, __file__, "Training on images larger than memory", tables, device=options.device, raw=times)


if __name__ == "__main__":
    main()
