"""Write a part of a model as an ONNX file, and check the file against PyTorch before it is written."""

from __future__ import annotations

import copy
import importlib.util
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Distribution as TorchDistribution

from vaescope.errors import ConfigurationError, RunError
from vaescope.models import FactoryModel, TrainableModel
from vaescope.models.module import evaluation_mode
from vaescope.models.recognition import first_line
from vaescope.nets.convolution import Deconvolution

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
LOGGERS = ("torch.onnx._internal.exporter._registration", "torch.fx.experimental.symbolic_shapes", "torch._guards")
TRACED_ITEMS = 3  # with one item, the tracer would fix the number of items
MAX_ITEMS = 1024  # that are checked if the module may compute in another way for more


def check_packages() -> None:
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f"export needs the packages {', '.join(PACKAGES)}; {', '.join(missing)} cannot be found. "
            "Run: pip install 'vaescope[onnx]'"
        )


class Traced(nn.Module):
    """A function of a model and tensors as a module of the tensors alone."""

    def __init__(self, model: nn.Module, function: Callable[..., tuple[Tensor, ...]]) -> None:
        super().__init__()
        self.model, self.function = model, function

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return self.function(self.model, *inputs)


@dataclass(frozen=True)
class ExportedPart:
    """A file to write: the function of the model that is traced, and inputs to try it on."""

    name: str
    function: Callable[..., tuple[Tensor, ...]]
    inputs: dict[str, Tensor]
    outputs: tuple[str, ...]


def checked_content(model: nn.Module, name: str, part: ExportedPart, tolerance: float) -> tuple[bytes, float]:
    """The content of a file, and the maximum difference of its outputs from PyTorch.

    Args:
        model: The model: one of this library in any precision, or a wrapped one in float32 on the CPU.
        name: What messages call it.
        part: What to write.
        tolerance: The largest difference, relative to the largest number or to 1.
    """
    import onnxruntime

    advice = "Pass to vs.wrap functions encode and decode that do"
    traceable = model
    if isinstance(model, TrainableModel):
        advice, traceable = "Use one of this library's nets", _portable(model)
    if isinstance(model, FactoryModel):
        advice = "Change the modules that the factory builds"
    traced = Traced(traceable, part.function)
    try:
        with evaluation_mode(traced):
            content, limits = _content(traced, part)
        session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    except Exception as error:  # of any kind: the code of the model runs
        raise ConfigurationError(
            f"{name} cannot be exported: its {part.name} must consist of operations of torch on tensors, for any "
            f"number of items, but {_reason(error)}. {advice}."
        ) from error
    with torch.no_grad():
        wanted = part.function(model, *part.inputs.values())
    size, scale = len(wanted[0]), max(1.0, *(float(value.abs().max()) for value in wanted))
    try:
        difference = max(_difference(session, part, wanted, rows) for rows in (slice(1), slice(1, size), slice(size)))
        for count in limits:
            index = torch.arange(count) % size
            repeated = replace(part, inputs={name: value[index] for name, value in part.inputs.items()})
            with torch.no_grad():
                wanted = part.function(model, *repeated.inputs.values())
            difference = max(difference, _difference(session, repeated, wanted, slice(count)))
    except _OtherShape as reason:
        raise ConfigurationError(
            f"{name} cannot be exported: its {part.name} must take any number of items, but {reason}. {advice}."
        ) from reason
    if not difference <= tolerance * scale:
        _refuse_other_results(model, name, part, tolerance * scale)
        raise RunError(
            f"{part.name}.onnx must be within {tolerance * scale:g} of PyTorch, but differs by {difference:g}. It was "
            "not written. Pass a larger tolerance, or try another version of onnx, onnxruntime or torch."
        )
    return content, difference


def _refuse_other_results(model: nn.Module, name: str, part: ExportedPart, tolerance: float) -> None:
    """Raise an error if PyTorch alone gives several results for the same items."""

    def results(rows: slice) -> Sequence[Tensor]:
        with torch.no_grad():
            return part.function(model, *(value[rows] for value in part.inputs.values()))

    whole = results(slice(None))
    again, fewer = results(slice(None)), results(slice(2))
    if not all(bool(one.isfinite().all()) for one in whole):
        problem = "returns numbers that are not finite. Check whether the model diverged"
    elif not _close(again, whole, tolerance):
        problem = "draws random numbers in evaluation mode. Pass to vs.wrap functions encode and decode that do not"
    elif not _close(fewer, whole, tolerance):
        problem = (
            "gives an item other results next to other items, as batch normalisation without running statistics does. "
            "Pass to vs.wrap functions encode and decode that do not"
        )
    else:
        return
    raise ConfigurationError(f"{name} cannot be exported: its {part.name} {problem}.")


