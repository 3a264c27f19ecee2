"""The files to attack: small data files of every kind, and a store that holds a run of every status.

Everything is written into the current folder under fixed names, so that equal seeds mutate equal bytes.
"""

from __future__ import annotations

import io
import json
import shutil
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from PIL import Image

import vaescope as vs
from vaescope.errors import BusyError, NonFiniteError
from vaescope.runs import FitOptions, MeasurementSpec, Run, fit, fit_many, measure
from vaescope.training import Member, Trainer

DATA, STORE = Path("data.npz"), Path("runs")
NET = {"name": "mlp", "encoder_widths": [8], "decoder_widths": [8]}
STEPS = 30
SEEDS = {"complete": 0, "other": 1, "interrupted": 2, "failed": 3}
ENSEMBLE = (4, 5)
MEMORY_BYTES = 2**29  # that attacked files may need

SWEEP = b"""# A sweep over strengths
[data]
name = "data.npz"

[model]
latents = 3
net = {name = "mlp", encoder_widths = [8], decoder_widths = [8]}

[objective]
name = "beta"

[training]
steps = 20
batch = 16
learning_rate = 1e-3
held_out = 0.1

[grid]
"objective.beta" = [1, 2.5]
seed = [0, 1]

[measure]
metrics = ["mig"]
items = 50
"""
CSV = b"""height,weight,"the, class"
1.5,2e3,cat
-0.25,17,dog
3,4,cat
1e-3,5,dog
"""
NUMBERS = b"".join(b"%d;%d.5;-%d\n" % (row, row, row * row) for row in range(12))
CODES = b"mean_0,mean_1,variance_0,variance_1,labels\n" + b"".join(
    b"0.%d,-1.%d,1.0,0.0%d,%d\n" % (row, row, row + 1, row % 2) for row in range(9)
)


def memory() -> Path | None:
    """A folder of files in memory, which are written ten times faster than to a disk; None if there is none."""
    folder = Path("/dev/shm")  # noqa: S108 - new folders with random names are made in it
    return folder if folder.is_dir() and shutil.disk_usage(folder).free > MEMORY_BYTES else None


def write_data() -> None:
    """The data of all runs: 60 items of 6 columns, with two factors."""
    generator = np.random.default_rng(0)
    factors = generator.integers(0, 3, size=(60, 2))
    x = factors @ generator.normal(size=(2, 6)) + 0.1 * generator.normal(size=(60, 6))
    np.savez(DATA, x=x, factors=factors)


def arrays() -> list[bytes]:
    """Arrays as .npy files: numbers, images, other byte orders, types and layouts."""
    generator = np.random.default_rng(1)
    numbers = generator.normal(size=(12, 5))
    found = [
        numbers,
        generator.integers(0, 255, size=(10, 6, 6), dtype=np.uint8),
        np.asfortranarray(numbers.astype(np.float32)),
        numbers.astype(">f8"),
        generator.integers(0, 2, size=(9, 4)).astype(bool),
    ]
    return [_written(np.save, array) for array in found]


def archives() -> list[bytes]:
    """Archives of arrays: items alone, and compressed with labels and factors."""
    generator = np.random.default_rng(2)
    numbers, labels = generator.normal(size=(12, 5)), generator.integers(0, 3, size=12)
    factors = generator.integers(0, 3, size=(12, 2))
    return [
        _written(np.savez, images=numbers),
        _written(np.savez_compressed, x=numbers, labels=labels, factors=factors),
    ]


def code_archives() -> list[bytes]:
    """Archives of codes: with variances, and with their logarithms, a sample and labels."""
    mean = np.random.default_rng(5).normal(size=(12, 3))
    return [
        _written(np.savez, mean=mean, variance=np.exp(mean)),
        _written(np.savez_compressed, mean=mean, log_variance=mean, sample=mean, labels=np.arange(12) % 3),
    ]


def pictures(form: str) -> list[bytes]:
    """Small images in every mode of a format."""
    generator = np.random.default_rng(3)
    pixels = generator.integers(0, 255, size=(12, 10, 4), dtype=np.uint8)
    images = [Image.fromarray(pixels[..., 0]), Image.fromarray(pixels[..., :3])]
    if form == "JPEG":
        sideways = Image.Exif()
        sideways[0x0112] = 6
        return [
            _written(image.save, form, **options)
            for image, options in zip(images, ({"exif": sideways}, {"progressive": True}), strict=True)
        ]
    images += [Image.fromarray(pixels), images[1].quantize(4), images[0].convert("1")]
    images.append(Image.fromarray(pixels[..., 0].astype(np.uint16) * 200))
    return [_written(image.save, form) for image in images]


def idx_files() -> list[bytes]:
    """Files in the format of MNIST: images and labels."""
    pixels = np.random.default_rng(4).integers(0, 255, size=(5, 4, 4), dtype=np.uint8)
    sizes = b"".join(size.to_bytes(4, "big") for size in pixels.shape)
    return [b"\x00\x00\x08\x03" + sizes + pixels.tobytes(), b"\x00\x00\x08\x01\x00\x00\x00\x05\x01\x02\x03\x04\x05"]


