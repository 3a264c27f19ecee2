"""A damaged, half-written or occupied run is recognised and named in one sentence, and never half-read."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from vaescope.errors import DamagedRunWarning, RunError, VaescopeError, WriteError
from vaescope.runs import Run, Store, fit
from vaescope.runs.record import identity_of
from vaescope.runs.sealed import sealed
from vaescope.training import Trainer
from vaescope.training.checkpoint import load_state, load_tensors, save_state, save_tensors

DATA = np.random.default_rng(0).normal(size=(80, 6))
NET = {"name": "mlp", "encoder_widths": [8], "decoder_widths": [8]}


def train(folder: Path) -> Run:
    return fit(
        DATA,
        2,
        net=NET,
        steps=30,
        batch=16,
        log_every=5,
        evaluate_every=10,
        checkpoint_seconds=0.0,
        runs=folder,
        device="cpu",
    )


def stop_after(monkeypatch: pytest.MonkeyPatch, calls: int) -> None:
    """Training is interrupted at the call after this many."""
    advance, left = Trainer.advance, [calls]

    def interrupted(trainer: Trainer) -> Any:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return advance(trainer)

    monkeypatch.setattr(Trainer, "advance", interrupted)


@pytest.fixture(scope="module")
def complete(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return train(tmp_path_factory.mktemp("complete"))


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("interrupted")
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 3)
        with pytest.raises(KeyboardInterrupt):
            train(folder)
    (run,) = folder.iterdir()
    return run


def copied(run: Path, folder: Path) -> Path:
    return Path(shutil.copytree(run, folder / run.name))


def same_weights(run: Run, other: Run) -> bool:
    ours, theirs = run.model.state_dict(), other.model.state_dict()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def empty(file: Path) -> None:
    file.write_bytes(b"")


def flip(position: float) -> Callable[[Path], None]:
    """Flips one bit of the byte at a share of the file's length."""

    def damage(file: Path) -> None:
        content = bytearray(file.read_bytes())
        content[int(position * (len(content) - 1))] ^= 4
        file.write_bytes(bytes(content))

    return damage


def garbage(file: Path) -> None:
    file.write_bytes(b"\x89PNG not a safetensors file at all" * 9)


def without_checksum(file: Path) -> None:
    from safetensors.torch import load_file, save_file

    save_file(load_file(file), file, metadata={"step": "15"})


