"""The variants of each kind of part, without importing them: built-in ones from `manifest.json`, plug-ins from
metadata.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from textwrap import wrap
from typing import TypedDict

MANIFEST_FILE = Path(__file__).with_name("manifest.json")
HELP_WIDTH = 78  # characters of a line that help on a terminal of 80 columns shows unbroken
# The kinds that the help of `fit` and the README describe variant by variant.
DESCRIBED_KINDS = ("model", "net", "objective", "posterior", "prior", "likelihood")

# Scanning the installed packages takes a while: once for all kinds.
_entry_points = cache(entry_points)


class VariantRow(TypedDict):
    """A variant in the manifest."""

    summary: str
    source: str
    options: dict[str, object]


class KindTable(TypedDict):
    """The variants of a kind in the manifest, and the entry-point group of its plug-ins (empty: it takes none)."""

    group: str
    variants: dict[str, VariantRow]


@dataclass(frozen=True)
class VariantInfo:
    """One line about a variant; `source` is a document, or the plug-in package that provides it as 'name version'."""

    name: str
    summary: str
    source: str = ""


def variants(kind: str) -> tuple[VariantInfo, ...]:
    """Every variant of a kind ('net', 'metric', 'data', ...), plug-ins last."""
    table = _manifest().get(kind, {"group": "", "variants": {}})
    ours = [VariantInfo(name, row["summary"], row["source"]) for name, row in table["variants"].items()]
    points = {point.name: point for point in _entry_points().select(group=table["group"])}
    plug_ins = [
        VariantInfo(name, "plug-in", f"{point.dist.name} {point.dist.version}" if point.dist else "")
        for name, point in sorted(points.items())
        if name not in table["variants"]
    ]
    return (*ours, *plug_ins)


def choices(kind: str, suffix: str = "") -> str:
    """The names of a kind for the help of an option: 'adam, amsgrad.'"""
    return ", ".join(variant.name for variant in variants(kind)) + f"{suffix}."


def listing() -> str:
    """A paragraph for each described kind and a line for each variant; the mark \\b keeps the lines as they are."""
    blocks = []
    for kind in DESCRIBED_KINDS:
        lines, known = ["\b", kind.capitalize()], variants(kind)
        width = max((len(variant.name) for variant in known), default=0)
        for variant in known:
            source = f" ({variant.source})" if variant.source else ""
            start = f"  {variant.name:<{width}}  "
            lines += wrap(f"{start}{variant.summary}{source}", HELP_WIDTH, subsequent_indent=" " * len(start))
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


@cache
def _manifest() -> dict[str, KindTable]:
    try:
        found: dict[str, KindTable] = json.loads(MANIFEST_FILE.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        # The command that rewrites the file, for instance after a merge conflict, also runs this code.
        return {}
    return found
