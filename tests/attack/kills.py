"""Commands that are killed or that run out of space: nothing is half-written, and the same command then finishes.

A command runs in a process of its own. It is killed at or shortly after a file operation or at a random time; or
files may not exceed a size; or the disk is full from some file operation on.
"""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import resource
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random

from corpus import NET, STORE, SWEEP, search, train_seed, write_data, write_store

from vaescope import cli
from vaescope.data import Dataset
from vaescope.errors import VaescopeError
from vaescope.runs import Run, summary, table
from vaescope.sizing import load_results
from vaescope.sizing.store import load_checks
from vaescope.studies import STUDIES, Cell, Findings, Measurement, Study, StudyContext
from vaescope.sweeps.specification import Sweep

PREPARED, WORK, COUNT = Path("prepared"), Path("work"), "events.json"
MAX_SECONDS = 120.0
OPEN_EVENTS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate", "shutil.rmtree")
WRITING = os.O_WRONLY | os.O_RDWR
# Loaded once, in a process without threads; the processes of all commands are forked from it. Packages of others are
# those that commands import late, which takes longer than the commands.
PRELOAD = [
    *("kills", "vaescope.reporting.report", "vaescope.runs.exporting", "vaescope.sweeps.run", "vaescope.sizing"),
    *("duckdb", "filelock", "joblib", "lightgbm", "plotly.io", "pydantic.type_adapter", "rich.progress", "rich.table"),
    "torch._dynamo",
]
KILLED = (-signal.SIGKILL, -signal.SIGALRM)


@dataclass(frozen=True)
class Interference:
    """What happens to a command, and when.

    Attributes:
        kind: 'none', 'kill at an operation', 'kill at a time', 'file size' or 'disk full'.
        operation: The file operation at which it happens, counted from 1.
        seconds: After the operation, or after the start.
        size: The largest file in bytes.
    """

    kind: str = "none"
    operation: int = 0
    seconds: float = 0.0
    size: int = 0

    @classmethod
    def random(cls, random: Random, operations: int, seconds: float) -> Interference:
        """A random disturbance at a random moment of a command with this many operations and this duration."""
        kind = random.choice(("kill at an operation",) * 3 + ("kill at a time", "file size", "disk full"))
        after = seconds * random.random() if kind == "kill at a time" else random.choice((0.0, 1e-4, 1e-3, 1e-2))
        return cls(kind, random.randint(1, operations), after, int(2 ** random.uniform(0, 22)))

    def begin(self) -> None:
        """Apply it to this process."""
        if self.kind == "kill at a time":
            _die_after(self.seconds)
        elif self.kind == "file size":
            resource.setrlimit(resource.RLIMIT_FSIZE, (self.size, resource.RLIM_INFINITY))

    def at(self, operation: int, opens: bool) -> None:
        """Apply it if this is its file operation."""
        if self.kind == "kill at an operation" and operation == self.operation:
            _die_after(self.seconds)
        elif self.kind == "disk full" and opens and operation >= self.operation:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


UNDISTURBED = Interference()


@dataclass(frozen=True)
class Command:
    """A command that writes, the files next to the runs that it writes, and the status of the run that it deletes."""

    run: Callable[[Mapping[str, str]], None]
    files: tuple[str, ...] = ()
    deletes: str = ""


def _cli(*words: str) -> Callable[[Mapping[str, str]], None]:
    """A command line, in which {complete} is the id of the complete run, {other} that of another one."""

    def run(ids: Mapping[str, str]) -> None:
        sys.argv = ["vaescope", *(word.format_map(ids) for word in words)]
        cli.main()

    return run


def _loss(run: Run, data: Dataset, device: str) -> dict[str, float]:
    found = summary(run)
    return {"beta": found["beta"], "loss": found["train_loss"]}


def _small_study(context: StudyContext) -> Findings:
    grid = {"objective.beta": [1.0, 4.0]}
    runs = context.runs(Sweep("data.npz", {"net": NET, "steps": 8}, {"latents": 2}, grid=grid))
    rows = list(context.measured(runs, Measurement("loss", _loss)))
    return Findings(tuple(Cell.over({"beta": row["beta"]}, [row["loss"]]) for row in rows))


def _reproduce(ids: Mapping[str, str]) -> None:
    STUDIES["small-figure1"] = Study("small-figure1", "Small, Figure 1", "Which loss?", "Everything.", _small_study)
    _cli("reproduce", "small-figure1", "--device", "cpu")(ids)


