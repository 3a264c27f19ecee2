"""`vs.runs.table`: rows of runs, filtered and sorted as plain Python would."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

import vaescope as vs
from vaescope.errors import ConfigurationError, UnknownNameError
from vaescope.models import Architecture
from vaescope.objectives import Beta
from vaescope.runs import Configuration, Run, Split
from vaescope.runs.queries import select_rows
from vaescope.runs.sealed import sealed
from vaescope.training import Member, Plan

DATA = {"name": "none", "items": 4, "shape": [5], "fingerprint": "0"}
ARCHITECTURE = Architecture(net="mlp", likelihood="gaussian")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    for latents in (1, 2, 3):
        for seed in range(4):
            member = Member(latents, Beta(2.0**seed), seed=seed)
            configuration = Configuration(DATA, Split(), ARCHITECTURE, Plan(3), member)
            (folder / configuration.id).mkdir()
            run = Run.create(folder / configuration.id, configuration)
            if seed:
                results = {"mig": {"values": {"mig": random.Random(f"{latents} {seed}").random()}}}
                (run.path / "results.json").write_text(json.dumps(sealed(results)))
    return folder


def test_every_run_is_a_row_by_id(folder: Path) -> None:
    rows = vs.runs.table(folder)
    assert [row["id"] for row in rows] == sorted(path.name for path in folder.iterdir())
    assert len(rows) == 12
    assert vs.runs.table(str(folder)) == rows


def test_a_folder_without_runs_has_no_rows(tmp_path: Path) -> None:
    assert vs.runs.table(tmp_path / "not there") == []
    assert vs.runs.table(tmp_path, where={"beta": 1}, sort="-loss", limit=3) == []


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ({"latents": 2}, lambda row: row["latents"] == 2),
        ({"latents": 2.0, "beta": 4}, lambda row: row["latents"] == 2 and row["beta"] == 4),
        ({"latents": [1, 3]}, lambda row: row["latents"] != 2),
        ({"seed": range(2)}, lambda row: row["seed"] < 2),
        ({"seed": {0, 3}, "status": "training"}, lambda row: row["seed"] in (0, 3)),
        ({"mig": None}, lambda row: row["seed"] == 0),
        ({"data": "no"}, lambda row: False),
        ({"latents": []}, lambda row: False),
        (lambda row: row["beta"] > row["latents"], lambda row: row["beta"] > row["latents"]),
    ],
)
def test_rows_are_filtered(where: Any, wanted: Any, folder: Path) -> None:
    rows = vs.runs.table(folder)
    assert vs.runs.table(folder, where=where) == [row for row in rows if wanted(row)]


def test_a_number_is_found_by_its_rounded_value() -> None:
    rows: list[dict[str, Any]] = [{"a": 0.1 * 3}, {"a": 0.3001}, {"a": 1e-300}, {"a": 2**62 - 1}, {"a": "0.3"}, {}]
    assert rows[0]["a"] != 0.3
    assert select_rows(rows, {"a": 0.3}) == rows[:1]
    assert select_rows(rows, {"a": ["0.3", 0.3]}) == [rows[0], rows[4]]
    assert select_rows(rows, {"a": 0}) == select_rows(rows, {"a": 2**62 - 2}) == []


def test_rows_are_sorted_and_those_without_a_value_come_last(folder: Path) -> None:
    rows = vs.runs.table(folder)
    there = [row for row in rows if "mig" in row]
    missing = [row for row in rows if "mig" not in row]
    assert len(missing) == 3
    ascending = sorted(there, key=lambda row: row["mig"])
    assert vs.runs.table(folder, sort="mig") == ascending + missing
    assert vs.runs.table(folder, sort="-mig") == ascending[::-1] + missing
    assert vs.runs.table(folder, sort="-mig", limit=4) == ascending[::-1][:4]


@pytest.mark.parametrize("sort", ["latents", "-latents"])
def test_equal_rows_stay_in_the_order_of_their_ids(sort: str, folder: Path) -> None:
    rows = vs.runs.table(folder, sort=sort)
    for latents in (1, 2, 3):
        ids = [row["id"] for row in rows if row["latents"] == latents]
        assert ids == sorted(ids)


def test_a_column_of_numbers_and_text_can_be_sorted() -> None:
    rows: list[dict[str, Any]] = [{"a": value} for value in ("b", 2, math.nan, None, "a", 1.5, math.inf)]
    assert [row["a"] for row in select_rows(rows, sort="a")][:5] == [1.5, 2, math.inf, "a", "b"]
    assert [row["a"] for row in select_rows(rows, sort="-a")][:5] == ["b", "a", math.inf, 2, 1.5]


@pytest.mark.parametrize("asked", [{"where": {"latnets": 2}}, {"sort": "latnets"}, {"sort": "-latnets"}])
def test_an_unknown_column_is_named_with_the_known_ones(asked: Any, folder: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"latents.*Did you mean 'la"):
        vs.runs.table(folder, **asked)


@pytest.mark.parametrize("limit", [0, -1, 1.5, True])
def test_a_limit_is_a_positive_whole_number(limit: Any, folder: Path) -> None:
    with pytest.raises(ConfigurationError, match="limit"):
        vs.runs.table(folder, limit=limit)


def test_a_filter_of_another_type_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigurationError, match="where"):
        vs.runs.table(folder, where="latents=2")  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [[8, 4], (8, 4), [[8, 4]], "[8, 4]", "[8,4]", ["[8,4]", "[1]"]])
def test_settings_that_are_lists_can_be_given_as_lists_or_as_text(value: Any) -> None:
    rows = [{"widths": "[8, 4]"}, {"widths": "[4, 8]"}, {"widths": None}]
    assert select_rows(rows, {"widths": value}) == rows[:1]


def test_several_lists_can_be_given() -> None:
    rows = [{"widths": "[8, 4]"}, {"widths": "[4, 8]"}, {"widths": "[4]"}]
    assert select_rows(rows, {"widths": [[8, 4], [4]]}) == [rows[0], rows[2]]


def test_sorting_by_several_columns_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"sort .*\['beta', 'seed'\]"):
        select_rows([{"beta": 1, "seed": 0}], sort=["beta", "seed"])  # type: ignore[arg-type]