DAMAGES = {
    "truncated": truncate,
    "empty": empty,
    "garbage": garbage,
    "a bit of its length": flip(0.0),
    "a bit of its middle": flip(0.5),
    "a bit of its last quarter": flip(0.75),
    "a bit of its end": flip(1.0),
    "without checksum": without_checksum,
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_state_is_named_and_the_remedy_works(
    damage: Callable[[Path], None], interrupted: Path, complete: Run, tmp_path: Path
) -> None:
    state = copied(interrupted, tmp_path) / "state.safetensors"
    history = (state.parent / "history.jsonl").read_bytes()
    damage(state)
    with pytest.raises(RunError, match=r"state\.safetensors is damaged"):
        train(tmp_path)
    assert (state.parent / "history.jsonl").read_bytes() == history
    state.unlink()
    assert same_weights(train(tmp_path), complete)


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_model_is_named_and_the_remedy_works(
    damage: Callable[[Path], None], complete: Run, tmp_path: Path
) -> None:
    model = copied(complete.path, tmp_path) / "model.safetensors"
    damage(model)
    with pytest.raises(RunError, match=r"model\.safetensors is damaged"):
        _ = Run.open(model.parent).model
    model.unlink()
    assert same_weights(train(tmp_path), complete)


def test_a_missing_model_is_named_and_written_again_from_the_state(complete: Run, tmp_path: Path) -> None:
    path = copied(complete.path, tmp_path)
    (path / "model.safetensors").unlink()
    with pytest.raises(RunError, match=r"model\.safetensors .*no such file"):
        _ = Run.open(path).model
    assert same_weights(train(tmp_path), complete)


def test_a_model_of_other_shapes_is_named(complete: Run, tmp_path: Path) -> None:
    file = copied(complete.path, tmp_path) / "model.safetensors"
    tensors, _ = load_tensors(file)
    save_tensors(file, {**tensors, "decoder.output.bias": torch.zeros(7)})
    with pytest.raises(RunError, match=r"model\.safetensors .*checksum"):
        _ = Run.open(file.parent).model
    record = file.with_name("run.json")
    record.write_text(with_entry("provenance", "checksums", value={})(record.read_text()))
    with pytest.raises(RunError, match=r"model\.safetensors .*'decoder\."):
        _ = Run.open(file.parent).model


def test_a_state_of_another_model_is_named(interrupted: Path, tmp_path: Path) -> None:
    file = copied(interrupted, tmp_path) / "state.safetensors"
    state = load_state(file)
    state.parameters = state.parameters[:, :64]
    save_state(file, state)
    with pytest.raises(RunError, match=r"state\.safetensors .*parameters"):
        train(tmp_path)


def without(record: dict[str, Any]) -> dict[str, Any]:
    """The content of a file without its checksum."""
    return {name: value for name, value in record.items() if name != "sha256"}


def resealed(record: dict[str, Any]) -> str:
    """A file whose checksum is right, so that only its content is wrong."""
    return json.dumps(sealed(without(record)))


def with_entry(*keys: str, value: Any = None) -> Callable[[str], str]:
    """run.json with one entry changed, or dropped when there is no value."""

    def damage(content: str) -> str:
        record = json.loads(content)
        table = record
        for key in keys[:-1]:
            table = table[key]
        if value is None:
            del table[keys[-1]]
        else:
            table[keys[-1]] = value
        return resealed(record)

    return damage


def rehashed(damage: Callable[[str], str]) -> Callable[[str], str]:
    """The damage, with the id of the resulting configuration: only reading it shows the damage."""

    def applied(content: str) -> str:
        record = json.loads(damage(content))
        return resealed({**record, "id": identity_of(record["configuration"])})

    return applied


RECORDS = {
    "truncated": (lambda content: content[: len(content) // 2], "JSONDecodeError"),
    "empty": (lambda content: "", "JSONDecodeError"),
    "a list": (lambda content: "[]", "TypeError"),
    "a number": (lambda content: "3", "TypeError"),
    "other format": (rehashed(with_entry("configuration", "format", value=0)), "must be 1, got 0"),
    "no format": (rehashed(with_entry("configuration", "format")), "'format'"),
    "no configuration": (with_entry("configuration"), "'configuration'"),
    "no plan": (rehashed(with_entry("configuration", "plan")), "'plan'"),
    "no data": (with_entry("configuration", "data"), "'data'"),
    "no name of the data": (with_entry("configuration", "data", "name"), "'name'"),
    "no status": (with_entry("status"), "'status'"),
    "no id": (with_entry("id"), "'id'"),
    "odd status": (with_entry("status", value="trained"), "status must be .*'trained'"),
    "odd plan": (with_entry("configuration", "plan", "steps", value=-3), "configuration must be that of"),
    "impossible plan": (rehashed(with_entry("configuration", "plan", "steps", value=-3)), "steps must be"),
    "unknown option": (rehashed(with_entry("configuration", "member", "colour", value="red")), "colour"),
    "unknown entry": (rehashed(with_entry("configuration", "colour", value="red")), "colour"),
    "a list as provenance": (with_entry("provenance", value=[1]), "AttributeError"),
    "a number as device": (with_entry("provenance", "device", value=3), "3 must be of type str"),
    "text as plug-ins": (with_entry("provenance", "plugins", value="abc"), "AttributeError"),
    "configuration is text": (with_entry("configuration", value="text"), "TypeError|AttributeError"),
    **{
        f"items of shape {shape}": (rehashed(with_entry("configuration", "data", "shape", value=shape)), words)
        for shape, words in (
            ("abc", "'a'|str"),
            ([[1]], "type int"),
            ([1.5, 2, 3], "type int"),
            ([], "shape"),
            ([0], "shape"),
            ([-1, -6], "shape"),
            ([10**40], "shape"),
        )
    },
    "changed without its checksum": (lambda content: content.replace('"seed": 0', '"seed": 7'), "checksum does not"),
    "without its checksum": (lambda content: json.dumps(without(json.loads(content))), "checksum was removed"),
    "changed by hand": (with_entry("configuration", "member", "seed", value=7), "configuration must be that of"),
}


@pytest.mark.parametrize(("damage", "words"), RECORDS.values(), ids=RECORDS)
def test_a_damaged_record_is_named_by_whatever_reads_it(
    damage: Callable[[str], str], words: str, complete: Run, tmp_path: Path
) -> None:
    file = copied(complete.path, tmp_path) / "run.json"
    file.write_text(damage(file.read_text()))
    sentence = rf"(?s)run\.json is damaged .*({words})"
    with pytest.raises(RunError, match=sentence):
        Run.open(file.parent)
    with pytest.warns(DamagedRunWarning, match=sentence):
        assert list(Store(tmp_path).runs()) == []
    with pytest.raises(RunError, match=sentence):
        train(tmp_path)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("data", "shape"), [1, 10**6, 10**6]),
        (("data", "shape"), [2**50]),
        (("architecture", "net", "encoder_widths"), [10**9]),
        (("architecture", "net", "encoder_widths"), [2**50, 2**50]),
    ],
    ids=str,
)
def test_a_record_that_asks_for_terabytes_gets_no_memory(
    path: tuple[str, ...], value: list[int], complete: Run, tmp_path: Path
) -> None:
    file = copied(complete.path, tmp_path) / "run.json"
    file.write_text(rehashed(with_entry("configuration", *path, value=value))(file.read_text()))
    with pytest.raises(VaescopeError, match=r"weights of the run.s model|must fit into memory"):
        _ = Run.open(file.parent).model


