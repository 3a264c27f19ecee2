"""Export a model as ONNX: encoder and decoder as two files that need neither PyTorch nor this library."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import overload

import torch
from torch import Tensor, nn

from vaescope.checks import finite_number
from vaescope.data import DataLike, Dataset
from vaescope.data.conditions import conditions_of
from vaescope.encoding import WrappedModel, checked_model, model_name, open_for, recognise
from vaescope.encoding.scvi import ScviModel
from vaescope.encoding.untouched import in_single_precision, untouched
from vaescope.errors import ConfigurationError
from vaescope.files import write_atomically
from vaescope.models import LatentModule, TrainableModel
from vaescope.models.latent_model import LatentModel
from vaescope.models.recognition import Function
from vaescope.notebook import NotebookResult
from vaescope.runs.folders import make_folder
from vaescope.runs.onnx_files import ExportedPart, check_packages, checked_content
from vaescope.runs.record import Table
from vaescope.runs.rows import Row
from vaescope.runs.run import Run
from vaescope.runs.store import data_of, load, sample_items

FOLDER, CHECK_ITEMS = "onnx", 64
# Relative to the largest number, or to 1 if all are smaller.
RUN_TOLERANCE, MODEL_TOLERANCE = 1e-4, 1e-5
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
    """The files of a model's encoder and decoder, checked on `items` items.

    Attributes:
        name: The name of the model, or 'run' with an id.
        missing: Why there is only one file; empty if there are two.
    """

    name: str
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
        written = [file.path.name for file in self.files]
        largest = max(file.max_difference for file in self.files)
        text = (
            f"{self.name[0].upper()}{self.name[1:]} as {' and '.join(written)}: within {largest:.2g} of PyTorch on "
            f"{self.items} items."
        )
        if not self.missing:
            return text
        (absent,) = {"encoder.onnx", "decoder.onnx"} - {*written}
        return f"{text} There is no {absent}: {self.missing}."

    def plain(self) -> Table:
        """The result in tables, lists, text and numbers."""
        return {"model": self.name, "summary": self.summary(), "files": self.rows(), "missing": self.missing}


@dataclass(frozen=True, kw_only=True)
class ExportedRun(Exported):
    """The files of a run's encoder and decoder; see `Exported` for the other attributes."""

    run: Run

    def plain(self) -> Table:
        """The result in tables, lists, text and numbers."""
        return {"run": self.run.id, **{name: value for name, value in super().plain().items() if name != "model"}}


@overload
def export(
    subject: Run | str | Path,
    folder: str | Path | None = ...,
    *,
    data: DataLike | None = ...,
    check_items: int = ...,
    tolerance: float | None = ...,
    seed: int = ...,
    runs: str | Path | None = ...,
) -> ExportedRun: ...
@overload
def export(
    subject: nn.Module | Function | ScviModel,
    folder: str | Path,
    *,
    data: DataLike,
    check_items: int = ...,
    tolerance: float | None = ...,
    seed: int = ...,
) -> Exported: ...
def export(
    subject: Run | str | Path | nn.Module | Function | ScviModel,
    folder: str | Path | None = None,
    *,
    data: DataLike | None = None,
    check_items: int = CHECK_ITEMS,
    tolerance: float | None = None,
    seed: int = 0,
    runs: str | Path | None = None,
) -> Exported:
    """Write encoder.onnx (x -> mean, variance) and decoder.onnx (z -> the mean of x) for any number of items.

    The files of a conditional model take the condition, too. Numbers are float32, whatever the model was trained in,
    and pixels lie in the `range` of the data, or in [0, 1].
    Both files are checked with onnxruntime before anything is written. Of a model without a decoder, only the encoder
    is written.

    Args:
        subject: A run, its folder, or the beginning of its id; or a model of any library, see `vaescope.wrap`.
        folder: Where the files are written; a model of another library needs one. Default: the folder 'onnx' of the
            run.
        data: Items to check the files on. Default: the data of the run.
        check_items: Maximum number of items to check.
        tolerance: The largest difference from PyTorch, relative to the largest number, or to 1 if all are smaller.
            Default: 1e-4 for runs, 1e-5 for other models.
        seed: Random seed for item selection.
        runs: Folder of runs to find an id in.
    """
    check_packages()
    allowed = None if tolerance is None else finite_number("tolerance", tolerance, above=0)
    if isinstance(subject, Run | str | Path):
        run = load(subject, runs)
        some = sample_items(data_of(run, data), check_items, seed)
        target = run.path / FOLDER if folder is None else Path(folder)
        files, missing = _write(run.model, some, target, RUN_TOLERANCE if allowed is None else allowed)
        return ExportedRun(f"run {run.id}", files, len(some), missing, run=run)
    model = checked_model(subject)
    if folder is None:
        raise ConfigurationError("A model that is not a run has no folder to write to. Pass folder.")
    opened = open_for(model, data)
    recognise(model, opened)
    some = sample_items(opened, check_items, seed, model)
    files, missing = _write(model, some, Path(folder), MODEL_TOLERANCE if allowed is None else allowed)
    return Exported(model_name(model), files, len(some), missing)


