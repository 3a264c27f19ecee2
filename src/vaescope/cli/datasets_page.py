"""The page of public data sets in the documentation, written from the registry by `python -m vaescope.cli.manifest`."""

from __future__ import annotations

import re
from collections.abc import Sequence

INTRODUCTION = """\
# Public data sets

This page is written from the registry by `python -m vaescope.cli.manifest`. `vaescope datasets NAME` prints the same
facts, and where the files are on your machine.

A public data set is looked for in `$VAESCOPE_DATA/NAME/`, then in `$VAESCOPE_DATA/`, then in the user cache. If it is
nowhere, the files with a link and a checksum are downloaded into the user cache; put the others into
`$VAESCOPE_DATA/NAME/`. Files whose checksum is known are verified each time they are opened. The checksum of a
compressed file may be that of its content, which is the same for every mirror: `gzip -dc FILE | sha256sum`.
"""


def datasets_page() -> str:
    """The page, with a list of all data sets and a section for each public one."""
    from vaescope.data import DATASETS
    from vaescope.data.facts import DatasetFacts, facts_about
    from vaescope.data.public import ENTRIES

    def section(facts: DatasetFacts) -> str:
        files = facts.file_rows()
        parts = [
            f"## {facts.name}",
            f"{facts.summary[0].upper()}{facts.summary[1:]}.",
            *facts.description,
            _table(("", ""), facts.rows()),
            *([_table(tuple(files[0]), [tuple(row.values()) for row in files])] if files else []),
            f'`vaescope fit {facts.name}`, or `vs.open_dataset("{facts.name}")` in Python.',
        ]
        return "\n\n".join(parts)

    everything = [facts_about(entry) for _, entry in sorted(DATASETS.items())]
    rows = [(f"`{one.name}`", one.summary, f"{one.items:,}", " x ".join(map(str, one.shape))) for one in everything]
    sections = [section(facts_about(entry)) for entry in sorted(ENTRIES, key=lambda entry: entry.name)]
    return "\n\n".join([INTRODUCTION.strip(), _table(("name", "what it is", "items", "shape"), rows), *sections]) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    escaped = [[re.sub(r"[|$]", r"\\\g<0>", cell) for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ["---"] * len(head), *escaped])
