"""How a study is run: its scale, seeds, share of the training, data, folders and device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypedDict

from vaescope.checks import finite_number, whole_number
from vaescope.data import DATASETS
from vaescope.errors import ConfigurationError, unknown_name
from vaescope.runs import DEFAULT_FOLDER
from vaescope.studies.results import JsonTable

QUICK, PAPER = "quick", "paper"
SCALES = (QUICK, PAPER)
DEVICES = ("cpu", "cuda")
RESULTS_FOLDER = "results"


@dataclass(frozen=True)
class StudySettings:
    """How much is trained and where: 'quick' takes seconds on a CPU, 'paper' is as published.

    Attributes:
        seeds: Number of seeds. Default: the study's own number.
        share: Share of the study's training, at most 1; or shares by the name of the data (1 for data not named).
            Schedules of objectives, such as the capacity's of an annealed VAE, are cut with it; searches, which end by
            themselves, are not.
        data: The only data sets to work on, where a study has several; all if empty.
        runs: Folder of runs; studies share their runs.
        results: Folder of results, and further folders whose results are copied into it. Default: `results` in the
            folder of runs.
        engine: The engine of sweeps, with its `engine_options`.
    """

    scale: str = QUICK
    seeds: int | None = None
    share: float | Mapping[str, float] = 1.0
    data: tuple[str, ...] = ()
    runs: Path = Path(DEFAULT_FOLDER)
    results: tuple[Path, ...] = ()
    device: str | None = None
    engine: str = "local"
    engine_options: JsonTable = field(default_factory=dict)
    progress: bool | None = None

    def __post_init__(self) -> None:
        if self.scale not in SCALES:
            raise unknown_name("scale", self.scale, SCALES)
        if self.seeds is not None:
            whole_number("seeds", self.seeds, 1)
        if isinstance(self.data, str):
            raise ConfigurationError(f"data must be a list of names, got {self.data!r}. Write [{self.data!r}].")
        by_name = self.share if isinstance(self.share, Mapping) else None
        for name in (*(by_name or ()), *self.data):
            if name not in DATASETS:
                raise unknown_name("data", name, DATASETS)
        if self.device is not None and self.device.partition(":")[0] not in DEVICES:
            raise unknown_name("device", self.device, DEVICES)
        for given in [self.share] if by_name is None else by_name.values():
            share = finite_number("share", given, above=0)
            if share > 1:
                raise ConfigurationError(f"share must be at most 1, all of the study's training, got {share:g}.")

    @property
    def results_folder(self) -> Path:
        """Where results are written."""
        return Path(self.results[0]) if self.results else Path(self.runs) / RESULTS_FOLDER

    def share_of(self, data: str) -> float:
        """The share of the training on a data set."""
        return self.share.get(data, 1.0) if isinstance(self.share, Mapping) else self.share

    def command(self, study: str) -> str:
        """What a user types for a study with these settings."""
        words = ["vaescope", "reproduce", study, "--scale", self.scale]
        words += [] if self.seeds is None else ["--seeds", str(self.seeds)]
        shares = self.share if isinstance(self.share, Mapping) else {"": self.share}
        for name, share in shares.items():
            words += ["--share", f"{name}={share!r}" if name else repr(share)] if share < 1 else []
        for name in self.data:
            words += ["--data", name]
        return " ".join(words)


class SettingsOptions(TypedDict, total=False):
    """The options of `StudySettings` other than the scale, by name."""

    seeds: int | None
    share: float | Mapping[str, float]
    data: tuple[str, ...]
    runs: Path
    results: tuple[Path, ...]
    device: str | None
    engine: str
    engine_options: JsonTable
    progress: bool | None
