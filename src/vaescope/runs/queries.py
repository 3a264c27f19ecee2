"""Questions about a folder of runs: rows filtered and sorted (`vaescope.runs.table`), SQL, and a Parquet file.

Filters are in Python, not in duckdb: a filter may be a function, a cell may be a list, and numbers are compared up to
rounding; making a duckdb table of the rows takes longer than filtering and sorting them here.
"""

from __future__ import annotations

import json
import math
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from itertools import accumulate
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Final, TypeAlias

from vaescope.checks import finite_number, whole_number
from vaescope.errors import ConfigurationError, RunError, WriteError, unknown_name
from vaescope.files import open_output, write_error
from vaescope.runs.journal import Journal
from vaescope.runs.record import HISTORY_FILE, RUN_FILE, TRAINING, RunRecord
from vaescope.runs.rows import Listing, Row, drop_constant_settings, encodable, read_rows
from vaescope.runs.sealed import naming
from vaescope.tables import columns_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Where: TypeAlias = Mapping[str, object] | Callable[[Row], bool] | None
NO_HISTORY = "SELECT '' AS run, 0 AS step, '' AS split, 0.0 AS loss LIMIT 0"
LINES: Final = "newline_delimited"
BIGINT_LIMIT = 2**63
MAX_MESSAGE_LENGTH = 500  # of a query, and of what duckdb says is wrong
TIMEOUT_SECONDS, INTERRUPT_SECONDS = 60.0, 0.1
MAX_SQL_SIZES = {"characters": 50_000, "levels of brackets": 100, "dots in names": 1000}
MARKS = re.compile(r"""'[^']*'|"[^"]*"|[()\[\]{}]|\.(?!\d)""")  # text and quoted names as a whole
BRACKETS = {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}
READING_STATEMENTS = ("SELECT", "EXPLAIN")  # duckdb counts FROM, VALUES, DESCRIBE and SUMMARIZE as SELECT
# Set once the tables are made; the last one makes the others final.
LOCKS = (
    "enable_external_access = false",
    "autoinstall_known_extensions = false",
    "autoload_known_extensions = false",
    "python_enable_replacements = false",
    "lock_configuration = true",
)
# Histories are read only for a query with one of these words.
HISTORY_WORDS = re.compile(r"history|tables", re.IGNORECASE)


def table(
    folder: str | Path = "runs", where: Where = None, sort: str | None = None, limit: int | None = None
) -> list[Row]:
    """One row for each run of a folder: settings, last values of the history, and measurements.

    Settings that are the same in all runs are not in the rows, but can be used in `where` and `sort`. A run that is
    damaged is left out, with a `DamagedRunWarning` that names it.

    Args:
        folder: Folder of runs.
        where: Column -> the value, or a list of the values, that a row must have (None: no value); or a function of a
            row that returns whether to keep it.
        sort: A column, or "-column" for descending order. Rows without a value come last.
        limit: Maximum number of rows.
    """
    found = read_rows(Path(folder))
    found.warn()
    return drop_constant_settings(select_rows(list(found.rows.values()), where, sort, limit))


def select_rows(rows: list[Row], where: Where = None, sort: str | None = None, limit: int | None = None) -> list[Row]:
    """Filter, sort and cut rows."""
    count = None if limit is None else whole_number("limit", limit, 1)
    kept = _filtered(rows, where)
    if sort is not None:
        if not isinstance(sort, str):
            raise ConfigurationError(f"sort must be the name of one column, got {sort!r}.")
        column = sort.removeprefix("-")
        check_columns(rows, [column], "sort")
        kept = _sorted(kept, column, descending=sort.startswith("-"))
    return kept[:count]


def check_columns(rows: Sequence[Row], names: Iterable[str], option: str) -> None:
    """Raise an error unless every name is a column of some row; without rows, no column is known."""
    known = columns_of(rows)
    for name in names:
        if rows and name not in known:
            raise unknown_name(f"the column of {option}", name, known)


def _filtered(rows: list[Row], where: Where) -> list[Row]:
    if where is None:
        return rows
    if callable(where):
        return [row for row in rows if where(row)]
    if not isinstance(where, Mapping):
        raise ConfigurationError(f"where must map columns to values or be a function of a row, got {where!r}.")
    check_columns(rows, where, "where")
    wanted = {name: _values(value) for name, value in where.items()}
    return [row for row in rows if all(_is_among(row.get(name), values) for name, values in wanted.items())]


def _values(value: object) -> list[object]:
    return [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)


