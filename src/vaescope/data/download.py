"""Downloading one file over HTTP, with a progress bar."""

from __future__ import annotations

import sys
from pathlib import Path

from vaescope.progress import ProgressReport, progress_bar


def fetch(url: str, target: Path, title: str) -> None:
    """Download `url` to `target`; the package pooch must be installed."""
    import pooch

    with progress_bar(title, 100) as report:
        pooch.HTTPDownloader(progressbar=_PercentMeter(report))(url, str(target), None)


class _PercentMeter:
    """Converts the bytes that pooch reports to the percents of a progress bar; pooch sets `total` itself."""

    def __init__(self, report: ProgressReport) -> None:
        self.report = report
        self.total = 0
        self.done = 0

    def update(self, amount: int) -> None:
        # The last block is reported in full size, and a server may not say how many bytes it will send.
        self.done = min(self.done + amount, self.total or sys.maxsize)
        percent = 100 * self.done // self.total if self.total else 0
        self.report(percent, f"{self.done / 1e6:.1f} MB")

    def reset(self) -> None:
        self.done = 0

    def close(self) -> None:
        """Do nothing: the progress bar ends with its block."""