def test_a_folder_without_a_record_is_not_a_run_but_can_become_one(complete: Run, tmp_path: Path) -> None:
    (tmp_path / complete.id).mkdir()
    with pytest.raises(RunError, match=r"must hold a run\.json to be a run"):
        Run.open(tmp_path / complete.id)
    assert list(Store(tmp_path).runs()) == []
    assert same_weights(train(tmp_path), complete)


HISTORIES = {
    "garbage": (b"\xff\x00garbage\n", "line 3"),
    "not a table": (b"3\n", "line 3"),
    "no step": (b'{"split": "train"}\n', "line 3.*'step'"),
    "no split": (b'{"step": 5}\n', "line 3.*'split'"),
    "step as text": (b'{"step": "5", "split": "train"}\n', "line 3"),
    "empty line": (b"\n", "line 3"),
}


@pytest.mark.parametrize(("line", "words"), HISTORIES.values(), ids=HISTORIES)
def test_a_damaged_line_of_the_history_is_named(line: bytes, words: str, interrupted: Path, tmp_path: Path) -> None:
    file = copied(interrupted, tmp_path) / "history.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    content = b"".join([*lines[:2], line, *lines[2:]])
    file.write_bytes(content)
    for read in (lambda: Run.open(file.parent).history, lambda: train(tmp_path)):
        with pytest.raises(RunError, match=rf"history\.jsonl, {words}"):
            read()
    assert file.read_bytes() == content


def test_an_incomplete_last_line_is_not_a_row(interrupted: Path, complete: Run, tmp_path: Path) -> None:
    path = copied(interrupted, tmp_path)
    rows = Run.open(path).history
    with (path / "history.jsonl").open("ab") as file:
        file.write(b'{"step": 20, "spl')
    assert Run.open(path).history == rows
    assert train(tmp_path).history == complete.history


