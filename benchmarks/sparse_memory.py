"""Peak resident memory of training on a large sparse matrix of counts, opened and fitted in a process of its own."""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time

from recorded import add_json, save

LIMIT = 1.5e9  # bytes
CHUNK = 10_000  # rows that are drawn at once


def peak() -> int:
    """The largest resident memory of this process so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(rows: int, columns: int, share: float, steps: int) -> dict[str, object]:
    """Build the matrix, open it and train; processor seconds of each, and the peak of memory after each."""
    import numpy as np
    import torch
    from scipy import sparse

    import vaescope as vs

    torch.set_num_threads(1)
    stored = round(columns * share)
    draw, width = np.random.default_rng(0), columns // stored
    found: dict[str, object] = {"dense": 4 * rows * columns}

    def finish(what: str, began: float) -> float:
        found[f"{what} seconds"], found[f"{what} peak"] = round(time.process_time() - began, 2), peak()
        return time.process_time()

    began = finish("import", time.process_time())
    values, places = np.empty((rows, stored), np.float32), np.empty((rows, stored), np.int32)
    first = np.arange(0, stored * width, width, dtype=np.int32)
    for start in range(0, rows, CHUNK):
        part = slice(start, min(start + CHUNK, rows))
        shape = places[part].shape
        places[part] = first + draw.integers(0, width, shape, dtype=np.int32)
        values[part] = draw.geometric(0.3, shape)
    starts = np.arange(0, rows * stored + 1, stored, dtype=np.int32)
    matrix = sparse.csr_array((values.ravel(), places.ravel(), starts), shape=(rows, columns))
    began = finish("build", began)
    data = vs.open_dataset(matrix)
    began = finish("open", began)
    with tempfile.TemporaryDirectory() as folder:
        vs.fit(data, 10, steps=steps, runs=folder, device="cpu", progress=False)
    finish("fit", began)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--columns", type=int, default=2000)
    parser.add_argument("--share", type=float, default=0.05)
    parser.add_argument("--steps", type=int, default=50)
    add_json(parser)
    options = parser.parse_args()
    given = {name: value for name, value in vars(options).items() if name != "json"}
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply(measure, kwds=given)
    print(found)
    notes = ["`dense` is the size of the matrix as a dense one in float32; peaks are of the whole process so far."]
    save(options, __file__, "Memory of training on a sparse matrix", {"bytes and seconds": [found]}, notes=notes)
    assert found["fit peak"] < LIMIT, f"the peak must be below {LIMIT / 1e9} GB"


if __name__ == "__main__":
    main()
