"""A store under any sequence of training, interrupting, damaging, listing, pruning and moving.

Undamaged runs are always listed and open with the weights of an undisturbed run; damaged ones are named or show the
same numbers as before.
"""

from __future__ import annotations

import multiprocessing
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random

import pytest
from corpus import interrupted_after, memory, train_if_free, train_seed, write_data
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from kinds import bits
from mutate import mutate_json, mutate_json_lines, mutate_safetensors

from vaescope.errors import VaescopeError
from vaescope.runs import Run, prune, table
from vaescope.runs.queries import query
from vaescope.runs.verifying import verify

FILES = {
    "run.json": mutate_json,
    "summary.json": mutate_json,
    "history.jsonl": mutate_json_lines,
    "model.safetensors": mutate_safetensors,
}
SEEDS, RUNS, AWAY = st.integers(0, 2), Path("runs"), Path("away")


class StoreMachine(RuleBasedStateMachine):
    """A folder of runs, with the seed of each run and the original content of damaged files."""

    def __init__(self) -> None:
        super().__init__()
        self.before = Path.cwd()
        self.folder = tempfile.mkdtemp(dir=memory())
        os.chdir(self.folder)
        write_data()
        AWAY.mkdir()
        self.seeds: dict[str, int] = {}
        self.damaged: dict[str, tuple[Path, bytes]] = {}

    def teardown(self) -> None:
        os.chdir(self.before)
        shutil.rmtree(self.folder)

    @rule(seed=SEEDS)
    def train_a_run(self, seed: int) -> None:
        try:
            run = train_seed(seed)
        except VaescopeError:
            assert self._identity(seed) in self.damaged
            return
        self._note(run, seed)

    @rule(seed=SEEDS, rows=st.integers(0, 3))
    def interrupt_a_run(self, seed: int, rows: int) -> None:
        if self._identity(seed) in self.damaged:
            return
        with interrupted_after(rows), suppress(KeyboardInterrupt):
            train_seed(seed)

    @rule(seed=SEEDS)
    def train_a_run_in_two_processes(self, seed: int) -> None:
        if self._identity(seed) in self.damaged:
            return
        other = multiprocessing.get_context("forkserver").Process(target=train_if_free, args=(seed,))
        other.start()
        train_if_free(seed)
        other.join()
        self._note(train_seed(seed), seed)

    @precondition(lambda self: self.undamaged())
    @rule(data=st.data(), name=st.sampled_from(sorted(FILES)), seed=st.integers(0, 2**32))
    def damage_a_file(self, data: st.DataObject, name: str, seed: int) -> None:
        file = RUNS / data.draw(st.sampled_from(self.undamaged())) / name
        content = file.read_bytes()
        self.damaged[file.parent.name] = file, content
        file.write_bytes(FILES[name](content, Random(seed)))

    @precondition(lambda self: self.damaged)
    @rule(data=st.data())
    def restore_a_file(self, data: st.DataObject) -> None:
        file, content = self.damaged.pop(data.draw(st.sampled_from(sorted(self.damaged))))
        file.write_bytes(content)

    @precondition(lambda self: self.undamaged())
    @rule(data=st.data())
    def prune_a_run(self, data: st.DataObject) -> None:
        prune(data.draw(st.sampled_from(self.undamaged())), keep=(0, 1), items=20, runs=RUNS)

    @precondition(lambda self: self.seeds)
    @rule(data=st.data())
    def move_a_run_away(self, data: st.DataObject) -> None:
        identity = data.draw(st.sampled_from(sorted(self.seeds)))
        shutil.rmtree(AWAY / identity, ignore_errors=True)
        shutil.move(RUNS / identity, AWAY / identity)
        del self.seeds[identity]
        self.damaged.pop(identity, None)

    @rule()
    def query_all_runs(self) -> None:
        if not self.seeds:
            return
        text, complaints = complaining(lambda: query(RUNS, "SELECT id, test_loss FROM runs")[1])
        for identity in self.seeds:
            assert identity in text or identity in complaints

    @rule()
    def verify_all_runs(self) -> None:
        named = " ".join(map(str, verify(RUNS).problems))
        assert [identity for identity in self.undamaged() if identity in named] == []

    @invariant()
    def undamaged_runs_are_listed_and_open(self) -> None:
        rows, complaints = complaining(lambda: {row["id"]: str(row) for row in table(RUNS)})
        for identity, seed in self.seeds.items():
            if identity not in self.damaged:
                assert identity in rows
                assert bits(Run.open(RUNS / identity)) == reference(seed)
            elif identity not in complaints:
                assert identity in rows

    def undamaged(self) -> list[str]:
        return sorted(set(self.seeds) - set(self.damaged))

    def _identity(self, seed: int) -> str:
        return next((identity for identity, own in self.seeds.items() if own == seed), "")

    def _note(self, run: Run, seed: int) -> None:
        self.seeds[run.id] = seed


def complaining(read: Callable[[], object]) -> tuple[str, str]:
    """The output and the complaints."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        shown = str(read())
    return shown, " ".join(str(warning.message) for warning in heard)


@cache
def reference(seed: int) -> dict[str, str]:
    """The weights of an undisturbed run."""
    with tempfile.TemporaryDirectory(dir=memory()) as folder:
        return bits(train_seed(seed, Path(folder)))


StoreMachine.TestCase.settings = settings(
    max_examples=8,
    phases=[Phase.generate],  # shrinking would train for minutes
    stateful_step_count=12,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
TestStore = pytest.mark.filterwarnings("default")(StoreMachine.TestCase)
