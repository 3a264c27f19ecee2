"""What a run's files are called and what run.json must hold, for readers that do without torch."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from vaescope.errors import RunError

RUN_FILE, HISTORY_FILE, MODEL_FILE, STATE_FILE = "run.json", "history.jsonl", "model.safetensors", "state.safetensors"
FAILURE_FILE, LAST_GOOD_FILE = "failure.json", "last_good.safetensors"
SUMMARY_FILE, RESULTS_FILE = "summary.json", "results.json"
TRAINING, COMPLETE, FAILED = "training", "complete", "failed"


def check_record(record: dict[str, Any]) -> None:
    """The status is a known one, and the configuration is the one that the id was made from."""
    if record["status"] not in (TRAINING, COMPLETE, FAILED):
        raise RunError(f"the status must be {TRAINING}, {COMPLETE} or {FAILED}, got {record['status']!r}.")
    if identity_of(record["configuration"]) != record["id"]:
        raise RunError(f"the configuration must be that of {record['id']!r}, it was changed.")


def expected_steps(record: dict[str, Any]) -> int:
    """The steps that the history of a complete run reaches; a pruned run was trained as another."""
    configuration = record["configuration"]
    return 0 if "pruned" in configuration else configuration["plan"]["steps"]


def is_whole(record: dict[str, Any], history: list[dict[str, Any]]) -> bool:
    """Whether the history is all that a run with this record must have."""
    return record["status"] != COMPLETE or (history[-1]["step"] if history else 0) == expected_steps(record)


def identity_of(table: dict[str, Any]) -> str:
    """A hash of a configuration as written, but for the name that the data went by."""
    data = {key: value for key, value in table["data"].items() if key != "name"}
    return hash_of({**table, "data": data})


def hash_of(table: Any) -> str:
    """Twelve hexadecimal digits of the SHA-256 of a canonical text."""
    text = json.dumps(table, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
