"""Write RESULTS.md from the raw output of the benchmarks in results/; with --check, only say whether it is current."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from recorded import TRANSCRIBED, Row, check

HERE = Path(__file__).parent
RAW, PAGE = HERE / "results", HERE / "RESULTS.md"
START = """# Results

`python benchmarks/results.py` writes this page from the raw output of benchmarks in `benchmarks/results`; `make lint`
checks that it is current, and `make bench` measures again. Contenders of one table run in one process or take turns on
one machine, so compare ratios: absolute times vary with the machine and its load. A ratio says how many times as long
the other one takes. Reproduced tables and figures of papers are in `docs/studies`, each with its numbers as JSON.
"""
SECTIONS = {
    "Training": ("training", "first_step", "programs", "nets", "stacking", "monitor", "streaming", "sparsity_nets"),
    "Choosing the number of latents": ("fondue", "search", "factory_sizes", "counts", "dimension"),
    "Metrics and similarity": ("metrics", "similarity", "memory", "variable_types"),
    "Data, runs and reports": ("large_files", "sparse_memory", "store", "report", "frames", "import_time"),
    "Robustness": ("attack",),
}
DIGITS = 4  # significant ones of a number in a table
MAX_NAMED = 40  # characters of a setting that is shown


def page() -> str:
    """The whole page."""
    found = {file.name: _read(file) for file in sorted(RAW.glob("*.json"))}
    parts = [START]
    for section, scripts in SECTIONS.items():
        own = [(name, one) for script in scripts for name, one in found.items() if _stem(one) == script]
        if own:
            parts += [f"## {section}\n", *(text for name, one in own for text in _entry(name, one))]
    known = {script for scripts in SECTIONS.values() for script in scripts}
    if others := [name for name, one in found.items() if _stem(one) not in known]:
        raise ValueError(f"the scripts of {', '.join(others)} belong to no section; add them to SECTIONS.")
    return "\n".join(parts)


def _read(file: Path) -> Row:
    found: Row = json.loads(file.read_text(encoding="utf-8"))
    try:
        check(found)
    except ValueError as error:
        raise ValueError(f"{file.name}: {error}") from None
    return found


def _stem(found: Row) -> str:
    return Path(found["script"]).stem


def _entry(name: str, found: Row) -> Iterator[str]:
    """The part of one file."""
    yield f"### {found['title']}\n"
    machine = {key: value for key, value in found["machine"].items() if value is not None}
    words = [str(machine.pop("device", "")), *(f"{key} {value}" for key, value in machine.items())]
    origin = f" Transcribed from an earlier report; the raw output was not kept: `results/{name}`."
    source = origin if found["origin"] == TRANSCRIBED else f" Raw output: `results/{name}`."
    yield f"`{found['script']}`, {found['date'] or 'date not recorded'}, {', '.join(words)}.{source}\n"
    settings = {key: value for key, value in found["settings"].items() if len(str(value)) <= MAX_NAMED}
    if settings:
        yield f"Settings: {', '.join(f'{key} {_cell(value)}' for key, value in settings.items())}.\n"
    yield from (f"{note}\n" for note in found["notes"])
    for caption, rows in found["tables"].items():
        if len(found["tables"]) > 1:
            yield f"**{caption}**\n"
        yield _table(rows)


def _table(rows: Sequence[Row]) -> str:
    """Rows as a table of markdown; columns in the order in which they first occur."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    heads = [name.replace("_", " ") for name in names]
    lines = [heads, ["---"] * len(names), *([_cell(row.get(name)) for name in names] for row in rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.{DIGITS}g}" if abs(value) < 10**DIGITS else f"{value:,.0f}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        return ", ".join(map(_cell, value))
    return str(value).replace("|", "\\|").replace("\n", " ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit with 1 if the page is not current")
    text = page()
    if not parser.parse_args().check:
        PAGE.write_text(text, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != text:
        sys.exit(f"{PAGE} must be what `python benchmarks/results.py` writes, but it is not. Run that.")


if __name__ == "__main__":
    main()