ELBOW = (
    "--net mlp --set net.encoder_widths=[8] --set net.decoder_widths=[8] --device cpu --largest 3 --init 2 --seeds 1 "
    "--period 20 --max-periods 2 --probe-items 50 --check --check-steps 20"
)
COMMANDS = {
    "fit": Command(lambda ids: _of_library(lambda: train_seed(10, checkpoint_seconds=0.0))),
    "sweep": Command(
        _cli("sweep", "sweep.toml", "--workers", "1", "--device", "cpu", "--csv", "sweep.csv"), ("sweep.csv",)
    ),
    "fondue": Command(lambda ids: _of_library(lambda: search(Path("searches")))),
    "resume": Command(_cli("resume", "{complete}", "--steps", "60", "--device", "cpu")),
    "elbow": Command(_cli("fondue", "data.npz", *shlex.split(ELBOW), "--plot", "curve.html"), ("curve.html",)),
    "compare": Command(_cli("compare", "{complete}", "{other}", "--plot", "similarities.html"), ("similarities.html",)),
    "report": Command(_cli("report", "{complete}", "-o", "report.html"), ("report.html",)),
    "prune": Command(_cli("prune", "{complete}", "--keep", "0,1")),
    "export": Command(_cli("export", "{complete}", "-o", "onnx"), ("onnx/encoder.onnx", "onnx/decoder.onnx")),
    "runs": Command(_cli("runs", "--csv", "table.csv", "--parquet", "table.parquet"), ("table.csv", "table.parquet")),
    "delete": Command(_cli("runs", "delete", "{other}", "--yes"), deletes="other"),
    "reproduce": Command(
        _reproduce, ("studies/small-figure1.html", "studies/small-figure1.csv", "studies/small-figure1.json")
    ),
}


@dataclass(frozen=True)
class Ended:
    """How a command ended, what it printed, and how many file operations and seconds it took."""

    code: int
    printed: str
    operations: int
    seconds: float


