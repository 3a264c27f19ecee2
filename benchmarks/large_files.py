"""Seconds to open a large .npy file: the first time, again, and again without the kept fingerprint (as before)."""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np
from recorded import add_json, save

from vaescope.data import fingerprints, open_dataset
from vaescope.data.dataset import Dataset

SHAPE = (3, 64, 64)
BLOCK_ITEMS = 1024


def write_images(path: Path, size: int) -> None:
    """A .npy file of about `size` bytes, of blocks of random pixels and zeros."""
    items = size // np.prod(SHAPE)
    images = np.lib.format.open_memmap(path, "w+", np.uint8, (int(items), *SHAPE))
    block = np.random.default_rng(0).integers(0, 256, (BLOCK_ITEMS, *SHAPE), dtype=np.uint8)
    for start in range(0, len(images), 8 * BLOCK_ITEMS):
        images[start : start + BLOCK_ITEMS] = block[: len(images) - start]
    images.flush()


def timed(path: Path) -> tuple[float, Dataset]:
    """The seconds to open the file, and the data set."""
    began = time.perf_counter()
    dataset = open_dataset(path)
    return time.perf_counter() - began, dataset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    add_json(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        os.environ["XDG_CACHE_HOME"] = temporary  # the user's own cache stays as it is
        path = Path(temporary) / "images.npy"
        write_images(path, int(options.gigabytes * 1e9))
        time.sleep(fingerprints.SETTLED_SECONDS + 0.5)  # a file that was just written is not trusted
        size = path.stat().st_size
        first, opened = timed(path)
        again, reopened = timed(path)
        kept = next(Path(temporary).rglob(fingerprints.FACTS_FILE))
        kept.unlink()
        before, _ = timed(path)
    assert opened.fingerprint == reopened.fingerprint
    found = {
        "gigabytes": size / 1e9,
        "first_seconds": first,
        "again_seconds": again,
        "again_seconds_without_kept_fingerprint": before,
    }
    print(found)
    save(options, __file__, "Opening a large .npy file", {"seconds to open": [found]})


if __name__ == "__main__":
    main()
