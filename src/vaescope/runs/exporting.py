"""Export a run as ONNX: encoder and decoder as two files that need neither PyTorch nor this library."""

from __future__ import annotations

import copy
import importlib.util
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vaescope.data import DataLike
from vaescope.data.conditions import conditions_of
from vaescope.errors import ConfigurationError, RunError
from vaescope.files import write_atomically
from vaescope.models import LatentModule
from vaescope.nets.convolution import Deconvolution
from vaescope.notebook import NotebookResult
from vaescope.runs.folders import make_folder
from vaescope.runs.record import Table
from vaescope.runs.rows import Row
from vaescope.runs.run import Run
from vaescope.runs.store import data_of, named_run, sample_items

if TYPE_CHECKING:
    from onnxruntime import InferenceSession

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
FOLDER, CHECK_ITEMS = "onnx", 64
TOLERANCE = 1e-4  # relative to the largest number, or to 1 if all are smaller
TRACED_ITEMS = 3  # with one item, the tracer would fix the number of items
NO_ENCODER = "the code of a model 'vgon' is a gradient through its decoder, which ONNX cannot express"


@dataclass(frozen=True)
class ExportedFile:
    """One file: its inputs and outputs by name, and the maximum difference from PyTorch."""

    path: Path
    inputs: Mapping[str, tuple[int, ...]]
    outputs: tuple[str, ...]
    size: int
    max_difference: float


@dataclass(frozen=True)
class Exported(NotebookResult):
    """The files of a run's encoder and decoder, checked on `items` items; `missing` says why there is no encoder."""

    run: Run
    files: tuple[ExportedFile, ...]
    items: int
    missing: str = ""

    def rows(self) -> list[Row]:
        """One row for each file; inputs with the shape of one item."""
        return [
            {
                "file": str(file.path),
                "inputs": ", ".join(f"{name} ({' x '.join(map(str, shape))})" for name, shape in file.inputs.items()),
                "outputs": ", ".join(file.outputs),
                "bytes": file.size,
                "max_difference": file.max_difference,
            }
            for file in self.files
        ]

    def summary(self) -> str:
        """What was written and how much it differs from PyTorch."""
        names = " and ".join(file.path.name for file in self.files)
        largest = max(file.max_difference for file in self.files)
        text = f"Run {self.run.id} as {names}: within {largest:.2g} of PyTorch on {self.items} items."
        return f"{text} There is no encoder.onnx: {self.missing}." if self.missing else text

    def plain(self) -> Table:
        """The result in tables, lists, text and numbers."""
        return {"run": self.run.id, "summary": self.summary(), "files": self.rows(), "missing": self.missing}


def export(
    run: Run | str | Path,
    folder: str | Path | None = None,
    *,
    data: DataLike | None = None,
    check_items: int = CHECK_ITEMS,
    seed: int = 0,
    runs: str | Path | None = None,
) -> Exported:
    """Write encoder.onnx (x -> mean, variance) and decoder.onnx (z -> the mean of x) for any number of items.

    The files of a conditional model take the condition, too. Numbers are float32, whatever the run was trained in. Both
    files are checked with onnxruntime before anything is written.

    Args:
        run: A run, its folder, or the beginning of its id.
        folder: Default: the folder 'onnx' of the run.
        data: Items to check the files on. Default: the data of the run.
        check_items: Maximum number of items to check.
        seed: Random seed for item selection.
        runs: Folder of runs to find an id in.
    """
    _check_packages()
    found = named_run(run, runs)
    some = sample_items(data_of(found, data), check_items, seed)
    parts = _parts(found.model, some.batch(torch.arange(len(some))), conditions_of(found.model, some))
    target = found.path / FOLDER if folder is None else Path(folder)
    made = [(part, *_checked_content(found.model, part)) for part in parts]
    make_folder(target)
    files = []
    for part, content, difference in made:
        path = target / f"{part.name}.onnx"
        write_atomically(path, content)
        shapes = {name: tuple(value.shape[1:]) for name, value in part.inputs.items()}
        files.append(ExportedFile(path, shapes, part.outputs, len(content), difference))
    return Exported(found, tuple(files), len(some), "" if len(parts) == 2 else NO_ENCODER)


