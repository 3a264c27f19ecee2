"""Items that do not fit on an accelerator: those of the coming steps are read and copied while it computes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice

import torch
from jaxtyping import Int
from torch import Tensor

from vaescope.data.dataset import Dataset

READERS = 4  # threads
STEPS_AHEAD = 8  # that are read before they are needed, and that the device may be behind


class Feed:
    """The items of one step after another, as stored, on a device.

    To a CUDA device they are copied from pinned memory in a stream of its own, while the device computes.
    """

    def __init__(self, data: Dataset, device: torch.device) -> None:
        self.data, self.device = data, device
        self._copies = torch.cuda.Stream(device) if device.type == "cuda" else None

    def steps(self, indices: Int[Tensor, "steps *members batch"]) -> Iterator[Tensor]:
        """The stored items of each step; the device has to be given its work on them before the next are requested."""
        coming = iter(indices.flatten(1).cpu())
        running: deque[torch.cuda.Event] = deque()
        pool = ThreadPoolExecutor(READERS, "read items")
        try:
            reading = deque(pool.submit(self._read, index) for index in islice(coming, STEPS_AHEAD))
            while reading:
                rows = self._moved(reading.popleft())
                reading.extend(pool.submit(self._read, index) for index in islice(coming, 1))
                yield rows
                self._wait(running)
        finally:
            pool.shutdown(cancel_futures=True)

    def example(self, index: Int[Tensor, "items"]) -> Tensor:
        """The stored items of one step on the device, without threads."""
        return self.data.stored(index.cpu()).to(self.device)

    def _read(self, index: Int[Tensor, "items"]) -> Tensor:
        rows = self.data.stored(index)
        return rows if self._copies is None else rows.pin_memory()

    def _moved(self, read: Future[Tensor]) -> Tensor:
        """Rows on the device, where the work of the current stream on them starts after they have arrived."""
        rows = read.result()
        if self._copies is None:
            return rows.to(self.device)
        with torch.cuda.stream(self._copies):
            moved = rows.to(self.device, non_blocking=True)
        now = torch.cuda.current_stream(self.device)
        now.wait_stream(self._copies)
        moved.record_stream(now)  # so that its memory is not reused while the current stream reads it
        return moved

    def _wait(self, running: deque[torch.cuda.Event]) -> None:
        """Wait until the device is at most `STEPS_AHEAD` steps behind, so that few batches take its memory."""
        if self._copies is None:
            return
        done = torch.cuda.Event()
        done.record(torch.cuda.current_stream(self.device))
        running.append(done)
        if len(running) > STEPS_AHEAD:
            running.popleft().synchronize()