def shards() -> list[bytes]:
    """A tar archive of images with labels and factors."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as archive:
        for place, pixels in enumerate(np.random.default_rng(5).integers(0, 255, (4, 5, 5), np.uint8)):
            members = {
                "png": _written(Image.fromarray(pixels).save, "PNG"),
                "cls": b"cat" if place % 2 else b"dog",
                "json": json.dumps({"scale": place, "shape": "disk"}).encode(),
            }
            for suffix, member in members.items():
                entry = tarfile.TarInfo(f"{place:03}.{suffix}")
                entry.size = len(member)
                archive.addfile(entry, io.BytesIO(member))
    return [content.getvalue()]


def tables() -> list[bytes]:
    """Parquet files: numbers with a column of words, and images."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    generator = np.random.default_rng(6)
    words = pa.table({"a": generator.normal(size=9), "b": np.arange(9), "kind": ["cat", "dog", "emu"] * 3})
    images = pa.table({"image": [{"bytes": one, "path": None} for one in pictures("PNG")[:2]], "label": [0, 1]})
    return [_written(partial(pq.write_table, table)) for table in (words, images)]


def cell_files() -> list[bytes]:
    """An .h5ad file of sparse counts, with another layer and a column of words."""
    import anndata

    counts = scipy.sparse.csr_matrix(np.random.default_rng(7).poisson(0.5, (8, 5)).astype(np.float32))
    cells = anndata.AnnData(counts, layers={"counts": counts.copy()})
    cells.obs["kind"] = ["cat", "dog"] * 4
    with tempfile.TemporaryDirectory() as folder:
        cells.write_h5ad(Path(folder, "cells.h5ad"))
        return [Path(folder, "cells.h5ad").read_bytes()]


def train(status: str, runs: Path = STORE) -> Run:
    """The run of this status; the same call resumes or reuses it."""
    return train_seed(SEEDS[status], runs, learning_rate=1e30 if status == "failed" else 1e-2)


def train_seed(seed: int, runs: Path = STORE, learning_rate: float = 1e-2, checkpoint_seconds: float = 20.0) -> Run:
    """A short training."""
    return fit(
        str(DATA),
        3,
        net=NET,
        steps=STEPS,
        batch=16,
        log_every=5,
        evaluate_every=10,
        monitor_every=10,
        learning_rate=learning_rate,
        seed=seed,
        checkpoint_seconds=checkpoint_seconds,
        runs=runs,
        device="cpu",
        progress=False,
    )


def train_if_free(seed: int) -> None:
    """Train a run, unless another process is training it."""
    with suppress(BusyError):
        train_seed(seed)


def train_ensemble(runs: Path = STORE) -> list[Run]:
    """Two runs that train together; the same call resumes or reuses them."""
    options = FitOptions(net=NET, steps=STEPS, batch=16, log_every=5, evaluate_every=10, runs=runs, device="cpu")
    return fit_many(str(DATA), [Member(3, seed=seed, learning_rate=1e-2) for seed in ENSEMBLE], options)


def search(runs: Path = STORE) -> vs.sizing.Fondue:
    """A short search for the number of latents; the same call reuses its measurements."""
    return vs.fondue(
        str(DATA),
        init=2,
        seeds=1,
        largest=3,
        period=20,
        max_periods=2,
        probe_items=50,
        net=NET,
        runs=runs,
        device="cpu",
    )


def write_store(runs: Path = STORE) -> dict[str, str]:
    """Write a store with two complete runs, of which one is measured, one failed, one interrupted, an interrupted
    ensemble, and a search; returns the ids of runs by status.
    """
    with pytest.MonkeyPatch.context() as patch:
        # Durations are the only numbers of a store that differ from one time to the next.
        patch.setattr(time, "monotonic", lambda: 0.0)
        complete = train("complete", runs)
        measure(complete, MeasurementSpec(("mig",), items=50))
        ids = {"complete": complete.id, "other": train("other", runs).id}
        with interrupted_after(3):
            _interrupt(lambda: train("interrupted", runs))
            _interrupt(lambda: train_ensemble(runs))
        with suppress(NonFiniteError):
            train("failed", runs)
        search(runs)
    for path in runs.glob("[!.]*/run.json"):
        run = Run.open(path.parent)
        seed = run.configuration.member.seed
        ids |= {status: run.id for status, own in SEEDS.items() if own == seed}
    return ids


@contextmanager
def interrupted_after(calls: int) -> Iterator[None]:
    """Every training inside the block is interrupted after this many rows of its history."""
    advance = Trainer.advance
    done: dict[int, int] = {}

    def interrupted(trainer: Trainer) -> Any:
        done[id(trainer)] = done.get(id(trainer), 0) + 1
        if done[id(trainer)] > calls:
            raise KeyboardInterrupt
        return advance(trainer)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "advance", interrupted)
        yield


def _interrupt(training: Callable[[], object]) -> None:
    with suppress(KeyboardInterrupt):
        training()


def _written(write: Callable[..., object], *arguments: Any, **options: Any) -> bytes:
    """The bytes that a function writes to the file given as its first argument."""
    file = io.BytesIO()
    write(file, *arguments, **options)
    return file.getvalue()
