"""Progress in a notebook: one bar that is updated in place, without lines that repeat."""

from __future__ import annotations

import sys
import time
from typing import Any

from vaescope.markup import Markup, element

UPDATE_SECONDS = 0.2  # between two updates, so that they do not slow down the work


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook, which displays HTML."""
    shell = sys.modules.get("IPython")
    kernel = None if shell is None else shell.get_ipython()
    return kernel is not None and type(kernel).__name__ == "ZMQInteractiveShell"


class NotebookBar:
    """A bar in the output of the cell that runs; `finish` leaves its last state."""

    def __init__(self, title: str, total: int | None, unit: str = "") -> None:
        from IPython.display import HTML, display

        self._html: Any = HTML
        self.title, self.total, self.unit = title, total, unit
        self._done, self._words = 0, ""
        self._began = self._shown = time.monotonic()
        self._display = display(self._html(self._bar()), display_id=True)

    def __call__(self, done: int, words: str = "", total: int | None = None) -> None:
        self._done, self._words = done, words
        self.total = self.total if total is None else total
        if time.monotonic() - self._shown >= UPDATE_SECONDS:
            self._show()

    def finish(self, stopped: bool) -> None:
        """Show the last state, and whether the work ended early."""
        self._show("stopped" if stopped else f"{time.monotonic() - self._began:.1f} s")

    def _show(self, ending: str = "") -> None:
        self._shown = time.monotonic()
        self._display.update(self._html(self._bar(ending)))

    def _bar(self, ending: str = "") -> Markup:
        """The title, the bar, the count, a few words, and how it ended."""
        count = f"{self._done:,}" if self.total is None else f"{self._done:,} / {self.total:,}"
        texts = [f"{count} {self.unit}".rstrip(), self._words, ending]
        # Without a value, the browser shows that the end is not known.
        known = self.total is not None or bool(ending)
        value = {"value": self._done, "max": max(1, self.total or self._done)} if known else {}
        return element(
            "div",
            element("span", self.title, style="font-weight:600"),
            element("progress", aria_label=self.title, style="width:14em", **value),
            element("span", " · ".join(text for text in texts if text)),
            style="display:flex;gap:0.75em;align-items:center;font-family:system-ui,sans-serif",
        )