def test_a_history_shorter_than_the_checkpoint_is_named(interrupted: Path, tmp_path: Path) -> None:
    file = copied(interrupted, tmp_path) / "history.jsonl"
    file.write_bytes(file.read_bytes().splitlines(keepends=True)[0])
    with pytest.raises(RunError, match=r"history\.jsonl must reach step 15.*ends at 5"):
        train(tmp_path)
    file.unlink()
    with pytest.raises(RunError, match=r"history\.jsonl must reach step 15.*ends at 0"):
        train(tmp_path)


def test_a_complete_run_with_a_shortened_history_is_not_half_read(complete: Run, tmp_path: Path) -> None:
    file = copied(complete.path, tmp_path) / "history.jsonl"
    file.write_bytes(b"".join(file.read_bytes().splitlines(keepends=True)[:-3]))
    with pytest.raises(RunError, match=r"history\.jsonl is damaged .*checksum"):
        _ = Run.open(file.parent).history


def test_leftovers_of_a_killed_process_are_removed_when_training_resumes(
    interrupted: Path, complete: Run, tmp_path: Path
) -> None:
    path = copied(interrupted, tmp_path)
    left = path / ".state.safetensors.4711.part"
    left.write_bytes(b"half a state")
    assert same_weights(train(tmp_path), complete)
    assert not left.exists()


def test_a_run_in_training_without_a_state_starts_again(interrupted: Path, complete: Run, tmp_path: Path) -> None:
    path = copied(interrupted, tmp_path)
    (path / "state.safetensors").unlink()
    with pytest.raises(RunError, match="'training'"):
        _ = Run.open(path).model
    run = train(tmp_path)
    assert same_weights(run, complete)
    assert run.history == complete.history


def test_a_run_that_another_process_trains_is_left_alone(interrupted: Path, complete: Run, tmp_path: Path) -> None:
    path = copied(interrupted, tmp_path)
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    holder = "import sys, filelock; lock = filelock.FileLock(sys.argv[1]); lock.acquire(); print(flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", holder, str(path / ".lock")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        with pytest.raises(RunError, match=f"{path.name} is being trained"):
            train(tmp_path)
        other.kill()
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before
    assert same_weights(train(tmp_path), complete)


def fail_from(call: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function on a disk that is full from its `call`-th call."""
    count = [0]

    def wrapped(*arguments: Any) -> Any:
        if stat.S_ISDIR(os.stat(arguments[0]).st_mode):
            return function(*arguments)
        count[0] += 1
        if count[0] >= call:
            raise OSError(errno.ENOSPC, "No space left on device")
        return function(*arguments)

    return wrapped


@pytest.mark.parametrize(("owner", "name"), [(os, "fsync"), (Path, "replace")], ids=["fsync", "replace"])
@pytest.mark.parametrize("call", [1, 2, 3, 5, 7, 8])
def test_a_full_disk_is_named_and_the_same_call_recovers_without_loss(
    owner: Any,
    name: str,
    call: int,
    interrupted: Path,
    complete: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = copied(interrupted, tmp_path)
    state = (path / "state.safetensors").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, fail_from(call, getattr(owner, name)))
        with pytest.raises(WriteError, match="No space left on device"):
            train(tmp_path)
    if call < 3:
        assert (path / "state.safetensors").read_bytes() == state
    assert Run.open(path).status == "training"
    assert load_state(path / "state.safetensors").step >= 15
    assert same_weights(train(tmp_path), complete)


def test_a_full_disk_keeps_the_earlier_content_and_says_so(
    interrupted: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = copied(interrupted, tmp_path)
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    monkeypatch.setattr(Path, "replace", fail_from(1, Path.replace))
    with pytest.raises(WriteError, match="No space left on device"):
        train(tmp_path)
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before


def test_a_read_only_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file where the folder of runs should be")
    with pytest.raises(RunError, match=r"file/\w+ must be a folder"):
        train(tmp_path / "file")
