"""The device that models train on: its precisions, its free memory, and whether data fit into it."""

from __future__ import annotations

import torch

from vaescope.data.dataset import Dataset
from vaescope.errors import ConfigurationError
from vaescope.memory import available_memory
from vaescope.training.plan import PRECISIONS, Plan

MAX_RESIDENT_SHARE = 0.7  # of the free memory of an accelerator; the rest is for weights, noise and activations


def check_precision(plan: Plan, device: torch.device) -> None:
    """Raise an error unless the device has the numbers of the plan."""
    if device.type == "mps" and PRECISIONS[plan.precision].kept == torch.float64:
        raise ConfigurationError("precision must be 'float32' on device 'mps', which has no float64; got 'float64'.")


def free_memory(device: torch.device) -> float:
    """Free bytes on the device, including those that torch caches for reuse."""
    if device.type == "cpu":
        return available_memory()
    if device.type == "mps":
        return torch.mps.recommended_max_memory() - torch.mps.driver_allocated_memory()
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)


def exceeds_memory(data: Dataset, device: torch.device) -> bool:
    """Whether an accelerator has too little memory for all items, so that they have to be streamed."""
    return device.type != "cpu" and data.resident_bytes > MAX_RESIDENT_SHARE * free_memory(device)
