"""RESULTS.md is what the raw output gives, and every benchmark writes that output in one form."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
# Modules that benchmarks import, the page itself, and a worker of another environment.
NO_BENCHMARKS = {"recorded", "results", "plain", "peer_pythae"}
SCRIPTS = sorted(path for path in BENCHMARKS.glob("*.py") if path.stem not in NO_BENCHMARKS)
FILES = sorted((BENCHMARKS / "results").glob("*.json"))


@pytest.fixture(autouse=True)
def own_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)


@pytest.fixture
def results() -> dict[str, Any]:
    return runpy.run_path(str(BENCHMARKS / "results.py"))


def test_the_page_is_current(results: dict[str, Any]) -> None:
    assert results["page"]() == results["PAGE"].read_text(encoding="utf-8")


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_raw_output_has_the_common_form_and_its_script_exists(file: Path, results: dict[str, Any]) -> None:
    found = json.loads(file.read_text(encoding="utf-8"))
    results["check"](found)
    assert (BENCHMARKS.parent / found["script"]).exists()
    assert found["date"] or found["origin"] == results["TRANSCRIBED"]
    assert all(rows for rows in found["tables"].values())


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_every_benchmark_writes_json_and_has_a_section(script: Path, results: dict[str, Any]) -> None:
    text = script.read_text(encoding="utf-8")
    assert '"--json"' in text or "add_json(" in text
    assert "save(" in text
    if script.stem != "files_crossed":
        assert any(script.stem in scripts for scripts in results["SECTIONS"].values())


def test_other_forms_are_refused(results: dict[str, Any]) -> None:
    found = json.loads(FILES[0].read_text(encoding="utf-8"))
    with pytest.raises(ValueError, match="origin must be"):
        results["check"]({**found, "origin": "guessed"})
    with pytest.raises(ValueError, match="a cell must be plain"):
        results["check"]({**found, "tables": {"a table": [{"cell": {"nested": 1}}]}})
    with pytest.raises(ValueError, match="must have the keys"):
        results["check"]({"title": "no more"})


def test_a_table_has_every_column_once_and_readable_numbers(results: dict[str, Any]) -> None:
    rows = [{"a_b": 12345, "c": True}, {"c": 0.000123456, "d": [1, 2.5], "a_b": None}]
    assert results["_table"](rows).splitlines() == [
        "| a b | c | d |",
        "| --- | --- | --- |",
        "| 12,345 | yes |  |",
        "|  | 0.0001235 | 1, 2.5 |",
    ]
