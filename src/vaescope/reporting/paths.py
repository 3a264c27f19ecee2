"""Paths on a page that may be shared: relative to the working folder, or only a name; never absolute."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from pathlib import Path

from vaescope.data.sources import flags_of
from vaescope.runs import Run


def without_folders(text: str, runs: Iterable[Run | None]) -> str:
    """A page in which the paths of runs and of their data do not tell where they are."""
    known = {path for run in runs if run is not None for path in _paths(run)}
    # The longest first: the folder of a run before the folder that contains it.
    for path in sorted(known, key=lambda one: -len(str(one))):
        for written in {html.escape(str(path)), str(path)}:
            # Whole words only: a short path may occur in a tag or in encoded data.
            pattern = rf"(?<![\w<+/]){re.escape(written)}(?![\w+=-])"
            text = re.sub(pattern, html.escape(shown_path(path)).replace("\\", r"\\"), text)
    return text


def shown_path(path: Path) -> str:
    """A path relative to the working folder, or its name if it is elsewhere."""
    folder = Path.cwd()
    return str(path.relative_to(folder)) if path.is_relative_to(folder) else path.name


def _paths(run: Run) -> Iterable[Path]:
    """The absolute paths that the page may name."""
    source = run.provenance.source
    words = [str(run.path), str(run.path.parent), run.configuration.data["name"], *flags_of(source)]
    return [path for path in map(Path, words) if path.is_absolute()]