def _is_among(cell: object, values: list[object]) -> bool:
    if isinstance(cell, str) and (listed := _list_in(cell)) is not None:
        # A setting that is a list may be given as a list or as its text.
        return listed == values or any(listed == _list_in(value) for value in values)
    return any(cell is None if value is None else _is_equal(cell, value) for value in values)


def _list_in(value: object) -> list[object] | None:
    """A list, also if it is given as JSON; None for anything else."""
    if isinstance(value, str) and value.startswith("["):
        with suppress(ValueError):
            found: list[object] = json.loads(value)
            return found
    return list(value) if isinstance(value, list | tuple) else None


def _is_equal(cell: object, value: object) -> bool:
    """Numbers are equal up to rounding: a listing shows 0.1 * 3 as 0.3."""
    if isinstance(cell, float) and isinstance(value, int | float):
        return math.isclose(cell, value)
    return cell == value


def _sorted(rows: list[Row], column: str, descending: bool) -> list[Row]:
    """Rows with numbers, then with text, then without a value; the order of equal rows is kept."""
    present = [row for row in rows if not _is_missing(row.get(column))]
    missing = [row for row in rows if _is_missing(row.get(column))]
    present.sort(key=lambda row: (isinstance(row[column], str), row[column]), reverse=descending)
    return present + missing


def _is_missing(cell: object) -> bool:
    return cell is None or cell != cell  # only NaN is not itself


def query(folder: Path, sql: str, timeout: float = TIMEOUT_SECONDS) -> tuple[list[str], list[tuple[object, ...]]]:
    """Column names and rows of a SQL query over the tables `runs` and `history` of a folder of runs.

    The query is one statement that reads; it reaches no files and no network, and ends after `timeout` seconds.
    """
    import duckdb

    seconds = finite_number("timeout", timeout, above=0)
    _check_size(sql)
    found = read_rows(folder)
    found.warn()
    rows = found.rows
    if not rows:
        raise RunError(f"{folder} has no runs to query. Fit one first.")
    with _database() as (connection, temporary):
        table = list(rows.values())
        _make_table(connection, "runs", table, columns_of(table), temporary)
        if HISTORY_WORDS.search(sql):
            _make_history(connection, {path: row["id"] for path, row in rows.items()}, temporary)
        for lock in LOCKS:
            connection.execute(f"SET {lock}")
        try:
            types = [statement.type.name for statement in connection.extract_statements(sql)]
            if len(types) != 1 or types[0] not in READING_STATEMENTS:
                raise _not_a_query(sql, f"{len(types)} statements: {', '.join(types)}" if types else "no statement")
            return _answer(connection, sql, seconds)
        except duckdb.Error as error:
            raise _not_a_query(sql, shorten(str(error), MAX_MESSAGE_LENGTH, placeholder=" ...")) from error


def _check_size(sql: str) -> None:
    """Refuse a query that duckdb would read for minutes, in which it cannot be interrupted."""
    marks = [found[0] for found in MARKS.finditer(sql)]
    depth = max(accumulate(BRACKETS.get(mark, 0) for mark in marks), default=0)
    sizes = {"characters": len(sql), "levels of brackets": depth, "dots in names": marks.count(".")}
    for what, size in sizes.items():
        if size > MAX_SQL_SIZES[what]:
            raise ConfigurationError(
                f"the SQL must have at most {MAX_SQL_SIZES[what]} {what}, got {size}. Write a shorter query."
            )


def _not_a_query(sql: str, why: str) -> ConfigurationError:
    return ConfigurationError(
        f"the SQL must be one statement that only reads the tables runs and history, such as SELECT, got "
        f"{shorten(sql, MAX_MESSAGE_LENGTH, placeholder=' ...')!r} ({why})."
    )


def _answer(connection: DuckDBPyConnection, sql: str, seconds: float) -> tuple[list[str], list[tuple[object, ...]]]:
    """The result of a query, which a time limit and Ctrl-C interrupt: this thread waits while another one computes."""

    def compute() -> tuple[list[str], list[tuple[object, ...]]]:
        result = connection.execute(sql)
        return [column[0] for column in result.description or []], result.fetchall()

    with ThreadPoolExecutor(1) as worker:
        running = worker.submit(compute)
        try:
            return running.result(seconds)
        except TimeoutError as error:
            raise ConfigurationError(
                f"the query must end within {seconds:g} s, but it did not. Select less, or raise the time limit."
            ) from error
        finally:
            while not running.done():
                connection.interrupt()
                wait([running], INTERRUPT_SECONDS)