def _close(some: Sequence[Tensor], whole: Sequence[Tensor], tolerance: float) -> bool:
    pairs = zip(some, whole, strict=True)
    return all(float((one - other[: len(one)]).abs().max()) <= tolerance for one, other in pairs)


class _OtherShape(Exception):
    """What a file does with another number of items than it was traced with."""


def _difference(session: InferenceSession, part: ExportedPart, wanted: Sequence[Tensor], rows: slice) -> float:
    """The maximum difference for some of the items, in one call of onnxruntime."""
    given = {name: value[rows].float().numpy() for name, value in part.inputs.items()}
    count = len(next(iter(given.values())))
    try:
        found = [torch.from_numpy(one) for one in session.run(list(part.outputs), given)]
    except Exception as error:  # onnxruntime has errors of several kinds
        raise _OtherShape(f"onnxruntime fails for {count}: {first_line(error)}") from error
    for ours, theirs in zip(found, wanted, strict=True):
        if ours.shape != theirs[rows].shape:
            raise _OtherShape(f"returns the shape {tuple(ours.shape)} for {count}")
    return max(float((ours - theirs[rows]).abs().max()) for ours, theirs in zip(found, wanted, strict=True))


def _content(traced: Traced, part: ExportedPart) -> tuple[bytes, list[int]]:
    """The graph for any number of items, without the paths of this machine; numbers of items that must be checked."""
    inputs = tuple(value[:TRACED_ITEMS].float() for value in part.inputs.values())
    shapes = (tuple({0: torch.export.Dim("items", min=1)} for _ in inputs),)
    with _quiet():
        exported = _program(traced, inputs, shapes)
        program = torch.onnx.export(
            exported,
            dynamo=True,
            dynamic_shapes=shapes,  # for the name of the dimension
            external_data=False,
            verbose=False,
            input_names=list(part.inputs),
            output_names=list(part.outputs),
        )
    assert program is not None  # with dynamo
    written = program.model_proto
    graph = written.graph
    for noted in (graph, *graph.node, *graph.value_info, *graph.input, *graph.output, *graph.initializer):
        noted.ClearField("metadata_props")
    # From these numbers of items on, the module may compute in another way than the program.
    limits = {int(one.upper) + 1 for one in exported.range_constraints.values() if one.upper < MAX_ITEMS}
    return bytes(written.SerializeToString()), sorted(limits)


def _program(traced: Traced, inputs: tuple[Tensor, ...], shapes: tuple[object, ...]) -> torch.export.ExportedProgram:
    """The operations of a module, for any number of items; an error is that of the first way to trace it."""
    try:
        return torch.export.export(traced, inputs, dynamic_shapes=shapes, strict=False)
    except Exception as error:
        # Modules may compute in another way for many items, as some of diffusers do from 64 on: a range is traced.
        # Analysing the code instead of running it is slower and fails more often, but allows len(x).
        some = (tuple({0: torch.export.Dim.AUTO} for _ in inputs),)
        for given, strict in ((some, False), (shapes, True)):
            with redirect_stderr(io.StringIO()), suppress(Exception):  # where it prints code that it cannot analyse
                found = torch.export.export(traced, inputs, dynamic_shapes=given, strict=strict)
                if found.range_constraints:
                    return found
        raise error from error.__cause__


def _reason(error: BaseException) -> str:
    """The first line of the error that the exporter's error comes from."""
    while error.__cause__ is not None:
        error = error.__cause__
    return first_line(error)


def _portable(model: TrainableModel) -> TrainableModel:
    """A copy in float32 in which a deconvolution is one ONNX operation."""
    copied = copy.deepcopy(model).float()
    for module in list(copied.modules()):
        for name, child in module.named_children():
            if isinstance(child, Deconvolution):
                setattr(module, name, _Transposed(child))
    return copied


class _Transposed(nn.Module):
    """A `Deconvolution` by PyTorch's own operation, also for one channel, where that is slower on a CPU."""

    def __init__(self, layer: Deconvolution) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        weight, (height, width) = self.layer.weight, self.layer.size
        image = F.conv_transpose2d(x, weight, self.layer.bias, stride=2, padding=weight.shape[-1] // 2 - 1)
        return image if image.shape[-2:] == (height, width) else image[..., :height, :width]


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence what the exporter says about PyTorch's own code, packages that are not needed, and why it failed.

    Distributions of torch do not check their arguments: they do so by numbers, which a tracer does not have.
    """
    loggers = [logging.getLogger(name) for name in LOGGERS]
    levels = [logger.level for logger in loggers]
    checks = TorchDistribution._validate_args
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        TorchDistribution.set_default_validate_args(False)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)` is deprecated", FutureWarning)
            warnings.filterwarnings("ignore", "# The axis name: items will not be used", UserWarning)
            yield
    finally:
        TorchDistribution.set_default_validate_args(checks)
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)
