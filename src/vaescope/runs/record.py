"""What run.json holds: a run's id, status and configuration, and its provenance, which the id does not depend on.

Nothing here loads torch: listings of thousands of runs read records.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vaescope.errors import RunError

if TYPE_CHECKING:
    import cattrs

# The content of a JSON file, and a row of a table: what a key holds is known from the key alone.
Table = dict[str, Any]

RUN_FILE, HISTORY_FILE, MODEL_FILE, STATE_FILE = "run.json", "history.jsonl", "model.safetensors", "state.safetensors"
FAILURE_FILE, LAST_GOOD_FILE = "failure.json", "last_good.safetensors"
SUMMARY_FILE, RESULTS_FILE = "summary.json", "results.json"
TRAINING, COMPLETE, FAILED = "training", "complete", "failed"

PROVENANCE_VERSION = 1
# What to do about a damaged file of a run.
RESTORE = "Restore the file from a backup, or move the run's folder elsewhere and train the run again."
# Version 0.1 of vaescope kept these next to the id.
FIELDS_BEFORE_PROVENANCE = ("source", "versions", "device")


@dataclass(frozen=True)
class Additive:
    """A record that later versions add fields to: those that this version does not know are kept in `unknown`."""

    unknown: dict[str, object] = field(default_factory=dict, kw_only=True)


@dataclass(frozen=True)
class Plugin(Additive):
    """A variant that is not vaescope's: its kind ('objective', 'net', ...), its name, and where it comes from.

    `package` and `version` are those of the installed distribution; None if the variant was registered by a script.
    """

    kind: str
    variant: str
    module: str
    package: str | None = None
    version: str | None = None


@dataclass(frozen=True)
class Compilation(Additive):
    """Whether the training step was compiled, and why or why not."""

    compiled: bool
    reason: str = ""


@dataclass(frozen=True)
class Origin(Additive):
    """What training started from: `kind` is 'pruned', 'warm start' or 'resumed'; `run` is the id of another run."""

    kind: str
    run: str | None = None
    step: int | None = None


@dataclass(frozen=True)
class Provenance(Additive):
    """How a run came about: facts that neither its weights nor its id depend on.

    The record is additive. A later version of vaescope adds fields and raises `version`; it never changes what a field
    means. Every field has a default that means "not recorded", which is what runs made before the field existed have.
    Fields that this version does not know are kept and written back unchanged, at every level.

    Attributes:
        version: Version of the record; 0 for runs made before there was one.
        source: What the data were opened from: a name, a path, or a table of a name and options. None: from memory.
        versions: Versions of vaescope, torch and Python.
        device: The device that the run was trained on.
        checksums: SHA-256 of the run's files, by name.
        compilation: Whether the training step was compiled; None: not recorded.
        started_from: What training started from; None: new weights, or not recorded.
        latent_types: The type of each latent at the end of training; None: not recorded.
        plugins: Variants that come from other packages.
    """

    version: int = PROVENANCE_VERSION
    source: str | dict[str, object] | None = None
    versions: dict[str, str] = field(default_factory=dict)
    device: str | None = None
    checksums: dict[str, str] = field(default_factory=dict)
    compilation: Compilation | None = None
    started_from: Origin | None = None
    latent_types: tuple[str, ...] | None = None
    plugins: tuple[Plugin, ...] = ()

    @classmethod
    def from_table(cls, table: Mapping[str, object]) -> Provenance:
        """Read the record; fields that this version does not know are kept."""
        return _converter().structure(table, cls)

    def table(self) -> Table:
        """The record as run.json has it."""
        table: Table = _converter().unstructure(self)
        return table


@dataclass(frozen=True)
class RunRecord:
    """The content of run.json; `configuration` is the table that the id is the hash of."""

    id: str
    status: str
    configuration: Table
    provenance: Provenance = field(default_factory=Provenance)
    unknown: Table = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.status not in (TRAINING, COMPLETE, FAILED):
            raise RunError(f"the status must be {TRAINING}, {COMPLETE} or {FAILED}, got {self.status!r}.")
        if identity_of(self.configuration) != self.id:
            raise RunError(f"the configuration must be that of {self.id!r}, but it was changed.")

    @classmethod
    def from_table(cls, table: Mapping[str, Any]) -> RunRecord:
        """Read the content of run.json, of this version or of any other."""
        rest = dict(table)
        identity, status, configuration = (rest.pop(name) for name in ("id", "status", "configuration"))
        before = {name: rest.pop(name) for name in FIELDS_BEFORE_PROVENANCE if name in rest}
        provenance = Provenance.from_table(rest.pop("provenance", {"version": 0, **before}))
        return cls(identity, status, configuration, provenance, rest)

    @classmethod
    def read(cls, file: Path) -> RunRecord:
        """Read run.json, after which its configuration is known to be the one that the id was made from."""
        return cls.from_table(json.loads(file.read_bytes()))

    def table(self) -> Table:
        """The content of run.json."""
        own = {"id": self.id, "status": self.status, "provenance": self.provenance.table()}
        return {**own, **self.unknown, "configuration": self.configuration}

    @property
    def expected_steps(self) -> int:
        """The last step of the history of a complete run; 0 for a pruned run, which has no history."""
        return 0 if "pruned" in self.configuration else self.configuration["plan"]["steps"]

    def has_full_history(self, history: Sequence[Table]) -> bool:
        """Whether the history reaches the last step, as it must if the run is complete."""
        return self.status != COMPLETE or (history[-1]["step"] if history else 0) == self.expected_steps


@cache
def _converter() -> cattrs.Converter:
    # Loaded when a record is read: rows of finished runs are kept in files that need none.
    from vaescope.runs.converter import strict_converter

    return strict_converter()


def identity_of(configuration: Mapping[str, Any]) -> str:
    """The id of a run: a hash of its configuration, without the name of the data."""
    data = {key: value for key, value in configuration["data"].items() if key != "name"}
    return hash_of({**configuration, "data": data})


def hash_of(content: object) -> str:
    """Twelve hexadecimal digits of the SHA-256 of the content as canonical JSON."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]
