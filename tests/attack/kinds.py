"""The kinds of attacked files: their content, how they are mutated, and what must hold for their readers.

A file of data may be read or refused. A file of a store may be refused, or read with every number as before.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import Any

import torch
from corpus import (
    CODES,
    CSV,
    NUMBERS,
    STORE,
    SWEEP,
    archives,
    arrays,
    cell_files,
    code_archives,
    idx_files,
    pictures,
    shards,
    tables,
    train,
    train_ensemble,
    write_data,
    write_store,
)
from kills import COMMANDS, check_disturbed
from mutate import (
    Mutation,
    insert_tokens,
    mutate_bytes,
    mutate_json,
    mutate_json_lines,
    mutate_npy,
    mutate_npz,
    mutate_png,
    mutate_safetensors,
    replace_values,
)

import vaescope as vs
from vaescope.codes.files import read_codes
from vaescope.data import open_dataset
from vaescope.data.public.matrices import parse_idx
from vaescope.errors import VaescopeError
from vaescope.runs import Run, fit, table
from vaescope.runs.folders import ENSEMBLES, MEMBERS_FILE, read_members
from vaescope.runs.queries import query
from vaescope.runs.rows import measured_values
from vaescope.runs.verifying import verify
from vaescope.sizing import load_results
from vaescope.sizing.store import damaged_searches
from vaescope.sweeps.jobs import make_jobs
from vaescope.sweeps.toml import read_sweep

MAX_FITTED_ITEMS, MAX_SECONDS = 200, 20.0
SQL = (
    "SELECT id AS run, 0 AS place, to_json(runs)::VARCHAR AS line FROM runs UNION ALL "
    "SELECT run, row_number() OVER () AS place, to_json(history)::VARCHAR AS line FROM history "
    "ORDER BY run, place, line"
)
CSV_TOKENS = (
    *(b",", b";", b"\t", b'"', b"\r", b"\n\n", b"\xef\xbb\xbf", b"\x00", b"\xff", b"1_000", b"0x1F", b"1,5", b"=1+1"),
    *(
        b"nan",
        b"-inf",
        b"1e15",
        b"1e400",
        b"1125899906842624",
        b"9" * 5000,
        b"a" * 5000,
        b"mean_0",
        b"mean_" + b"9" * 20,
    ),
)
TOML_TOKENS = (
    *(b"1e308", b"-1", b"0", b"nan", b"inf", b"[]", b"[[1]]", b"{}", b"true", b'""', b'"abc"', b"1979-05-27", b"1.5"),
    *(
        b"9" * 5000,
        b"1000000000",
        b"[" * 5000 + b"]" * 5000,
        b"[1000000000]",
        b"a." * 3000 + b"a=1",
        b'"' + b"x" * 5000,
    ),
    *(
        b"steps = 1e308",
        b"held_out = 1e308",
        b"epochs = 1e308",
        b"batch = 0",
        b"device = 'cuda:9'",
        b'"""',
        b"\xff",
        b"\x1b",
    ),
)


# Options that are drawn for a file of data.
OPTIONS: Mapping[str, tuple[dict[str, object], ...]] = {
    ".csv": ({}, {"label": 3}, {"label": 3}, {"header": True}, {"header": False}, {"drop": 3, "missing": "mask"}),
    ".tar": ({}, {"size": 4}, {"factors": ["scale", "shape"]}, {"colour": True}),
    ".parquet": ({}, {"label": "kind"}, {"factors": ["kind"], "missing": "mean"}, {"columns": ["a", "b"]}),
    ".h5ad": ({}, {"layer": "counts"}, {"labels": "kind"}, {"factors": ["kind"], "layer": "counts"}),
}


@dataclass(frozen=True)
class Kind:
    """A kind of file.

    Attributes:
        name: The name in a report.
        originals: The contents that are mutated.
        mutate: How they are mutated.
        check: Uses a mutated content in the current folder; returns what is wrong, or None. An error of the library is
            a refusal.
        seconds: The longest time that a case may take.
        every: The kind takes part in one of `every` rounds of an attack.
    """

    name: str
    originals: Callable[[], list[bytes]]
    mutate: Mutation
    check: Callable[[bytes, Random], str | None]
    seconds: float = MAX_SECONDS
    every: int = 1

    def content(self, random: Random) -> bytes:
        """A mutated original."""
        return self.mutate(random.choice(self.originals()), random)


def _read_data(suffix: str) -> Callable[[bytes, Random], None]:
    """Open a file of data, read a batch and, if it is small, train on it."""

    def check(content: bytes, random: Random) -> None:
        file = Path(f"attacked{suffix}")
        file.write_bytes(content)
        options: dict[str, object] = {}
        if suffix in OPTIONS:
            options = random.choice(OPTIONS[suffix])
        _use(open_dataset(str(file), **options), random)

    return check


