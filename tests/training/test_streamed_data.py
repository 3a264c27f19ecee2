"""Training on a file gives the numbers of training in memory; the items of the next step are requested ahead."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
import pytest
import scipy.sparse
import torch

from vaescope.data import Subset, file_rows, open_dataset
from vaescope.data.file_rows import FileRows
from vaescope.errors import DataError
from vaescope.models import Architecture
from vaescope.nets import MLP
from vaescope.training import Member, Plan, Trainer, engines, feed
from vaescope.training import device as devices
from vaescope.training.batches import Batches, draw_noise
from vaescope.training.device import exceeds_memory
from vaescope.training.engines import StackedEngine
from vaescope.training.feed import Feed

IMAGES = np.random.default_rng(0).integers(0, 256, (60, 1, 8, 8), dtype=np.uint8)
ARCHITECTURE = Architecture(net=MLP((16,), (16,)))
PLAN = Plan(12, 8, log_every=3, evaluate_every=6, monitor_every=6, monitor_items=10)


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(file_rows, "MAX_HELD_BYTES", 0)
    np.save(tmp_path / "images.npy", IMAGES)
    return tmp_path / "images.npy"


def trainer(source: Path | np.ndarray, members: int) -> Trainer:
    return Trainer(ARCHITECTURE, [Member(3, seed=seed) for seed in range(members)], PLAN, *open_dataset(source).split())


@pytest.mark.parametrize("members", [1, 2])
def test_training_on_a_file_equals_training_in_memory(file: Path, members: int) -> None:
    streamed, resident = trainer(file, members), trainer(IMAGES, members)
    while not resident.finished:
        assert streamed.advance() == resident.advance()
    assert torch.equal(streamed.state.parameters, resident.state.parameters)


@pytest.mark.parametrize("members", [1, 2])
def test_the_items_of_the_next_step_are_requested_before_it(
    file: Path, members: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = trainer(file, members)
    requested: list[int] = []
    read: list[int] = []
    ahead: list[int] = []
    will_read, take = FileRows.will_read, FileRows.__getitem__

    def note_request(self: FileRows, index: np.ndarray) -> None:
        requested.extend(index.tolist())
        will_read(self, index)

    def note_read(self: FileRows, index: np.ndarray) -> np.ndarray:
        ahead.append(len(requested) - len(read))
        read.extend(index.tolist())
        return take(self, index)

    monkeypatch.setattr(FileRows, "will_read", note_request)
    monkeypatch.setattr(FileRows, "__getitem__", note_read)
    running.advance()
    step = members * PLAN.batch
    assert len(read) == PLAN.log_every * step
    assert requested == read[step:]
    assert ahead[0] == step


VECTORS = np.random.default_rng(1).normal(size=(60, 6))
FEEDS = {
    "bytes": (open_dataset, IMAGES),
    "16 bits": (open_dataset, IMAGES.astype(np.uint16) * 257),
    "a range": (partial(open_dataset, range=(-1, 1)), IMAGES / 127.5 - 1),
    "vectors": (partial(open_dataset, standardise=True), VECTORS),
    "missing cells": (partial(open_dataset, missing="mask"), np.where(VECTORS > 1.5, np.nan, VECTORS)),
    "a sparse matrix": (open_dataset, scipy.sparse.csr_matrix(np.maximum(VECTORS, 0))),
    "computed items": (open_dataset, {"name": "gaussian-manifold", "items": 60}),
}


def fed(name: str, members: int, streamed: bool) -> Trainer:
    opener, source = FEEDS[name]
    data = opener(source)
    likelihood = "bernoulli" if data.is_image else "gaussian"
    architecture = replace(ARCHITECTURE, likelihood=likelihood, standardise=data.standardise, missing=data.missing)
    who = [Member(3, seed=seed) for seed in range(members)]
    return Trainer(architecture, who, PLAN, *data.split(), streamed=streamed)


@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("name", FEEDS)
def test_items_that_are_fed_to_the_device_give_the_same_bits(name: str, members: int) -> None:
    streamed, resident = (fed(name, members, streamed) for streamed in (True, False))
    while not resident.finished:
        assert streamed.advance() == resident.advance()
    assert torch.equal(streamed.state.parameters, resident.state.parameters)


def test_a_conditional_model_takes_its_conditions_from_the_items_that_are_fed(file: Path) -> None:
    data = open_dataset(file, labels=[0, 1, 2] * 20)
    architecture = replace(ARCHITECTURE, model="conditional", condition=3)
    one, other = (Trainer(architecture, [Member(3)], PLAN, data, streamed=streamed) for streamed in (True, False))
    assert one.advance() == other.advance()


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("members", [1, 2])
def test_a_recorded_step_reads_the_items_that_are_fed(
    members: int, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program of an accelerator, with stand-ins for the compiler and CUDA graphs, which a CPU does not have."""
    compilations: list[object] = []

    class Replayed(NamedTuple):
        replay: Callable[[], object]

    def recorded(work: Callable[[], object], prepare: Callable[[], object]) -> tuple[Replayed, None]:
        work()
        prepare()
        return Replayed(work), None

    monkeypatch.setattr(engines, "captured", recorded)
    monkeypatch.setattr(torch, "compile", lambda program, **_: compilations.append(program) or program)
    plain, traced = fed("bytes", members, streamed=False), fed("bytes", members, streamed=True)
    plain.advance()
    batches = Batches.of(traced.data, traced.ensemble.model, traced.device, streamed=True)
    engine, steps = StackedEngine(traced.ensemble, batches, traced.order, compiled), range(PLAN.log_every)
    indices = traced.order.indices(steps)
    noise = draw_noise(engine.ensemble.noise, engine.ensemble.inputs.seeds, steps, PLAN.batch, torch.float32)
    graph = engine._captured(traced.state, indices, noise)
    assert [rows.shape for rows in graph.given.values()] == [(members * PLAN.batch, *IMAGES.shape[1:])]
    graph.run(steps, indices, batches.steps(indices), noise)
    assert len(compilations) == compiled
    assert torch.allclose(traced.state.parameters, plain.state.parameters, rtol=0, atol=1e-7)