def execute(command: str, folder: Path, interference: Interference) -> Ended:
    """Run a command in a folder, in a process of its own."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    # A pipe, as the size of files may be limited.
    reader, writer = context.Pipe(duplex=False)
    count = folder.parent / COUNT
    count.unlink(missing_ok=True)
    process = context.Process(target=_run, args=(command, folder.resolve(), interference, dict(prepared()), writer))
    began = time.monotonic()
    process.start()
    writer.close()
    with reader, ThreadPoolExecutor(1) as pool:
        printed = pool.submit(_read_all, reader.fileno())
        process.join(MAX_SECONDS)
        if process.is_alive():
            process.kill()
            process.join()
            return Ended(-1, f"over {MAX_SECONDS:g} s", 0, MAX_SECONDS)
        operations = json.loads(count.read_bytes()) if count.exists() else 0
        return Ended(process.exitcode or 0, printed.result(), operations, time.monotonic() - began)


def _read_all(descriptor: int) -> str:
    """Everything that is written into a pipe until its last writer closes it."""
    chunks = []
    while chunk := os.read(descriptor, 2**16):
        chunks.append(chunk)
    return b"".join(chunks).decode(errors="replace")


def _run(command: str, folder: Path, interference: Interference, ids: dict[str, str], output: Connection) -> None:
    """Run a command in this new process and count its file operations."""
    done = [0]
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
    os.chdir(folder)
    here = str(folder)

    def watch(event: str, arguments: tuple[object, ...]) -> None:
        if event not in OPEN_EVENTS or (event == "open" and not _writes(arguments)):
            return
        if os.path.abspath(os.fsdecode(str(arguments[0]))).startswith(here):
            done[0] += 1
            interference.at(done[0], event == "open")

    interference.begin()
    sys.addaudithook(watch)
    try:
        COMMANDS[command].run(ids)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        signal.setitimer(signal.ITIMER_REAL, 0)
        (folder.parent / COUNT).write_text(str(done[0]))


def _writes(arguments: tuple[object, ...]) -> bool:
    flags = arguments[2]
    return isinstance(arguments[0], str | bytes) and isinstance(flags, int) and bool(flags & WRITING)


def _of_library(call: Callable[[], object]) -> None:
    """Call the library; returns the exit code that a command line would have."""
    try:
        call()
    except VaescopeError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def _die_after(seconds: float) -> None:
    if seconds == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    # The signal of the timer has no handler, so it kills the process.
    signal.setitimer(signal.ITIMER_REAL, seconds)


@cache
def prepared() -> Mapping[str, str]:
    """Run every command once in a folder, so that there are outputs to lose; returns the ids of the runs."""
    PREPARED.mkdir()
    here = Path.cwd()
    os.chdir(PREPARED)
    write_data()
    Path("sweep.toml").write_bytes(SWEEP)
    ids = write_store()
    os.chdir(here)
    return ids


@cache
def reference(command: str) -> tuple[Ended, dict[str, object], dict[str, bytes]]:
    """The exit of an undisturbed command, the numbers that it leaves, and its files."""
    prepared()
    folder = Path("reference") / command
    shutil.copytree(PREPARED, folder / WORK)
    ended = execute(command, folder / WORK, UNDISTURBED)
    if ended.code != 0:
        raise RuntimeError(f"{command} ended with {ended.code}: {ended.printed}")
    return ended, numbers(folder / WORK), outputs(command, folder / WORK)


def check_disturbed(command: str, random: Random) -> str | None:
    """Disturb a command, then run it again; returns what is wrong, or None."""
    undisturbed, expected, files = reference(command)
    folder = Path("disturbed") / WORK
    shutil.rmtree(folder.parent, ignore_errors=True)
    shutil.copytree(PREPARED, folder)
    old = {name: f"before {name}".encode() for name in COMMANDS[command].files if random.random() < 0.7}
    for name, content in old.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    interference = Interference.random(random, undisturbed.operations, undisturbed.seconds)
    runs = contents(folder / STORE)
    ended = execute(command, folder, interference)
    wrong = wrong_after(command, ended, folder, old, files, runs)
    if wrong is None:
        code = 2 if _deleted(command, folder) else 0  # a run cannot be deleted twice
        again = execute(command, folder, UNDISTURBED)
        if again.code != code:
            wrong = f"the same command ends with {again.code}: {again.printed[-300:]}"
        elif numbers(folder) != expected:
            wrong = "the same command leaves other numbers"
        elif {name: len(content) for name, content in outputs(command, folder).items()}.keys() != files.keys():
            wrong = "the same command leaves other files"
    return None if wrong is None else f"{interference.kind}: {wrong} ({interference})"


def wrong_after(
    command: str,
    ended: Ended,
    folder: Path,
    old: Mapping[str, bytes],
    new: Mapping[str, bytes],
    runs: Mapping[str, bytes],
) -> str | None:
    """What is wrong with the files of a disturbed command, or None."""
    if ended.code not in (0, 2, *KILLED) or "Traceback" in ended.printed:
        return f"it ended with {ended.code}: {ended.printed[-300:]}"
    for name, content in outputs(command, folder).items():
        if content != old.get(name) and not _is_whole(content, new[name]):
            return f"{name} has {len(content)} bytes, neither the old nor the new {len(new[name])}"
    for name in old:
        if not (folder / name).exists():
            return f"the old {name} is gone"
    left, deleted = contents(folder / STORE), _deleted(command, folder)
    changed = [
        name for name, content in runs.items() if name.partition("/")[0] != deleted and left.get(name) != content
    ]
    if changed:
        return f"files of other runs changed: {', '.join(changed)}"
    try:
        table(folder / STORE)
    except VaescopeError as error:
        return f"the runs cannot be listed: {error}"
    return None


def _deleted(command: str, folder: Path) -> str | None:
    """The id of the run that a command deletes, once it is gone."""
    identity = prepared().get(COMMANDS[command].deletes)
    return identity if identity and not (folder / STORE / identity).exists() else None


def _is_whole(content: bytes, new: bytes) -> bool:
    """Whether a file is what an undisturbed command writes, apart from times and random names."""
    return len(content) > 0.9 * len(new) and content[-8:] == new[-8:]


def outputs(command: str, folder: Path) -> dict[str, bytes]:
    """The files that a command wrote next to the runs."""
    return {name: (folder / name).read_bytes() for name in COMMANDS[command].files if (folder / name).exists()}


def contents(store: Path) -> dict[str, bytes]:
    """Every file of the finished runs of a store."""
    finished = [path.parent for path in store.glob("*/run.json") if b'"training"' not in path.read_bytes()]
    return {
        f"{run.name}/{file.name}": file.read_bytes() for run in finished for file in run.iterdir() if file.is_file()
    }


def numbers(folder: Path) -> dict[str, object]:
    """The weights and the histories of all finished runs in a folder, and the answers of its searches and checks."""
    found: dict[str, object] = {}
    for path in sorted(folder.glob("*/*/run.json")):
        run = Run.open(path.parent)
        if run.status == "complete":
            weights = {name: value.numpy().tobytes() for name, value in run.model.state_dict().items()}
            found[run.id] = weights, run.history
    for folder_of_searches in (STORE, Path("searches")):
        for one in load_results(folder / folder_of_searches):
            found[f"{folder_of_searches} {one['gap']}"] = one["seeds"], one["looks"]
        for one in load_checks(folder / folder_of_searches):
            found[f"{folder_of_searches} elbow"] = one["points"]
    return found
