"""Histories in SQL, whatever state the files are in, and rows as Parquet."""

from __future__ import annotations

import json
import math
import os
import signal
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import duckdb
import pytest

from vaescope.errors import ConfigurationError, DamagedRunWarning, WriteError
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
    record = runs[1].record.table() | {"status": "failed", "provenance": {"version": 0}}
    file.with_name("run.json").write_text(json.dumps(record))
    (file.parent / "summary.json").write_text(json.dumps({"id": runs[1].id, "status": "complete"}))
    assert Store(folder).query("SELECT count(*) FROM runs")[1] == [(4,)]
    with pytest.warns(DamagedRunWarning, match=rf"{runs[1].id}/history\.jsonl, line 2, is damaged"):
        (found,) = Store(folder).query("SELECT count(DISTINCT run) FROM history")[1]
    assert found == (2,)  # of the others, one has no rows


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


def test_text_that_is_not_utf8_is_escaped_in_a_table(tmp_path: Path) -> None:
    write_parquet([{"name": os.fsdecode(b"caf\xe9")}], ["name"], tmp_path / "rows.parquet")
    with duckdb.connect() as connection:
        found = connection.execute("SELECT name FROM read_parquet(?)", [str(tmp_path / "rows.parquet")]).fetchall()
    assert found == [("caf\\udce9",)]


def test_a_file_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match=r"nowhere/runs\.parquet"):
        write_parquet(ROWS, ["id"], tmp_path / "nowhere" / "runs.parquet")


def test_a_table_without_columns_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"at least one column.*none\.parquet"):
        write_parquet([], [], tmp_path / "none.parquet")
    assert list(tmp_path.iterdir()) == []


SECRET = "what no query may read"


@pytest.fixture
def hostile(runs: list[Run], tmp_path: Path) -> dict[str, str]:
    """Files outside of the database, by their names in the queries."""
    secret, weights = tmp_path / "secret.csv", runs[0].path / "model.safetensors"
    secret.write_text(SECRET)
    weights.write_bytes(b"weights")
    return {"SECRET": str(secret), "WEIGHTS": str(weights).replace("'", "''"), "NEW": str(tmp_path / "new")}


@pytest.mark.parametrize(
    "sql",
    [
        "COPY (SELECT 1) TO 'WEIGHTS'",
        "COPY runs TO 'NEW'",
        "COPY runs FROM 'SECRET'",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO 'WEIGHTS'",
        "SELECT * FROM read_csv('SECRET')",
        "SELECT * FROM read_text('SECRET')",
        "SELECT * FROM read_blob('SECRET')",
        "SELECT * FROM sniff_csv('SECRET')",
        "SELECT * FROM glob('/*')",
        "FROM 'SECRET'",
        "SELECT * FROM query('FROM ''SECRET''')",
        "DESCRIBE SELECT * FROM 'SECRET'",
        "SUMMARIZE 'SECRET'",
        "ATTACH 'NEW'",
        "CREATE TABLE more AS SELECT 1",
        "EXPORT DATABASE 'NEW'",
        "DROP TABLE runs",
        "DELETE FROM runs",
        "UPDATE runs SET seed = 7",
        "INSERT INTO runs SELECT * FROM runs",
        "WITH chosen AS (SELECT 1) DELETE FROM runs",
        "INSTALL httpfs",
        "LOAD httpfs",
        "FROM 'https://127.0.0.1:1/a.parquet'",
        "SET enable_external_access = true",
        "PRAGMA enable_profiling",
        "PRAGMA database_list",
        "CALL enable_logging()",
        "CHECKPOINT",
        "BEGIN",
        "USE runs",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP TABLE runs",
        "SELECT 1; COPY (SELECT 1) TO 'WEIGHTS'",
        ";",
        "-- nothing",
    ],
)
def test_sql_reads_the_two_tables_and_does_nothing_else(
    sql: str, runs: list[Run], hostile: dict[str, str], tmp_path: Path
) -> None:
    before = sorted(tmp_path.rglob("*"))
    for name, path in hostile.items():
        sql = sql.replace(name, path)
    with pytest.raises(ConfigurationError, match="one statement that only reads") as caught:
        asked(runs, sql)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (runs[0].path / "model.safetensors").read_bytes() == b"weights"
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM runs",
        "SELECT count(*) FROM runs;",
        "FROM runs SELECT seed",
        "WITH chosen AS (SELECT seed FROM runs) SELECT * FROM chosen",
        "VALUES (1), (2)",
        "DESCRIBE runs",
        "SHOW TABLES",
        "SUMMARIZE runs",
        "EXPLAIN SELECT 1",
        "EXPLAIN ANALYZE SELECT 1",
        "SELECT json_extract('[1]', '$[0]'), regexp_matches('a', 'a'), current_date, ')))'",
        "SELECT seed FROM runs WHERE id IN (" + ", ".join(["'abcdefabcdef'"] * 2000) + ")",
        "SELECT * FROM runs ORDER BY random()",
    ],
)
def test_every_kind_of_query_works(sql: str, runs: list[Run]) -> None:
    names, _ = query(runs[0].path.parent, sql)
    assert names


def test_a_query_of_thousands_of_brackets_is_refused_before_parsing(runs: list[Run]) -> None:
    start = time.monotonic()
    for text in ("(" * 20_000, "[" * 5000 + "]" * 5000, "a" + ".a" * 9000, "1" + "%" * 90_000 + "1"):
        with pytest.raises(ConfigurationError, match="shorter"):
            asked(runs, f"SELECT {text}")
    assert time.monotonic() - start < 1


ENDLESS = "SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE a.range * b.range % 7 = 3"


@pytest.mark.parametrize("sql", [ENDLESS, "SELECT * FROM range(100000000000)"], ids=["compute", "fetch"])
def test_a_query_ends_at_its_time_limit(sql: str, runs: list[Run]) -> None:
    start = time.monotonic()
    with pytest.raises(ConfigurationError, match=r"within 0\.3 s"):
        query(runs[0].path.parent, sql, timeout=0.3)
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("seconds", [0, -1, math.nan, math.inf])
def test_a_time_limit_is_a_number_of_seconds(seconds: float, runs: list[Run]) -> None:
    with pytest.raises(ConfigurationError, match="timeout"):
        query(runs[0].path.parent, "SELECT 1", timeout=seconds)


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
def test_ctrl_c_interrupts_a_query(runs: list[Run]) -> None:
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
    start = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        query(runs[0].path.parent, ENDLESS)
    assert time.monotonic() - start < 10


def test_large_queries_use_a_temporary_folder(runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    ((place,),) = asked(runs, "SELECT current_setting('temp_directory')")
    assert place.startswith(tempfile.gettempdir())
    assert not Path(place).parent.exists()
    assert list(Path.cwd().iterdir()) == []


def test_temporary_files_without_space_are_named(
    runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"name": "x" * 100, "value": value} for value in range(1000)]
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        with pytest.raises(WriteError, match="too large"):
            write_parquet(rows, ["name", "value"], tmp_path / "runs.parquet")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    for call in (lambda: query(runs[0].path.parent, "SELECT 1"), lambda: write_parquet(rows, ["name"], tmp_path / "a")):
        with pytest.raises(WriteError, match=r"missing.*No such file"):
            call()