def _use(data: vs.data.Dataset, random: Random) -> None:
    """Use the items as training does: read a batch and sometimes train a few steps."""
    data.batch(torch.arange(min(4, len(data))))
    if random.random() < 0.05 and len(data) <= MAX_FITTED_ITEMS:
        model = random.choice(("vae", "conditional"))
        net = {"name": "mlp", "encoder_widths": [4], "decoder_widths": [4]}
        fit(data, 1, model=model, net=net, steps=2, batch=2, runs="fitted", device="cpu", progress=False)


@cache
def _pictures(suffix: str) -> list[bytes]:
    return pictures({".png": "PNG", ".jpg": "JPEG"}[suffix])


def _read_pictures(suffix: str, content: bytes, random: Random) -> None:
    folder = Path("pictures")
    folder.mkdir(exist_ok=True)
    for before in folder.iterdir():
        before.unlink()
    (folder / f"attacked{suffix}").write_bytes(content)
    (folder / f"other{suffix}").write_bytes(_pictures(suffix)[0])
    options: dict[str, Any] = random.choice(({}, {"size": 4}, {"colour": True}, {"size": (3, 5), "colour": False}))
    data = open_dataset(str(folder), **options)
    data.batch(torch.arange(len(data)))


def _read_idx(content: bytes, random: Random) -> None:
    parse_idx(content, "attacked", random.choice((None, 1, 3)))


def _read_codes(suffix: str, content: bytes, _: Random) -> None:
    file = Path(f"attacked{suffix}")
    file.write_bytes(content)
    read_codes(file)


def _sweeps() -> list[bytes]:
    store()  # writes the data
    return [SWEEP]


def _read_sweep(content: bytes, _: Random) -> None:
    file = Path("attacked.toml")
    file.write_bytes(content)
    make_jobs(read_sweep(file))


@cache
def store() -> Mapping[str, str]:
    """The ids of the runs of a store in the current folder by status; written once."""
    write_data()
    return write_store()


Views = Mapping[str, Callable[[], object]]


def views(folder: Path, identity: str) -> Views:
    """All views that show numbers of a run or of other runs in its store."""
    path = folder / identity
    shown: dict[str, Callable[[], object]] = {
        "listing": lambda: {row["id"]: row for row in table(folder)},
        # The order of columns follows that of the metrics in a file; no number depends on it.
        "sql": lambda: [[run, place, json.loads(line)] for run, place, line in query(folder, SQL)[1]],
        "record": lambda: Run.open(path).record.table(),
        "history": lambda: Run.open(path).history,
        "model": lambda: bits(Run.open(path)),
        "failure": lambda: Run.open(path).failure,
        "measurements": lambda: measured_values(path),
        "searches": lambda: load_results(folder),
    }
    return shown


@dataclass(frozen=True)
class Shown:
    """The text of a view, and its complaints."""

    text: str
    complaints: tuple[str, ...] = ()

    @classmethod
    def of(cls, view: Callable[[], object]) -> Shown:
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            try:
                text = json.dumps(view(), sort_keys=True, default=str)
            except VaescopeError as error:
                return cls("", (str(error),))
        return cls(text, tuple(str(warning.message) for warning in heard))


@cache
def before(identity: str) -> dict[str, Shown]:
    """The views of an undamaged store."""
    return {name: Shown.of(view) for name, view in views(STORE, identity).items()}


def _check_store(status: str, file: str, content: bytes, random: Random) -> str | None:
    """Replace a file of a run; a view without complaints must show the same numbers as before."""
    identity = store()[status]
    attacked = STORE / identity / file if status in store() and file[0] != "*" else next(STORE.glob(file))
    undamaged = before(identity)
    complained = False
    with replaced(attacked, content, random):
        for name, view in views(STORE, identity).items():
            # SQL is ten times slower than all others.
            if name == "sql" and random.random() > (0.3 if "history" in file else 0.1):
                continue
            shown = Shown.of(view)
            if shown.text == undamaged[name].text:
                continue
            if not shown.complaints:
                return f"silent change of {name}"
            if name == "listing" and store()["other"] not in shown.text:
                return f"the {name} hides undamaged runs"
            complained = True
        # Undamaged runs are verified in a tenth of the cases.
        verified = () if random.random() < 0.1 else (identity,)
        if complained and not (verify(STORE, verified).problems or damaged_searches(STORE)):
            return "verify misses damage that other views report"
    return None


@contextmanager
def replaced(file: Path, content: bytes, random: Random) -> Iterator[None]:
    """A file with another content inside the block."""
    original, times = file.read_bytes(), file.stat()
    write_over(file, content, random)
    try:
        yield
    finally:
        file.write_bytes(original)
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def write_over(file: Path, content: bytes, random: Random) -> None:
    """Give a file another content, half of the time without a newer time of writing."""
    times = file.stat()
    file.write_bytes(content)
    if random.random() < 0.5:
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def bits(run: Run) -> dict[str, str]:
    """The weights of a run, as text."""
    return {name: value.numpy().tobytes().hex() for name, value in run.model.state_dict().items()}


@cache
def uninterrupted(status: str) -> tuple[object, object]:
    """Weights and history of a run that was never interrupted."""
    run = train(status, Path("uninterrupted"))
    return bits(run), run.history


