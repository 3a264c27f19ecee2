"""One file over HTTP, with a progress bar."""

from __future__ import annotations

import sys
from pathlib import Path

from vaescope.progress import Report, progress_bar


def fetch(url: str, target: Path, title: str) -> None:
    """Writes what lies at `url` to `target`; the package pooch must be installed."""
    import pooch

    with progress_bar(title, 100) as report:
        pooch.HTTPDownloader(progressbar=_Meter(report))(url, str(target), None)


class _Meter:
    """Tells a progress bar in percent what pooch tells in bytes: pooch sets `total`, then calls these methods."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.total = 0
        self.done = 0

    def update(self, amount: int) -> None:
        # The last piece is announced whole, and a server need not say how much will come.
        self.done = min(self.done + amount, self.total or sys.maxsize)
        percent = 100 * self.done // self.total if self.total else 0
        self.report(percent, f"{self.done / 1e6:.1f} MB")

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        """Nothing: the bar ends with the block that shows it."""
