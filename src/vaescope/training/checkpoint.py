"""The state of training, and files of tensors: written completely or not at all, with a checksum that is verified."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from vaescope.errors import RunError, unreadable
from vaescope.files import write_atomically
from vaescope.training.optimisers import Slots

CHECKSUM = "sha256"
HEADER_START = 8  # bytes before the header, which give its length
SLOT, BUFFER = "slot.", "buffer."
REMEDY = "Restore it from a copy, or move it away: training restarts from the remaining files."


@dataclass
class State:
    """The state of an ensemble, which engines change in place.

    Attributes:
        step: Number of steps done.
        parameters: One vector for each member.
        slots: The moments of the optimisers, by name.
        buffers: The persistent buffers of the model, by name; empty for a model without any.
    """

    step: int
    parameters: Float[Tensor, "members size"]
    slots: Slots
    buffers: dict[str, Float[Tensor, "members ..."]] = field(default_factory=dict)

    def copy(self) -> State:
        """A copy that later steps do not change."""
        slots, buffers = (
            {name: tensor.clone() for name, tensor in tensors.items()} for tensors in (self.slots, self.buffers)
        )
        return State(self.step, self.parameters.clone(), slots, buffers)

    def of_member(self, member: int) -> State:
        """The state of one member, as views that share its memory; the step counts are separate."""
        one = slice(member, member + 1)
        slots, buffers = (
            {name: tensor[one] for name, tensor in tensors.items()} for tensors in (self.slots, self.buffers)
        )
        return State(self.step, self.parameters[one], slots, buffers)

    def restore(self, other: State) -> None:
        """Copy the values of another state into these tensors, which programs may hold."""
        self.step = other.step
        self.parameters.copy_(other.parameters)
        for mine, theirs in ((self.slots, other.slots), (self.buffers, other.buffers)):
            for name, tensor in mine.items():
                tensor.copy_(theirs[name])


def save_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, str] | None = None) -> str:
    """Write named tensors and notes (text by name) as one safetensors file; returns the SHA-256 of its bytes."""
    flat = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    notes = dict(notes or {})
    content = _in_order(save(flat, metadata={**notes, CHECKSUM: _checksum(flat, notes)}))
    write_atomically(path, content)
    return hashlib.sha256(content).hexdigest()


def _in_order(content: bytes) -> bytes:
    """The file with its header in alphabetical order: safetensors writes notes in a varying order."""
    size = int.from_bytes(content[:HEADER_START], "little")
    header = json.loads(content[HEADER_START : HEADER_START + size])
    text = json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % HEADER_START)  # tensors stay aligned
    return len(text).to_bytes(HEADER_START, "little") + text + content[HEADER_START + size :]


def load_tensors(path: Path, checksum: str | None = None) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read the tensors and notes that `save_tensors` wrote, and verify their checksum.

    If `checksum` is given, it must be that of the whole file, which distinguishes the file from that of another run.
    """
    try:
        content = path.read_bytes()
        tensors = load(content)
        size = int.from_bytes(content[:HEADER_START], "little")
        metadata = dict(json.loads(content[HEADER_START : HEADER_START + size]).get("__metadata__", {}))
    except FileNotFoundError as error:
        raise RunError(f"File not found: {path}.") from error
    except OSError as error:
        raise unreadable(path, error) from error
    except (SafetensorError, ValueError, RecursionError) as error:
        raise RunError(f"{path} is damaged and was not read ({error}). {REMEDY}") from error
    own = metadata.pop(CHECKSUM, None) == _checksum(tensors, metadata)
    if not own or checksum not in (None, hashlib.sha256(content).hexdigest()):
        raise RunError(f"{path} is damaged and was not read: its checksum does not match its content. {REMEDY}")
    return tensors, metadata


def save_state(path: Path, state: State, notes: Mapping[str, str] | None = None) -> None:
    """Write a training state, and notes (text by name)."""
    slots = {f"{SLOT}{name}": slot for name, slot in state.slots.items()}
    buffers = {f"{BUFFER}{name}": buffer for name, buffer in state.buffers.items()}
    save_tensors(path, {"parameters": state.parameters, **slots, **buffers}, {**(notes or {}), "step": str(state.step)})


def load_state(path: Path) -> State:
    """Read a training state; one without buffers, as version 0.1 wrote them, has none."""
    tensors, notes = load_tensors(path)
    if "parameters" not in tensors or "step" not in notes:
        raise RunError(f"{path} must hold a training state (parameters and a step), got {sorted(tensors)}.")
    slots, buffers = (
        {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
        for prefix in (SLOT, BUFFER)
    )
    return State(int(notes["step"]), tensors["parameters"], slots, buffers)


def _checksum(tensors: Mapping[str, Tensor], notes: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(notes, sort_keys=True).encode())
    for name in sorted(tensors):
        tensor = tensors[name].contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
