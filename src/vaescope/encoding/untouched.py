"""Run a model and give it back as it was: modes, buffers, devices, gradients and random numbers."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from vaescope.errors import ConfigurationError
from vaescope.models.latent_model import LatentModel
from vaescope.models.module import evaluation_mode
from vaescope.models.recognition import first_line


def tensors_of(model: nn.Module | LatentModel) -> Iterator[Tensor]:
    """Parameters, then buffers."""
    assert isinstance(model, nn.Module)
    yield from model.parameters()
    yield from model.buffers()


def place_of(model: nn.Module | LatentModel) -> tuple[torch.device, torch.dtype]:
    """The device and the float type of a model: those of its first tensor of real numbers."""
    for tensor in tensors_of(model):
        if tensor.is_floating_point():
            return tensor.device, tensor.dtype
    return torch.device("cpu"), torch.float32


def checked_device(device: torch.device | str) -> torch.device:
    """The device, or an error that says which there are."""
    try:
        found = torch.device(device)
    except RuntimeError as error:
        raise ConfigurationError(
            f"device must be one that torch knows, such as 'cpu' or 'cuda', got {device!r}."
        ) from error
    if found.type == "cuda" and (found.index or 0) >= torch.cuda.device_count():
        raise ConfigurationError(
            f"device {str(found)!r} needs a GPU that torch can see; torch sees {torch.cuda.device_count()}. Use 'cpu'."
        )
    try:
        torch.empty(0, device=found)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ConfigurationError(
            f"device {str(found)!r} must be one that this torch can use, but it cannot: {first_line(error)}. Use 'cpu'."
        ) from error
    return found


@contextmanager
def untouched(model: nn.Module | LatentModel, device: torch.device | str | None = None) -> Iterator[None]:
    """Evaluation mode on `device` (default: where the model is); afterwards, nothing about the model has changed."""
    assert isinstance(model, nn.Module)
    if any(tensor.is_meta for tensor in tensors_of(model)):
        raise ConfigurationError(
            "The model must have weights to run, but some are on the device 'meta', which holds no numbers. Load them."
        )
    if any(is_lazy(tensor) for tensor in tensors_of(model)):
        raise ConfigurationError(
            "The model must have weights to run, but some of its layers are lazy: they get theirs with their first "
            "batch. Call it on one, then train it or load its weights."
        )
    used = {tensor.device for tensor in tensors_of(model)}
    used |= set() if device is None else {checked_device(device)}
    accelerators = sorted({one.index or 0 for one in used if one.type == "cuda"})
    before = random.getstate(), np.random.get_state()  # noqa: NPY002 - a foreign model may draw from it
    with evaluation_mode(model), _same_gradients(model), _same_buffers(model), torch.random.fork_rng(accelerators):
        try:
            with _on_device(model, device):
                yield
        finally:
            random.setstate(before[0])
            np.random.set_state(before[1])  # noqa: NPY002


@contextmanager
def _same_gradients(model: nn.Module) -> Iterator[None]:
    """Set gradients aside: they need not be moved or converted, and a model may compute others."""
    gradients = [(parameter, parameter.grad) for parameter in model.parameters()]
    for parameter, _ in gradients:
        parameter.grad = None
    try:
        yield
    finally:
        for parameter, gradient in gradients:
            parameter.grad = gradient


@contextmanager
def _same_buffers(model: nn.Module) -> Iterator[None]:
    """Give every buffer back its tensor and its numbers."""
    owners = [(module, name, buffer) for module in model.modules() for name, buffer in module._buffers.items()]
    copies = [None if buffer is None else buffer.detach().clone() for *_, buffer in owners]
    try:
        yield
    finally:
        for (module, name, buffer), copy in zip(owners, copies, strict=True):
            module._buffers[name] = buffer
            if buffer is not None and copy is not None and not torch.equal(buffer, copy):
                with torch.no_grad():
                    buffer.copy_(copy)


@contextmanager
def _on_device(model: nn.Module, device: torch.device | str | None) -> Iterator[None]:
    """Move the model, and move each parameter back to where it was; buffers are given back by `_same_buffers`."""
    if device is None or all(tensor.device == torch.device(device) for tensor in tensors_of(model)):
        yield
        return
    places = [(parameter, parameter.device) for parameter in model.parameters()]
    model.to(device)
    try:
        yield
    finally:
        for parameter, place in places:
            parameter.data = parameter.data.to(place)


@contextmanager
def in_single_precision(model: nn.Module | LatentModel) -> Iterator[None]:
    """Evaluation mode, on the CPU, in float32; afterwards, nothing about the model has changed."""
    assert isinstance(model, nn.Module)
    parameters = [(parameter, parameter.data) for parameter in model.parameters()]
    with untouched(model):
        try:
            for parameter, data in parameters:
                parameter.data = _single(data)
            for module in model.modules():
                for name, buffer in module._buffers.items():
                    module._buffers[name] = None if buffer is None else _single(buffer)
            yield
        finally:
            for parameter, data in parameters:
                parameter.data = data


def _single(values: Tensor) -> Tensor:
    return values.cpu().float() if values.is_floating_point() else values.cpu()
