"""Many runs in duckdb: questions in SQL, and rows as a Parquet file."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any, BinaryIO

from vaescope.errors import ConfigurationError, RunError
from vaescope.runs.journal import Journal
from vaescope.runs.record import HISTORY_FILE
from vaescope.runs.rows import read_row, run_folders
from vaescope.tables import columns_of

NO_HISTORY = "SELECT '' AS run, 0 AS step, '' AS split, 0.0 AS loss LIMIT 0"
ALL_ROWS = "format='newline_delimited', sample_size=-1"
LARGEST = 2**63  # what BIGINT has no room for
MOST = 500  # letters of what duckdb says is wrong
# A question with one of these words may be about the histories, which are not read for others.
ABOUT_HISTORIES = re.compile(r"history|tables", re.IGNORECASE)


def query(folder: Path, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Column names and rows of a SQL question over the tables `runs` and `history` of a folder of runs."""
    import duckdb

    rows = {path: row for path in run_folders(folder) if (row := read_row(path)) is not None}
    if not rows:
        raise RunError(f"there must be at least one run in {folder} to query, there is none. Fit one first.")
    with tempfile.TemporaryDirectory() as temporary, duckdb.connect() as connection:
        table = list(rows.values())
        _make_table(connection, "runs", table, columns_of(table), Path(temporary))
        if ABOUT_HISTORIES.search(sql):
            _make_history(connection, {path: row["id"] for path, row in rows.items()}, Path(temporary))
        try:
            result = connection.execute(sql)
            if result is None:
                raise ConfigurationError(f"the SQL must be a question over the tables runs and history, got {sql!r}.")
            return [column[0] for column in result.description or []], result.fetchall()
        except duckdb.Error as error:
            raise ConfigurationError(
                f"the SQL must be a question over the tables runs and history, got {sql!r} "
                f"({shorten(str(error), MOST, placeholder=' ...')})."
            ) from error


def write_parquet(rows: Sequence[dict[str, Any]], columns: Sequence[str], file: Path) -> None:
    """The columns of the rows as a Parquet file, which must have some."""
    import duckdb

    if not columns:
        raise ConfigurationError(f"{file} must have at least one column to be a Parquet file, got none. Name some.")
    with tempfile.TemporaryDirectory() as temporary, duckdb.connect() as connection:
        _make_table(connection, "runs", rows, columns, Path(temporary))
        try:
            connection.execute(f"COPY runs TO {_text(str(file))} (FORMAT parquet)")
        except duckdb.IOException as error:
            raise ConfigurationError(
                f"{str(file)!r} must be a file that can be written, it cannot ({' '.join(str(error).split())}). "
                "Name another file."
            ) from error


def _make_table(
    connection: Any, name: str, rows: Sequence[dict[str, Any]], names: Sequence[str], temporary: Path
) -> None:
    """A table of rows, with types by their values: text stays text, even where it looks like a date."""
    file = temporary / f"{name}.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    types = {column: _type([row.get(column) for row in rows]) for column in names}
    columns = ", ".join(f"{_text(column)}: '{kind}'" for column, kind in types.items())
    source = f"read_json({_text(str(file))}, format='newline_delimited', columns={{{columns}}})"
    connection.execute(f"CREATE TABLE {name} AS SELECT * FROM {source}")


def _type(values: Sequence[Any]) -> str:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return "BOOLEAN"
    if kinds == {int} and all(value is None or -LARGEST <= value < LARGEST for value in values):
        return "BIGINT"
    return "DOUBLE" if kinds <= {int, float} else "VARCHAR"


def _text(value: str) -> str:
    """As SQL writes it."""
    return "'" + value.replace("'", "''") + "'"


def _make_history(connection: Any, runs: dict[Path, str], temporary: Path) -> None:
    """The rows of all histories, each with its run.

    They go through one file, where duckdb sees every column that any of them has. It would sample a few of thousands
    of files, or hold a buffer of 32 MB for each.
    """
    import duckdb

    gathered = temporary / "history.jsonl"
    with gathered.open("wb") as file:
        for path, identity in runs.items():
            _append_history(file, path, identity)
    source = f"SELECT * FROM read_json({_text(str(gathered))}, {ALL_ROWS})" if gathered.stat().st_size else NO_HISTORY
    trouble: Exception | None = None
    try:
        connection.execute(f"CREATE TABLE history AS {source}")
        connection.execute("SELECT count(*) FROM history WHERE step IS NULL OR split IS NULL")
        if connection.fetchone() == (0,):
            return
    except duckdb.Error as error:
        trouble = error
    for path in runs:
        Journal(path).rows()  # names the file and the line
    raise RunError(f"the histories of {len(runs)} runs must be one table, they are not ({trouble}).") from trouble


def _append_history(file: BinaryIO, path: Path, identity: str) -> None:
    """The whole lines of a run's history with the run as their first entry; a line that was cut short is none."""
    try:
        content = (path / HISTORY_FILE).read_bytes()
    except FileNotFoundError:  # it has none yet, or is gone
        return
    content = content[: content.rfind(b"\n") + 1]
    if not content:
        return
    if not content.startswith(b"{") or content.count(b"\n{") != content.count(b"\n") - 1:
        # Not as we write it: what is damaged is named, and what is only written in another way is read.
        rows = [{"run": identity, **row} for row in Journal(path).rows()]
        file.write("".join(json.dumps(row) + "\n" for row in rows).encode())
        return
    begin = b'{"run": ' + json.dumps(identity).encode() + b", "
    file.write(begin + content[1:-1].replace(b"\n{", b"\n" + begin) + b"\n")