class Slow(Subset):
    """A data set whose reads take times of their own, in a thread each."""

    seconds = (0.03, 0.0, 0.02, 0.0, 0.01)
    reads: ClassVar[list[int]] = []

    def stored(self, index: torch.Tensor) -> torch.Tensor:
        self.reads.append(int(index[0]))
        time.sleep(self.seconds[int(index[0]) % len(self.seconds)])
        return super().stored(index)


def slow_feed() -> Feed:
    Slow.reads.clear()
    data = open_dataset(IMAGES)
    return Feed(Slow.of(data, torch.arange(len(data))), torch.device("cpu"))


def test_batches_arrive_in_their_order_and_a_few_are_read_ahead() -> None:
    indices = torch.arange(40).reshape(20, 1, 2)
    steps = slow_feed().steps(indices)
    next(steps)
    assert len(Slow.reads) <= feed.STEPS_AHEAD + 1
    found = torch.stack(list(steps))
    assert torch.equal(found, torch.from_numpy(IMAGES[2:40]).reshape(19, 2, 1, 8, 8))


def test_a_feed_that_is_left_reads_no_more() -> None:
    steps = slow_feed().steps(torch.arange(40).reshape(40, 1, 1))
    next(steps)
    steps.close()
    assert len(Slow.reads) <= feed.STEPS_AHEAD + 1
    assert not any(thread.name.startswith("read items") for thread in threading.enumerate())


def test_a_file_that_changes_while_it_is_read_ahead_is_an_error(file: Path) -> None:
    running = Trainer(ARCHITECTURE, [Member(3)], PLAN, *open_dataset(file).split(), streamed=True)
    running.advance()
    np.save(file, IMAGES[::-1])
    with pytest.raises(DataError, match="must stay as it was when it was opened"):
        running.advance()


def test_copies_are_pinned_ordered_and_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What CUDA is asked for, with stand-ins for its streams and events."""
    calls: list[str] = []

    class Event:
        def record(self, stream: object) -> None:
            calls.append("record")

        def synchronize(self) -> None:
            calls.append("synchronise")

    class Stream:
        def wait_stream(self, other: object) -> None:
            calls.append("wait")

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: Stream())
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda rows: calls.append("pin") or rows)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda rows, stream: calls.append("keep"))
    fed = Feed(open_dataset(IMAGES), torch.device("cpu"))
    fed._copies = Stream()
    indices = torch.arange(60).reshape(30, 1, 2)
    rows = [batch.clone() for batch in fed.steps(indices)]
    assert torch.equal(torch.cat(rows), torch.from_numpy(IMAGES))
    assert [calls.count(name) for name in ("pin", "wait", "keep", "record")] == [30] * 4
    assert calls.count("synchronise") == 30 - feed.STEPS_AHEAD
    assert calls.index("pin") < calls.index("wait") < calls.index("keep") < calls.index("record")


@pytest.mark.parametrize("name", FEEDS)
def test_the_memory_that_a_data_set_needs_on_a_device_is_known(name: str) -> None:
    opener, source = FEEDS[name]
    moved = opener(source).to("meta")
    tensors = [value for value in vars(moved).values() if isinstance(value, torch.Tensor) and value.is_meta]
    assert sum(value.nbytes for value in tensors) == opener(source).resident_bytes


def test_a_file_needs_one_byte_for_each_pixel(file: Path) -> None:
    data = open_dataset(file)
    moved = data.to("meta")
    assert (moved.items.shape, moved.items.dtype) == (IMAGES.shape, torch.uint8)
    assert data.resident_bytes == IMAGES.nbytes


@pytest.mark.parametrize(("free", "streamed"), [(10**9, False), (IMAGES.nbytes, True)])
def test_only_a_set_that_does_not_fit_is_streamed(free: int, streamed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "free_memory", lambda device: free)
    assert exceeds_memory(open_dataset(IMAGES).split()[0], torch.device("cuda")) is streamed
    assert not exceeds_memory(open_dataset(IMAGES), torch.device("cpu"))


def test_only_the_items_that_are_evaluated_move_to_the_device(file: Path) -> None:
    data = open_dataset(file)
    model = ARCHITECTURE.build(data.shape, 3, seed=0)
    few = Batches.of_few(data.draw(5), model, torch.device("meta"))
    assert few.held is not None
    assert few.held.is_meta
    assert few.held.shape == (5, *data.shape)
    here = replace(few, held=data.draw(5).stored(torch.arange(5)))
    assert torch.equal(here.batch(torch.tensor([3, 1])), data.draw(5).batch(torch.tensor([3, 1])))
