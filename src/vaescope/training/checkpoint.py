"""Tensors on disk: written whole or not at all, with a checksum that is verified when they are read."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from vaescope.errors import RunError
from vaescope.training.engines import State

CHECKSUM = "sha256"


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file's content so that a reader, or a crash, sees the old or the new, never a part."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise RunError(
            f"{path} could not be written ({error.strerror}); what was there before is unchanged. "
            "Free some space or choose another folder, then run the same command again: it resumes."
        ) from error


def save_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, str] | None = None) -> None:
    """Write named tensors and notes (text by name) as one safetensors file."""
    flat = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    notes = dict(notes or {})
    write_atomically(path, save(flat, metadata={**notes, CHECKSUM: _checksum(flat, notes)}))


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read the tensors and notes of `save_tensors`, after verifying that they are what was written."""
    if not path.is_file():
        raise RunError(f"{path} must exist to be read, there is no such file.")
    try:
        with safe_open(str(path), framework="pt") as file:
            metadata = dict(file.metadata() or {})
            names = list(file.keys())
            tensors = {name: file.get_tensor(name) for name in names}
    except (SafetensorError, OSError, ValueError) as error:
        raise RunError(
            f"{path} is damaged and was not read ({error}). Delete it: training starts again from what is left."
        ) from error
    if metadata.pop(CHECKSUM, None) != _checksum(tensors, metadata):
        raise RunError(
            f"{path} is damaged and was not read: its checksum does not match its content. "
            "Delete it: training starts again from what is left."
        )
    return tensors, metadata


def save_state(path: Path, state: State) -> None:
    """Write where training stands."""
    tensors = {"parameters": state.parameters, **{f"slot.{name}": slot for name, slot in state.slots.items()}}
    save_tensors(path, tensors, {"step": json.dumps(state.step)})


def load_state(path: Path) -> State:
    """Read where training stood."""
    tensors, notes = load_tensors(path)
    if "parameters" not in tensors or "step" not in notes:
        raise RunError(f"{path} must hold a training state (parameters and a step), got {sorted(tensors)}.")
    slots = {name.removeprefix("slot."): tensor for name, tensor in tensors.items() if name.startswith("slot.")}
    return State(int(notes["step"]), tensors["parameters"], slots)


def _checksum(tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(notes, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
