"""A folder of runs: find one by its id, list all, ask questions in SQL."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vaescope.errors import ConfigurationError, RunError
from vaescope.numerics.polarised import TYPES
from vaescope.objectives.strengths import telling
from vaescope.runs.run import RUN_FILE, Run

DEFAULT_FOLDER = "runs"
NO_HISTORY = "(SELECT '' AS run, 0 AS step, '' AS split, 0.0 AS loss) LIMIT 0"


@dataclass(frozen=True)
class Store:
    """All runs below one folder."""

    folder: Path = Path(DEFAULT_FOLDER)

    def path(self, identity: str) -> Path:
        """Where the run with this id lies or will lie."""
        return self.folder / identity

    def runs(self) -> Iterator[Run]:
        """Every run, by id; a folder whose run.json is damaged raises an error that names it."""
        for path in self._paths():
            yield Run.open(path)

    def find(self, identity: str) -> Run:
        """The run whose folder this is, or whose id begins so."""
        if identity and (Path(identity) / RUN_FILE).is_file():
            return Run.open(identity)
        found = [path for path in self._paths() if identity and path.name.startswith(identity)]
        if len(found) != 1:
            what = "none does" if not found else f"{len(found)} do: {', '.join(path.name for path in found)}"
            raise RunError(
                f"{identity!r} must be a run's folder or the beginning of one run's id in {self.folder}, {what}. "
                "See `vaescope runs` for the list."
            )
        return Run.open(found[0])

    def _paths(self) -> list[Path]:
        return [file.parent for file in sorted(self.folder.glob(f"*/{RUN_FILE}"))]

    def query(self, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Column names and rows of a SQL question over the tables `runs` and `history`."""
        import duckdb

        runs = list(self.runs())
        if not runs:
            raise RunError(f"there must be at least one run in {self.folder} to query, there is none. Fit one first.")
        with tempfile.TemporaryDirectory() as folder, duckdb.connect() as connection:
            histories = [{"run": run.id, **row} for run in runs for row in run.history]
            for table, rows in {"runs": [summary(run) for run in runs], "history": histories}.items():
                file = Path(folder) / f"{table}.jsonl"
                file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
                source = "read_json(?, format='newline_delimited', sample_size=-1)" if rows else NO_HISTORY
                connection.execute(f"CREATE TABLE {table} AS SELECT * FROM {source}", [str(file)] if rows else [])
            try:
                result = connection.execute(sql)
                if result is None:
                    raise ConfigurationError(
                        f"the SQL must be a question over the tables runs and history, got {sql!r}."
                    )
                return [column[0] for column in result.description or []], result.fetchall()
            except duckdb.Error as error:
                raise ConfigurationError(
                    f"the SQL must be a question over the tables runs and history, got {sql!r} "
                    f"({' '.join(str(error).split())})."
                ) from error


def summary(run: Run) -> dict[str, Any]:
    """One flat row about a run: its settings and the last values of its history."""
    configuration = run.configuration
    architecture, member, plan = configuration.architecture.plain(), configuration.member, configuration.plan
    rows = run.history
    last = {
        f"{split}_{name}": value
        for split in ("train", "test")
        for name, value in run.last(split).items()
        if name not in ("step", "split")
    }
    return {
        "id": run.id,
        "status": run.status,
        "data": configuration.data["name"],
        "items": configuration.data["items"],
        "model": configuration.architecture.model,
        "net": architecture["net"]["name"],
        "likelihood": architecture["likelihood"]["name"],
        "latents": member.latents,
        "objective": run.record["configuration"]["member"]["objective"]["name"],
        **telling(member.objective),
        "seed": member.seed,
        **({} if configuration.pruned is None else {"pruned_from": configuration.pruned.run}),
        "learning_rate": member.learning_rate,
        "batch": plan.batch,
        "step": rows[-1]["step"] if rows else 0,
        "steps": plan.steps,
        **{name: count for name, count in run.last("probe").items() if name in TYPES},
        **last,
    }
