"""Histories in SQL, whatever state the files are in, and rows as Parquet."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import duckdb
import pytest

from vaescope.errors import ConfigurationError, RunError
from vaescope.models import Architecture
from vaescope.runs import Configuration, Run, Split, Store
from vaescope.runs.queries import query, write_parquet
from vaescope.training import Member, Plan

DATA = {"name": "2024-11-15", "items": 4, "shape": [5], "fingerprint": "0"}
ARCHITECTURE = Architecture(net="mlp", likelihood="gaussian")
HISTORIES: list[list[dict[str, Any]]] = [
    [{"step": 1, "split": "train", "loss": 1}, {"step": 2, "split": "train", "loss": 2.5}],
    [{"step": 1, "split": "probe", "active": 2, "types": "aapm", "correlations": [0.5, 0.25]}],
    [],
    [{"step": 1, "split": "train", "loss": math.nan, "capacity": math.inf}],
]


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    """Runs in training, by seed, in a folder whose name is a pattern."""
    folder, made = tmp_path / "it's [a] *", []
    for seed, history in enumerate(HISTORIES):
        configuration = Configuration(DATA, Split(), ARCHITECTURE, Plan(9), Member(2, seed=seed))
        path = folder / configuration.id
        path.mkdir(parents=True)
        made.append(Run.create(path, configuration))
        (path / "history.jsonl").write_text("".join(json.dumps(row) + "\n" for row in history))
    return made


def asked(runs: list[Run], sql: str) -> list[tuple[Any, ...]]:
    return query(runs[0].path.parent, sql)[1]


def test_every_column_of_every_history_is_in_the_table(runs: list[Run]) -> None:
    names, rows = query(runs[0].path.parent, "SELECT * FROM history")
    found = [{name: value for name, value in zip(names, row, strict=True) if value is not None} for row in rows]
    expected = [{"run": run.id, **row} for run in sorted(runs, key=lambda run: run.id) for row in run.history]
    assert json.dumps(found, sort_keys=True) == json.dumps(expected, sort_keys=True).replace(
        '"loss": 1,', '"loss": 1.0,'
    )


def test_histories_are_joined_with_their_runs(runs: list[Run]) -> None:
    sql = "SELECT seed, count(h.step) FROM runs LEFT JOIN HISTORY h ON h.run = runs.id GROUP BY seed ORDER BY seed"
    assert asked(runs, sql) == [(0, 2), (1, 1), (2, 0), (3, 1)]


def test_text_stays_text_and_numbers_stay_numbers(runs: list[Run]) -> None:
    ((data, seed, rate),) = asked(runs, "SELECT DISTINCT typeof(data), typeof(seed), typeof(learning_rate) FROM runs")
    assert (data, seed, rate) == ("VARCHAR", "BIGINT", "DOUBLE")
    assert asked(runs, "SELECT DISTINCT data FROM runs") == [("2024-11-15",)]


@pytest.mark.parametrize("rest", [b'{"step": 3, "spl', b"{", b'{"step": 3, "split": "train", "loss": 1.0}'])
def test_an_incomplete_last_line_is_not_a_row(rest: bytes, runs: list[Run]) -> None:
    before = asked(runs, "SELECT run, step FROM history")
    for run in runs:
        with (run.path / "history.jsonl").open("ab") as file:
            file.write(rest)
    assert asked(runs, "SELECT run, step FROM history") == before


def test_other_valid_json_lines_are_read(runs: list[Run]) -> None:
    (runs[2].path / "history.jsonl").write_text(' { "step": 7,"split":"test"}\n\t{"split":"test", "step": 8}\n')
    rows = asked(runs, f"SELECT step FROM history WHERE run = '{runs[2].id}' ORDER BY step")
    assert rows == [(7,), (8,)]


@pytest.mark.parametrize("line", ["garbage", "3", '{"step": 1, "spl', "{}", ""])
def test_a_damaged_line_is_named(line: str, runs: list[Run]) -> None:
    good = '{"step": 1, "split": "train"}\n'
    folder = runs[0].path.parent
    file = runs[1].finish(ARCHITECTURE.build((5,), 2, seed=0)).path / "history.jsonl"
    file.write_text(f"{good}{line}\n{good}")
    (file.parent / "summary.json").write_text(json.dumps({"id": runs[1].id, "status": "complete"}))
    assert Store(folder).query("SELECT count(*) FROM runs")[1] == [(4,)]
    with pytest.raises(RunError, match=rf"{runs[1].id}/history\.jsonl is damaged: line 2"):
        Store(folder).query("SELECT * FROM history")


def test_a_run_without_a_history_can_be_queried(runs: list[Run]) -> None:
    for run in runs:
        (run.path / "history.jsonl").unlink()
    assert asked(runs, "SELECT run, step, split, loss FROM history") == []
    assert asked(runs, "SHOW TABLES") == [("history",), ("runs",)]


ROWS: list[dict[str, Any]] = [
    {"id": "012345678901", "beta": 1, "seed": 2**62 - 1, "name": "2024-11-15", "it's": 1, "whole": True},
    {"id": "12e456789012", "beta": 0.1, "seed": 0, "name": 'a "b", c', "loss": math.nan, "whole": False},
    {"id": "abc", "beta": None, "loss": -math.inf, "name": "ü\n", "it's": "text"},
]


def test_parquet_survives_a_round_trip(tmp_path: Path) -> None:
    columns, file = ["name", "id", "beta", "seed", "loss", "it's", "whole", "none"], tmp_path / "it's.parquet"
    write_parquet(ROWS, columns, file)
    with duckdb.connect() as connection:
        result = connection.execute("SELECT * FROM read_parquet(?)", [str(file)])
        assert [column[0] for column in result.description] == columns
        found = result.fetchall()
    expected = [tuple(row.get(name) for name in columns) for row in ROWS]
    assert repr(found) == repr(expected).replace(
        " 1, 4611686018427387903, None, 1,", " 1.0, 4611686018427387903, None, '1',"
    )


def test_no_rows_are_a_table_with_columns(tmp_path: Path) -> None:
    write_parquet([], ["id", "beta"], tmp_path / "none.parquet")
    with duckdb.connect() as connection:
        result = connection.execute("SELECT * FROM read_parquet(?)", [str(tmp_path / "none.parquet")])
        assert [column[0] for column in result.description] == ["id", "beta"]
        assert result.fetchall() == []


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere/runs\.parquet"):
        write_parquet(ROWS, ["id"], tmp_path / "nowhere" / "runs.parquet")


def test_a_table_without_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"at least one column.*none\.parquet"):
        write_parquet([], [], tmp_path / "none.parquet")
    assert list(tmp_path.iterdir()) == []
