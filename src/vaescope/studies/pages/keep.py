"""Make `kept.json` from plans and kept results: `python -m vaescope.studies.pages.keep FOLDER`."""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vaescope.errors import VaescopeError
from vaescope.files import write_text
from vaescope.studies import kept
from vaescope.studies.pages.refresh import read_all
from vaescope.studies.results import JsonTable
from vaescope.studies.running import STUDIES, plan_pieces
from vaescope.studies.settings import StudySettings
from vaescope.terminal import print_line, printable


def settings_of(command: str) -> tuple[str, StudySettings]:
    """The study and the settings that a command names; the inverse of `StudySettings.command`."""
    words = shlex.split(command)[2:]
    options: dict[str, list[str]] = {}
    for name, value in zip(words[1::2], words[2::2], strict=True):
        options.setdefault(name, []).append(value)
    given: dict[str, Any] = {"data": tuple(options.get("--data", ()))}
    if "--seeds" in options:
        given["seeds"] = int(options["--seeds"][0])
    shares = dict(text.rpartition("=")[::2] for text in options.get("--share", ()))
    if shares:
        given["share"] = float(shares[""]) if "" in shares else {name: float(share) for name, share in shares.items()}
    return words[0], StudySettings(options["--scale"][0], **given)


def planned_cost(command: str, runs: Path) -> JsonTable:
    """Minutes of a command on one H200, from the reference times of its pieces, and the data that are absent."""
    name, chosen = settings_of(command)
    settings = StudySettings(
        chosen.scale, seeds=chosen.seeds, share=chosen.share, data=chosen.data, runs=runs, device="cuda"
    )
    plan = plan_pieces(STUDIES[name], settings)
    minutes = None if plan.lacks_data else round(plan.reference_minutes, 1)
    return {"minutes": minutes, "absent": list(plan.absent)}


def table(folder: str | Path, known: Mapping[str, JsonTable]) -> JsonTable:
    """The content of `kept.json`; `known` has costs that are taken over where data are absent now."""
    studies = list(read_all(folder).values())
    commands = {kept.command_in_full(name) for name in STUDIES}
    commands |= {command for plain in studies for command in plain["made_by"] if plain["scale"] == "paper"}
    costs: JsonTable = {}
    with tempfile.TemporaryDirectory() as runs:
        for command in sorted(commands):
            cost = planned_cost(command, Path(runs))
            fuller = command in known and len(known[command]["absent"]) < len(cost["absent"])
            costs[command] = known[command] if fuller else cost
    return {"commands": costs, "verdicts": verdicts(studies)}


def verdicts(studies: list[JsonTable]) -> JsonTable:
    """How many claims of each kept study have each verdict."""
    return {plain["study"]: dict(Counter(one["verdict"] for one in plain["claims"])) for plain in studies}


def main() -> None:
    """Write the file from the results in the folder that is named."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m vaescope.studies.pages.keep FOLDER")
    file = Path(kept.__file__).with_name(kept.FILE)
    known = json.loads(file.read_text(encoding="utf-8"))["commands"]
    try:
        made = table(sys.argv[1], known)
    except VaescopeError as error:
        sys.exit(printable(f"error: {error}"))
    write_text(file, f"{json.dumps(made, indent=1)}\n")
    print_line(str(file))


if __name__ == "__main__":
    main()
