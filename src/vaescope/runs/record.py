"""What run.json holds: a run's id, status and configuration, and its provenance, which the id does not depend on.

Nothing here loads torch: listings of thousands of runs read records.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from vaescope.errors import ConfigurationError, RunError
from vaescope.runs.sealed import NO_CHECKSUM, RESTORE, digest_of, naming, read_sealed

if TYPE_CHECKING:
    import cattrs

Value = TypeVar("Value")
# The content of a JSON file, and a row of a table: what a key holds is known from the key alone.
Table = dict[str, Any]

RUN_FILE, HISTORY_FILE, MODEL_FILE, STATE_FILE = "run.json", "history.jsonl", "model.safetensors", "state.safetensors"
FAILURE_FILE, LAST_GOOD_FILE = "failure.json", "last_good.safetensors"
SUMMARY_FILE, RESULTS_FILE = "summary.json", "results.json"
TRAINING, COMPLETE, FAILED = "training", "complete", "failed"

FORMAT = 1  # of configurations
PROVENANCE_VERSION = 3
CHECKSUMS_SINCE = 2  # the version of the record from which on files of a run carry checksums
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
class RecordedPixelScale(Additive):
    """The scale of the images of a run: see `vaescope.data.pixel_scale.PixelScale`."""

    black: float
    white: float
    integer_white: int


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
        latent_types: The type of each latent at the end of training; None: not recorded, or the codes have no types.
        latent_types_items: The number of items over which `latent_types` were found.
        plugins: Variants that come from other packages.
        pixel_scale: The scale of the images; None: floats in [0, 1] or integers in 0..255, or not recorded.
    """

    version: int = PROVENANCE_VERSION
    source: str | dict[str, object] | None = None
    versions: dict[str, str] = field(default_factory=dict)
    device: str | None = None
    checksums: dict[str, str] = field(default_factory=dict)
    compilation: Compilation | None = None
    started_from: Origin | None = None
    latent_types: tuple[str, ...] | None = None
    latent_types_items: int | None = None
    plugins: tuple[Plugin, ...] = ()
    pixel_scale: RecordedPixelScale | None = None

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
            raise ConfigurationError(f"the status must be {TRAINING}, {COMPLETE} or {FAILED}, got {self.status!r}.")
        if identity_of(self.configuration) != self.id:
            raise ConfigurationError(f"the configuration must be that of {self.id!r}, but it was changed.")

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
        """Read run.json, and check that the id was made from its configuration."""
        with naming(file):
            table, has_checksum = read_sealed(file)
            found: Mapping[str, Any] = table
            written = found["configuration"].get("format")
            if isinstance(written, int) and written > FORMAT:
                raise RunError(
                    f"{file} must be of format {FORMAT} to be read, but a newer version of vaescope wrote it in format "
                    f"{written}. Update vaescope."
                )
            record = cls.from_table(found)
            record.check_sealed(has_checksum)
        return record

    def table(self) -> Table:
        """The content of run.json."""
        own = {"id": self.id, "status": self.status, "provenance": self.provenance.table()}
        return {**own, **self.unknown, "configuration": self.configuration}

    @property
    def has_checksums(self) -> bool:
        """Whether the files of the run must carry checksums; those of earlier versions do not."""
        return self.provenance.version >= CHECKSUMS_SINCE

    def check_sealed(self, has_checksum: bool) -> None:
        """Raise an error if a file of the run lost its checksum, within `naming` the file."""
        if self.has_checksums and not has_checksum:
            raise ValueError(NO_CHECKSUM)

    @property
    def expected_steps(self) -> int:
        """The last step of the history of a complete run; 0 for a pruned run, which has no history."""
        return 0 if "pruned" in self.configuration else self.configuration["plan"]["steps"]

    def has_full_history(self, history: Sequence[Table]) -> bool:
        """Whether the history reaches the last step, as it must if the run is complete."""
        return self.status != COMPLETE or (history[-1]["step"] if history else 0) == self.expected_steps

    def check_history(self, file: Path, history: Sequence[Table]) -> None:
        """Raise an error that names the file unless the history of a complete run reaches the last step."""
        if not self.has_full_history(history):
            raise RunError(
                f"{file} must reach step {self.expected_steps}, as the run is complete; it ends at "
                f"{history[-1]['step'] if history else 0}. {RESTORE}"
            )


@cache
def _converter() -> cattrs.Converter:
    return strict_converter()


def strict_converter() -> cattrs.Converter:
    """A converter of data classes to and from plain tables that coerces nothing: 1 is an item, 1.0 a share.

    It refuses values of another type, and unknown entries except those of an `Additive` record.
    """
    # Loaded when a record is read: rows of finished runs are kept in files that need none.
    import cattrs
    from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

    converter = cattrs.Converter(detailed_validation=False, forbid_extra_keys=True)
    converter.register_structure_hook_func(lambda kind: kind is object, lambda value, _: value)
    for kind in (str, bool, int):
        converter.register_structure_hook(kind, _of_type(kind))
    # A whole number is a number, too.
    for kinds in (float, float | int):
        converter.register_structure_hook(kinds, _of_type(int, float))
    converter.register_structure_hook(str | dict[str, object] | None, _of_type(str, dict, type(None)))

    def is_additive(kind: object) -> bool:
        return isinstance(kind, type) and issubclass(kind, Additive)

    def reader(kind: type[Additive]) -> Callable[[Mapping[str, object], object], Additive]:
        names = {entry.name for entry in dataclasses.fields(kind)} - {"unknown"}
        read = make_dict_structure_fn(kind, converter, _cattrs_forbid_extra_keys=False, unknown=override(omit=True))

        def hook(table: Mapping[str, object], _: object) -> Additive:
            unknown = {name: value for name, value in table.items() if name not in names}
            return dataclasses.replace(read(table, kind), unknown=unknown)

        return hook

    def writer(kind: type[Additive]) -> Callable[[Additive], dict[str, object]]:
        write = make_dict_unstructure_fn(kind, converter, unknown=override(omit=True))
        return lambda record: {**write(record), **record.unknown}

    converter.register_structure_hook_factory(is_additive, reader)
    converter.register_unstructure_hook_factory(is_additive, writer)
    return converter


def _of_type(*kinds: type) -> Callable[[Value, object], Value]:
    """A hook that gives the value back unchanged if it is of one of the types; a truth value is no number."""

    def unchanged(value: Value, _: object) -> Value:
        if type(value) not in kinds:
            raise TypeError(f"{value!r} must be of type {' or '.join(kind.__name__ for kind in kinds)}")
        return value

    return unchanged


def identity_of(configuration: Mapping[str, Any]) -> str:
    """The id of a run: a hash of its configuration, without the name of the data."""
    data = {key: value for key, value in configuration["data"].items() if key != "name"}
    return hash_of({**configuration, "data": data})


def hash_of(content: object) -> str:
    """Twelve hexadecimal digits of the SHA-256 of the content as canonical JSON."""
    return digest_of(content)[:12]