@contextmanager
def _database() -> Iterator[tuple[DuckDBPyConnection, Path]]:
    """A database in memory, and a folder for its temporary files and for tables on their way in and out."""
    import duckdb

    try:
        with (
            tempfile.TemporaryDirectory() as name,
            duckdb.connect(config={"temp_directory": f"{name}/spilled"}) as connection,
        ):
            yield connection, Path(name)
    except OSError as error:
        raise write_error(Path(error.filename or tempfile.tempdir or "."), error) from error


def write_parquet(rows: Sequence[Row], columns: Sequence[str], file: Path) -> None:
    """Write columns of the rows as a Parquet file."""
    import duckdb

    if not columns:
        raise ConfigurationError(
            f"a Parquet file needs at least one column, got none for {file}. Name the columns to write."
        )
    with _database() as (connection, temporary):
        _make_table(connection, "runs", rows, columns, temporary)
        made = temporary / "runs.parquet"
        try:
            connection.table("runs").write_parquet(str(made))
        except duckdb.IOException as error:
            raise WriteError(
                f"the temporary file of {str(file)!r} cannot be written ({' '.join(str(error).split())}). Free some "
                "space, or set TMPDIR to another folder."
            ) from error
        with open_output(file) as opened:
            opened.write(made.read_bytes())


def _make_table(
    connection: DuckDBPyConnection, name: str, rows: Sequence[Row], names: Sequence[str], temporary: Path
) -> None:
    """Make a table of rows with types from their values: text stays text, even if it looks like a date."""
    file = temporary / f"{name}.jsonl"
    # Rows that 0.1 kept may have text that is not UTF-8.
    lines = (json.dumps({column: encodable(value) for column, value in row.items()}) + "\n" for row in rows)
    file.write_text("".join(lines), encoding="utf-8")
    types = {column: _type([row.get(column) for row in rows]) for column in names}
    connection.read_json(str(file), columns=types, format=LINES).create(name)


def _type(values: Sequence[object]) -> str:
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return "BOOLEAN"
    if kinds == {int} and all(-BIGINT_LIMIT <= value < BIGINT_LIMIT for value in values if isinstance(value, int)):
        return "BIGINT"
    return "DOUBLE" if kinds <= {int, float} else "VARCHAR"


def _make_history(connection: DuckDBPyConnection, runs: dict[Path, str], temporary: Path) -> None:
    """Make the table of all histories, each row with its run; those that are damaged are left out and named.

    One file holds them all, so that duckdb sees every column; of thousands of files it would sample a few, or use
    32 MB for each.
    """
    import duckdb

    gathered, trouble = temporary / "history.jsonl", ""
    for parsed in (False, True):  # every line is parsed only where duckdb cannot read them
        problems = _gather_histories(gathered, runs, parsed)
        try:
            if gathered.stat().st_size:
                found = connection.read_json(str(gathered), format=LINES, sample_size=-1)
            else:
                found = connection.sql(NO_HISTORY)
            found.create("history")
            connection.execute("SELECT count(*) FROM history WHERE step IS NULL OR split IS NULL")
            if connection.fetchone() == (0,):
                Listing({}, problems).warn()
                return
            connection.execute("DROP TABLE history")
        except duckdb.Error as error:
            trouble = f" ({error})"
    raise RunError(f"the histories of {len(runs)} runs cannot be read as one table{trouble}.")


def _gather_histories(gathered: Path, runs: dict[Path, str], parsed: bool) -> dict[Path, RunError]:
    """Write all histories into one file; returns what is wrong with those that are left out."""
    problems = {}
    with gathered.open("wb") as file:
        for path, identity in runs.items():
            try:
                file.write(_history_of(path, identity, parsed))
            except FileNotFoundError:  # the run is gone
                continue
            except RunError as error:
                problems[path] = error
    return problems


def _history_of(path: Path, identity: str, parsed: bool) -> bytes:
    """The verified complete lines of a run's history, with the run as their first entry."""
    record, journal = RunRecord.read(path / RUN_FILE), Journal(path)
    checksum = record.provenance.checksums.get(HISTORY_FILE)
    with naming(journal.path):
        content = journal.content(checksum)
    # Other valid JSON than what Journal writes is read, too.
    written_here = content.startswith(b"{") and content.count(b"\n{") == content.count(b"\n") - 1
    if parsed or not written_here or (checksum is None and record.status == TRAINING):
        rows = [{"run": identity, **row} for row in journal.rows(checksum)]
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    begin = b'{"run": ' + json.dumps(identity).encode() + b", "
    return begin + content[1:-1].replace(b"\n{", b"\n" + begin) + b"\n"
