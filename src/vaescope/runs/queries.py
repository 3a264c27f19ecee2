"""Runs in duckdb: SQL queries, and rows as a Parquet file."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, BinaryIO

from vaescope.errors import ConfigurationError, RunError
from vaescope.runs.columns import Row
from vaescope.runs.journal import Journal
from vaescope.runs.record import HISTORY_FILE
from vaescope.runs.rows import read_row, run_folders
from vaescope.tables import columns_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

NO_HISTORY = "SELECT '' AS run, 0 AS step, '' AS split, 0.0 AS loss LIMIT 0"
ALL_ROWS = "format='newline_delimited', sample_size=-1"
BIGINT_LIMIT = 2**63
MAX_MESSAGE_LENGTH = 500  # of what duckdb says is wrong
# Histories are read only for a query with one of these words.
HISTORY_WORDS = re.compile(r"history|tables", re.IGNORECASE)


def query(folder: Path, sql: str) -> tuple[list[str], list[tuple[object, ...]]]:
    """Column names and rows of a SQL query over the tables `runs` and `history` of a folder of runs."""
    import duckdb

    rows = {path: row for path in run_folders(folder) if (row := read_row(path)) is not None}
    if not rows:
        raise RunError(f"{folder} has no runs to query. Fit one first.")
    with tempfile.TemporaryDirectory() as temporary, duckdb.connect() as connection:
        table = list(rows.values())
        _make_table(connection, "runs", table, columns_of(table), Path(temporary))
        if HISTORY_WORDS.search(sql):
            _make_history(connection, {path: row["id"] for path, row in rows.items()}, Path(temporary))
        try:
            result = connection.execute(sql)
            if result is None:
                raise ConfigurationError(f"the SQL must be a query of the tables runs and history, got {sql!r}.")
            return [column[0] for column in result.description or []], result.fetchall()
        except duckdb.Error as error:
            raise ConfigurationError(
                f"the SQL must be a query of the tables runs and history, got {sql!r} "
                f"({shorten(str(error), MAX_MESSAGE_LENGTH, placeholder=' ...')})."
            ) from error


def write_parquet(rows: Sequence[Row], columns: Sequence[str], file: Path) -> None:
    """Write columns of the rows as a Parquet file."""
    import duckdb

    if not columns:
        raise ConfigurationError(f"a Parquet file needs at least one column, got none for {file}. Name some.")
    with tempfile.TemporaryDirectory() as temporary, duckdb.connect() as connection:
        _make_table(connection, "runs", rows, columns, Path(temporary))
        try:
            connection.execute(f"COPY runs TO {_text(str(file))} (FORMAT parquet)")
        except duckdb.IOException as error:
            raise ConfigurationError(
                f"{str(file)!r} cannot be written ({' '.join(str(error).split())}). Name another file."
            ) from error


def _make_table(
    connection: DuckDBPyConnection, name: str, rows: Sequence[Row], names: Sequence[str], temporary: Path
) -> None:
    """Make a table of rows with types from their values: text stays text, even if it looks like a date."""
    file = temporary / f"{name}.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    types = {column: _type([row.get(column) for row in rows]) for column in names}
    columns = ", ".join(f"{_text(column)}: '{kind}'" for column, kind in types.items())
    source = f"read_json({_text(str(file))}, format='newline_delimited', columns={{{columns}}})"
    connection.execute(f"CREATE TABLE {name} AS SELECT * FROM {source}")


def _type(values: Sequence[object]) -> str:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return "BOOLEAN"
    if kinds == {int} and all(-BIGINT_LIMIT <= value < BIGINT_LIMIT for value in values if isinstance(value, int)):
        return "BIGINT"
    return "DOUBLE" if kinds <= {int, float} else "VARCHAR"


def _text(value: str) -> str:
    """A string literal in SQL."""
    return "'" + value.replace("'", "''") + "'"


def _make_history(connection: DuckDBPyConnection, runs: dict[Path, str], temporary: Path) -> None:
    """Make the table of all histories, each row with its run.

    One file holds them all, so that duckdb sees every column; of thousands of files it would sample a few, or use
    32 MB for each.
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
    raise RunError(f"the histories of {len(runs)} runs cannot be read as one table ({trouble}).") from trouble


def _append_history(file: BinaryIO, path: Path, identity: str) -> None:
    """Copy the complete lines of a run's history with the run as their first entry."""
    try:
        content = (path / HISTORY_FILE).read_bytes()
    except FileNotFoundError:  # there is none yet, or the run is gone
        return
    content = content[: content.rfind(b"\n") + 1]
    if not content:
        return
    if not content.startswith(b"{") or content.count(b"\n{") != content.count(b"\n") - 1:
        # Not as Journal writes it: damage is named, other valid JSON is read.
        rows = [{"run": identity, **row} for row in Journal(path).rows()]
        file.write("".join(json.dumps(row) + "\n" for row in rows).encode())
        return
    begin = b'{"run": ' + json.dumps(identity).encode() + b", "
    file.write(begin + content[1:-1].replace(b"\n{", b"\n" + begin) + b"\n")