def _check_resume(file: str, content: bytes, random: Random) -> str | None:
    """Replace a file of an interrupted run and train to the end: either the weights are the same as before, or it is
    refused.
    """
    identity = store()["interrupted"]
    expected, folder = uninterrupted("interrupted"), Path("resumed")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(STORE / identity, folder / identity)
    write_over(folder / identity / file, content, random)
    run = train("interrupted", folder)
    return None if (bits(run), run.history) == expected else f"other weights or history after a changed {file}"


def _check_members(content: bytes, random: Random) -> str | None:
    """Replace the list of an ensemble's members: no other run may suffer."""
    needed, folder = {store()["complete"], *_members()}, Path("ensembles")
    shutil.rmtree(folder, ignore_errors=True)
    for identity in needed:
        shutil.copytree(STORE / identity, folder / identity)
    shutil.copytree(STORE / ENSEMBLES, folder / ENSEMBLES)
    (file,) = folder.glob(f"{ENSEMBLES}/*/{MEMBERS_FILE}")
    write_over(file, content, random)
    try:
        train("complete", folder)
    except VaescopeError as error:
        return f"a finished run is not reused: {error}"
    if random.random() < 0.9:
        return None
    runs = train_ensemble(folder)
    return None if [bits(run) for run in runs] == _ensemble_bits() else "other weights of the ensemble"


@cache
def _members() -> list[str]:
    return read_members(next(STORE.glob(f"{ENSEMBLES}/*/{MEMBERS_FILE}")))


@cache
def _ensemble_bits() -> list[dict[str, str]]:
    return [bits(run) for run in train_ensemble(Path("uninterrupted"))]


def _of_run(status: str, file: str) -> Callable[[], list[bytes]]:
    return lambda: [(STORE / store()[status] / file).read_bytes()]


def _matching(pattern: str) -> Callable[[], list[bytes]]:
    def originals() -> list[bytes]:
        store()
        return [next(STORE.glob(pattern)).read_bytes()]

    return originals


def _store_kind(status: str, file: str, mutate: Mutation) -> Kind:
    return Kind(f"{file}-{status}", _of_run(status, file), mutate, partial(_check_store, status, file))


def _resume_kind(file: str, mutate: Mutation) -> Kind:
    return Kind(f"resume-{file}", _of_run("interrupted", file), mutate, partial(_check_resume, file))


def _disturbed_kind(command: str) -> Kind:
    """A command that is killed or that runs out of space, instead of a mutated file."""
    return Kind(
        f"disturbed-{command}",
        lambda: [b""],
        lambda content, random: content,
        lambda content, random: check_disturbed(command, random),
        seconds=600.0,
        every=50,
    )


def _all(*kinds: Kind) -> dict[str, Kind]:
    return {kind.name: kind for kind in kinds}


KINDS = _all(
    Kind("npy", cache(arrays), mutate_npy, _read_data(".npy")),
    Kind("npz", cache(archives), mutate_npz, _read_data(".npz")),
    Kind("csv", lambda: [CSV, NUMBERS], insert_tokens(*CSV_TOKENS), _read_data(".csv")),
    Kind("png", partial(_pictures, ".png"), mutate_png, partial(_read_pictures, ".png")),
    Kind("jpg", partial(_pictures, ".jpg"), mutate_bytes, partial(_read_pictures, ".jpg")),
    Kind("tar", cache(shards), mutate_bytes, _read_data(".tar")),
    Kind("parquet", cache(tables), mutate_bytes, _read_data(".parquet")),
    Kind("h5ad", cache(cell_files), mutate_bytes, _read_data(".h5ad")),
    Kind("idx", cache(idx_files), mutate_bytes, _read_idx),
    Kind("codes-npz", cache(code_archives), mutate_npz, partial(_read_codes, ".npz")),
    Kind("codes-csv", lambda: [CODES], insert_tokens(*CSV_TOKENS), partial(_read_codes, ".csv")),
    Kind("toml", _sweeps, replace_values(*TOML_TOKENS), _read_sweep),
    _store_kind("complete", "run.json", mutate_json),
    _store_kind("complete", "summary.json", mutate_json),
    _store_kind("complete", "results.json", mutate_json),
    _store_kind("complete", "history.jsonl", mutate_json_lines),
    _store_kind("complete", "model.safetensors", mutate_safetensors),
    _store_kind("failed", "failure.json", mutate_json),
    _store_kind("interrupted", "history.jsonl", mutate_json_lines),
    Kind("fondue.json", _matching("*/fondue.json"), mutate_json, partial(_check_store, "complete", "*/fondue.json")),
    _resume_kind("run.json", mutate_json),
    _resume_kind("history.jsonl", mutate_json_lines),
    _resume_kind("state.safetensors", mutate_safetensors),
    Kind("members.json", _matching(f"{ENSEMBLES}/*/{MEMBERS_FILE}"), mutate_json, _check_members),
    *map(_disturbed_kind, COMMANDS),
)
FILES = [name for name, kind in KINDS.items() if kind.every == 1]