def _write(model: LatentModel, some: Dataset, folder: Path, tolerance: float) -> tuple[tuple[ExportedFile, ...], str]:
    """The files that were written, and why one is missing."""
    if isinstance(model, WrappedModel):
        _check_exportable(model)
    elif not isinstance(model, TrainableModel):
        raise ConfigurationError(
            f"export takes a run, a model that vaescope builds or a model of another library, got {model_name(model)}."
        )
    running: AbstractContextManager[None] = (
        in_single_precision(model) if isinstance(model, WrappedModel) else untouched(model)
    )
    with torch.no_grad(), running:
        if isinstance(model, WrappedModel):
            parts, missing = _parts_of_wrapped(model, some), model.no_decoder
        else:
            parts = _parts(model, some.in_data_scale(torch.arange(len(some))), conditions_of(model, some))
            missing = "" if len(parts) == 2 else NO_ENCODER
        made = [(part, *checked_content(model, model_name(model), part, tolerance)) for part in parts]
    make_folder(folder)
    files = []
    for part, content, difference in made:
        path = folder / f"{part.name}.onnx"
        write_atomically(path, content)
        shapes = {name: tuple(value.shape[1:]) for name, value in part.inputs.items()}
        files.append(ExportedFile(path, shapes, part.outputs, len(content), difference))
    return tuple(files), missing


def _check_exportable(model: WrappedModel) -> None:
    if model.takes_cells:
        raise ConfigurationError(
            f"{model.name} cannot be exported: models of scvi-tools encode the cells of an AnnData with their batches "
            "and covariates, which are no tensor. Export the module that you need with torch.onnx."
        )
    if any(isinstance(module, torch.jit.ScriptModule) for module in model.modules()):
        raise ConfigurationError(
            f"{model.name} cannot be exported: it is a program of TorchScript, which torch cannot export. Pass the "
            "module that it was made from."
        )
    if model.groups:
        raise ConfigurationError(
            f"{model.name} must have one group of latents to be exported, it has {len(model.groups)} "
            f"({', '.join(model.groups)}). Pass to vs.wrap a function encode that returns one of them."
        )


def _encoded(model: TrainableModel, x: Tensor, condition: Tensor | None = None) -> tuple[Tensor, ...]:
    posterior = model.encode(model.pixel_scale.to_model(x), condition)
    return posterior.mean, posterior.variance


def _decoded(model: TrainableModel, z: Tensor, condition: Tensor | None = None) -> tuple[Tensor, ...]:
    return (model.pixel_scale.to_data(model.decode(z, condition).mean),)


def _parts(model: TrainableModel, x: Tensor, condition: Tensor | None) -> list[ExportedPart]:
    """The decoder, and the encoder if there is one, with items and their mean codes to try them on."""
    x = x.to(model.latent_mask.dtype)
    given = {} if condition is None else {"condition": condition.to(x)}
    z = _encoded(model, x, given.get("condition"))[0].detach()
    ours = model if isinstance(model, LatentModule) else None
    conditioned = ours is not None and ours.conditioned_decoder
    decoder = ExportedPart("decoder", _decoded, {"z": z, **(given if conditioned else {})}, ("x",))
    if ours is not None and ours.encoder is None:
        return [decoder]
    return [ExportedPart("encoder", _encoded, {"x": x, **given}, ("mean", "variance")), decoder]


def _encoded_by_wrapped(model: WrappedModel, x: Tensor) -> tuple[Tensor, ...]:
    posterior, _ = model.run_encoder(x)[""]
    return posterior.mean.float(), posterior.variance.float()


def _decoded_by_wrapped(model: WrappedModel, z: Tensor) -> tuple[Tensor, ...]:
    return (model.run_decoder(z).mean,)


def _parts_of_wrapped(model: WrappedModel, data: Dataset) -> list[ExportedPart]:
    """The encoder, and the decoder if there is one, with items and their mean codes to try them on."""
    x = data.batch(torch.arange(len(data))).float().cpu()
    encoder = ExportedPart("encoder", _encoded_by_wrapped, {"x": x}, ("mean", "variance"))
    if model.no_decoder:
        return [encoder]
    z, _ = _encoded_by_wrapped(model, x)
    return [encoder, ExportedPart("decoder", _decoded_by_wrapped, {"z": z}, ("x",))]
