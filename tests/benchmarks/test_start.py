"""The benchmarks of the first step and of FONDUE run on a CPU with tiny settings."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def found(script: str, *words: str, folder: Path) -> dict[str, Any]:
    """The results of a benchmark in a process of its own."""
    file = folder / "results.json"
    command = [sys.executable, str(BENCHMARKS / f"{script}.py"), *words, "--json", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return json.loads(file.read_text())


@pytest.mark.slow
def test_programs_a_whole_fit_and_the_plain_loop_are_timed(tmp_path: Path) -> None:
    words = "--device cpu --net mlp --members 2 --steps 3 --rounds 1 --chunk 2".split()  # noqa: SIM905
    programs, fits = found("first_step", *words, folder=tmp_path)["tables"].values()
    assert [(row["members"], row["program"]) for row in programs] == [(2, "captured")]
    assert all(row["ready"] > 0 and row["milliseconds per model-step"] > 0 for row in programs)
    assert [(row["loop"], row["process"]) for row in fits] == [
        ("vs.fit, chosen", "fresh"),
        ("vs.fit, chosen", "initialised"),
        ("plain DataLoader + eager loop", "fresh"),
    ]
    assert not any(row.get("compiled") for row in fits)
    assert all(row["all"] == row["import"] + row["fit"] > 0 for row in fits)


@pytest.mark.slow
def test_programs_are_timed_in_one_process(tmp_path: Path) -> None:
    words = "2,captured --device cpu --data digits --net mlp --precision float32 --rounds 1 --chunk 2".split()  # noqa: SIM905
    (row,) = found("programs", *words, folder=tmp_path)["tables"]["programs"]
    assert (row["members"], row["program"]) == (2, "captured")
    assert row["first step, seconds"] > 0
    assert row["milliseconds per model-step"] > 0


@pytest.mark.slow
def test_a_search_says_where_its_time_goes(tmp_path: Path) -> None:
    words = "one --data digits --period 5 --precision float32 --search interpolate".split()  # noqa: SIM905
    tables = found("fondue", *words, folder=tmp_path)["tables"]
    times = {row["part"]: row["seconds"] for row in tables["where the time of 1 seed goes"]}
    parts = {"import", "data", "dimension", "model and trial step", "training", "reading gaps", "rest", "all"}
    assert parts < times.keys()
    assert all(times[part] > 0 for part in parts - {"rest"})
    assert times["tracing, compiling and capturing"] == 0  # on a CPU there is no program
    assert sum(seconds for part, seconds in times.items() if part != "all") == pytest.approx(times["all"])
    (answer,) = tables["answers"]
    assert answer["search"] == "interpolate"
    assert answer["model-steps"] > 0
