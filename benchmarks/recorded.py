"""The common form of the results of all benchmarks: one JSON file with the machine, the settings and tables of rows.

title     what was measured
script    the script that measured it, relative to the repository
date      of the measurement
origin    'measured', or that the numbers were transcribed from an earlier report
machine   device, threads, and versions of torch and Python
settings  the script's arguments and constants
notes     sentences that the numbers cannot say
tables    rows by caption; a cell is a number, a text, a truth value or a list of these
raw       anything else, such as the single times behind a median
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vaescope.files import write_text

MEASURED = "measured"
TRANSCRIBED = "transcribed from an earlier report, raw output not kept"
KEYS = ("title", "script", "date", "origin", "machine", "settings", "notes", "tables", "raw")

Row = dict[str, Any]


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option that all benchmarks share."""
    parser.add_argument("--json", help="also write the results to this file, which results.py shows")


def machine(device: str = "cpu") -> Row:
    """What the numbers depend on in addition to the settings."""
    name = torch.cuda.get_device_name() if device.startswith("cuda") else f"{platform.machine()} CPU"
    versions = {"torch": torch.__version__, "python": platform.python_version()}
    return {"device": name, "threads": torch.get_num_threads(), **versions}


def save(
    given: argparse.Namespace,
    script: str,
    title: str,
    tables: Mapping[str, Sequence[Row]],
    *,
    device: str = "cpu",
    settings: Mapping[str, object] | None = None,
    notes: Sequence[str] = (),
    raw: object = None,
) -> Row:
    """The results in the common form, written to the file that `--json` names.

    Args:
        given: The arguments of the script.
        script: Its `__file__`.
        settings: Constants of the script that the numbers depend on.
    """
    arguments = {name: value for name, value in vars(given).items() if name not in ("json", "worker")}
    found = {
        "title": title,
        "script": f"benchmarks/{Path(script).name}",
        "date": datetime.date.today().isoformat(),
        "origin": MEASURED,
        "machine": machine(device),
        "settings": {**arguments, **(settings or {})},
        "notes": list(notes),
        "tables": {caption: list(rows) for caption, rows in tables.items()},
        "raw": raw,
    }
    plain: Row = json.loads(json.dumps(found, default=_plain))
    check(plain)
    if given.json:
        write_text(Path(given.json), json.dumps(plain, indent=1, ensure_ascii=False) + "\n")
    return plain


def _plain(value: object) -> object:
    """A number of numpy or torch as Python's; text for anything else."""
    return value.item() if isinstance(value, np.generic | torch.Tensor) else str(value)


def check(found: Row) -> None:
    """Raise an error unless results have the common form."""
    if tuple(found) != KEYS:
        raise ValueError(f"results must have the keys {', '.join(KEYS)}, got {', '.join(found)}.")
    if found["origin"] not in (MEASURED, TRANSCRIBED):
        raise ValueError(f"origin must be {MEASURED!r} or {TRANSCRIBED!r}, got {found['origin']!r}.")
    for caption, rows in found["tables"].items():
        for row in rows:
            for name, cell in row.items():
                cells = cell if isinstance(cell, list) else [cell]
                if any(isinstance(one, dict | list) for one in cells):
                    raise ValueError(f"a cell must be plain or a list of plain values, got {name} in {caption!r}.")