def _check_packages() -> None:
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ConfigurationError(
            f"export needs the packages {', '.join(PACKAGES)}; {', '.join(missing)} cannot be found. "
            "Run: pip install 'vaescope[onnx]'"
        )


def _encoded(model: LatentModule, x: Tensor, condition: Tensor | None = None) -> tuple[Tensor, ...]:
    posterior = model.encode(x, condition)
    return posterior.mean, posterior.variance


def _decoded(model: LatentModule, z: Tensor, condition: Tensor | None = None) -> tuple[Tensor, ...]:
    return (model.decode(z, condition).mean,)


class _Traced(nn.Module):
    """A function of a model and tensors as a module of the tensors alone."""

    def __init__(self, model: LatentModule, function: Callable[..., tuple[Tensor, ...]]) -> None:
        super().__init__()
        self.model, self.function = model, function

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return self.function(self.model, *inputs)


@dataclass(frozen=True)
class _Part:
    """A file to write: the function of the model that is traced, and inputs to try it on."""

    name: str
    function: Callable[..., tuple[Tensor, ...]]
    inputs: dict[str, Tensor]
    outputs: tuple[str, ...]


def _parts(model: LatentModule, x: Tensor, condition: Tensor | None) -> list[_Part]:
    """The decoder, and the encoder if there is one, with items and their mean codes to try them on."""
    x = x.to(model.latent_mask.dtype)
    given = {} if condition is None else {"condition": condition.to(x)}
    with torch.no_grad():
        z = model.encode(x, given.get("condition")).mean
    decoder = _Part("decoder", _decoded, {"z": z, **(given if model.conditioned_decoder else {})}, ("x",))
    if model.encoder is None:
        return [decoder]
    return [_Part("encoder", _encoded, {"x": x, **given}, ("mean", "variance")), decoder]


def _checked_content(model: LatentModule, part: _Part) -> tuple[bytes, float]:
    """The content of a file, and the maximum difference of its outputs from PyTorch."""
    import onnxruntime

    content = _content(model, part)
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    with torch.no_grad():
        wanted = part.function(model, *part.inputs.values())
    size, scale = len(wanted[0]), max(1.0, *(float(value.abs().max()) for value in wanted))
    difference = max(_difference(session, part, wanted, rows) for rows in (slice(1), slice(1, size), slice(size)))
    if not difference <= TOLERANCE * scale:
        raise RunError(
            f"{part.name}.onnx must be within {TOLERANCE * scale:g} of PyTorch, but differs by {difference:g}. It was "
            "not written. Try another version of onnx, onnxruntime or torch."
        )
    return content, difference


def _difference(session: InferenceSession, part: _Part, wanted: Sequence[Tensor], rows: slice) -> float:
    """The maximum difference for some of the items, in one call of onnxruntime."""
    given = {name: value[rows].float().numpy() for name, value in part.inputs.items()}
    found = (torch.from_numpy(one) for one in session.run(list(part.outputs), given))
    return max(float((ours - theirs[rows]).abs().max()) for ours, theirs in zip(found, wanted, strict=True))


def _content(model: LatentModule, part: _Part) -> bytes:
    """The graph for any number of items, without the paths of this machine."""
    items = torch.export.Dim("items", min=1)
    with _quiet():
        program = torch.onnx.export(
            _Traced(_portable(model), part.function).eval(),
            tuple(value[:TRACED_ITEMS].float() for value in part.inputs.values()),
            dynamo=True,
            external_data=False,
            verbose=False,
            input_names=list(part.inputs),
            output_names=list(part.outputs),
            dynamic_shapes=(tuple({0: items} for _ in part.inputs),),
        )
    assert program is not None  # with dynamo
    written = program.model_proto
    graph = written.graph
    for noted in (graph, *graph.node, *graph.value_info, *graph.input, *graph.output, *graph.initializer):
        noted.ClearField("metadata_props")
    return bytes(written.SerializeToString())


def _portable(model: LatentModule) -> LatentModule:
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
    """Silence warnings of the exporter about PyTorch's own code and about packages that are not needed."""
    logger = logging.getLogger("torch.onnx._internal.exporter._registration")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"`isinstance\(treespec, LeafSpec\)` is deprecated", FutureWarning)
            warnings.filterwarnings("ignore", "# The axis name: items will not be used", UserWarning)
            yield
    finally:
        logger.setLevel(level)
