"""Exported files give the same results as PyTorch for any number of items, and contain no local paths."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from vaescope.data import Dataset, open_dataset
from vaescope.data.arrays import from_array
from vaescope.data.conditions import conditions_of
from vaescope.errors import ConfigurationError, DataError, RunError
from vaescope.runs import Run, fit, onnx_files
from vaescope.runs.exporting import Exported, export
from vaescope.runs.pruning import prune

onnx = pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")
pytestmark = pytest.mark.usefixtures("onnx_operators")

NET = {"name": "mlp", "encoder_widths": [6], "decoder_widths": [6]}
CONV = {"name": "conv", "kernels": [4, 2], "channels": [4, 4], "hidden": 8}


def trained(folder: Path, data: Any = "digits", **settings: Any) -> Run:
    return fit(data, 3, **{"net": NET, "steps": 2, "batch": 8, "runs": folder, "device": "cpu", **settings})


def answers(path: Path, **given: Tensor) -> list[Tensor]:
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    found = session.run(None, {name: value.numpy() for name, value in given.items()})
    return [torch.from_numpy(one) for one in found]


def check_same(found: Exported, data: Dataset) -> None:
    """Both files against PyTorch on five items, a number that was neither traced nor checked."""
    index = torch.arange(70, 75)
    model: Any = found.run.model
    x, told = data.batch(index), conditions_of(model, data)
    beside = {} if told is None else {"condition": told[index]}
    with torch.no_grad():
        posterior = model.encode(x, *beside.values())
        decoded = model.decode(posterior.mean, *beside.values()).mean
    for file in found.files:
        if file.path.name == "encoder.onnx":
            mean, variance = answers(file.path, x=x, **beside)
            torch.testing.assert_close(mean, posterior.mean, rtol=0, atol=1e-4)
            torch.testing.assert_close(variance, posterior.variance, rtol=0, atol=1e-4)
        else:
            taken = {name: value for name, value in beside.items() if name in file.inputs}
            (again,) = answers(file.path, z=posterior.mean, **taken)
            torch.testing.assert_close(again, decoded, rtol=0, atol=1e-4)
        assert file.max_difference <= 1e-4
        assert file.size == file.path.stat().st_size


def operations(path: Path) -> list[str]:
    graph = onnx.load(path).graph
    return [node.op_type for node in graph.node]


def names(values: Any) -> list[str]:
    return [value.name for value in values]


def test_a_model_of_images_is_exported_with_one_operation_for_a_deconvolution(tmp_path: Path) -> None:
    run = trained(tmp_path, "dsprites-small", net=CONV)
    found = export(run)
    assert [file.path for file in found.files] == [run.path / "onnx" / f"{name}coder.onnx" for name in ("en", "de")]
    assert operations(found.files[1].path).count("ConvTranspose") == 2
    assert "ScatterND" not in operations(found.files[1].path)
    check_same(found, open_dataset("dsprites-small"))
    for file in found.files:
        written = onnx.load(file.path)
        onnx.checker.check_model(written)
        assert written.graph.input[0].type.tensor_type.shape.dim[0].dim_param == "items"
        assert str(Path(onnx_files.__file__).parent.parent).encode() not in file.path.read_bytes()


def test_images_whose_sizes_do_not_halve_are_cropped(tmp_path: Path) -> None:
    images = np.random.default_rng(0).random((80, 3, 17, 22))
    check_same(export(trained(tmp_path, images, net=CONV), data=images), from_array(images))


MODELS: dict[str, tuple[str, dict[str, Any], list[str], list[str]]] = {
    "conditional": ("digits", {"model": "conditional"}, ["x", "condition"], ["z", "condition"]),
    "identifiable": ("dsprites-small", {"model": "identifiable"}, ["x", "condition"], ["z"]),
    "autoencoder": ("digits", {"model": "autoencoder"}, ["x"], ["z"]),
    "full": ("digits", {"posterior": "full", "likelihood": "gaussian"}, ["x"], ["z"]),
}


@pytest.mark.parametrize(("name", "settings", "encoder", "decoder"), MODELS.values(), ids=MODELS)
def test_conditional_models_are_exported_with_their_condition(
    name: str, settings: dict[str, Any], encoder: list[str], decoder: list[str], tmp_path: Path
) -> None:
    found = export(trained(tmp_path, name, **settings), tmp_path / "elsewhere")
    assert [file.path.parent for file in found.files] == [tmp_path / "elsewhere"] * 2
    assert [list(file.inputs) for file in found.files] == [encoder, decoder]
    for file, outputs in zip(found.files, (["mean", "variance"], ["x"]), strict=True):
        graph = onnx.load(file.path).graph
        assert (names(graph.input), names(graph.output)) == (list(file.inputs), outputs)
    check_same(found, open_dataset(name))


def test_a_model_without_an_encoder_exports_its_decoder_with_the_reason(tmp_path: Path) -> None:
    found = export(trained(tmp_path, model="vgon"))
    assert [file.path.name for file in found.files] == ["decoder.onnx"]
    assert "There is no encoder.onnx: the code of a model 'vgon' is a gradient" in found.summary()
    assert found.plain()["missing"]
    check_same(found, open_dataset("digits"))


def test_a_run_in_double_precision_is_exported_in_single(tmp_path: Path) -> None:
    run = trained(tmp_path, precision="float64")
    found = export(run, check_items=5)
    assert found.items == 5
    assert 0 < max(file.max_difference for file in found.files) < 1e-4
    assert next(run.model.parameters()).dtype == torch.float64


def test_a_pruned_run_is_exported_and_reported(tmp_path: Path) -> None:
    run = prune(trained(tmp_path), keep=[0, 2]).run
    found = export(run)
    assert dict(found.files[1].inputs) == {"z": (2,)}
    rows = found.rows()
    assert [row["inputs"] for row in rows] == ["x (1 x 8 x 8)", "z (2)"]
    assert found.summary().startswith(f"Run {run.id} as encoder.onnx and decoder.onnx: within ")


def test_a_file_that_differs_from_pytorch_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(onnx_files.Traced):
        def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
            return tuple(value + 1 for value in super().forward(*inputs))

    run = trained(tmp_path)
    monkeypatch.setattr(onnx_files, "Traced", Wrong)
    with pytest.raises(RunError, match=r"encoder\.onnx .*0\.000\d+ of PyTorch.* 1"):
        export(run)
    assert not (run.path / "onnx").exists()


def test_large_numbers_are_compared_by_their_size(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).random((80, 4))
    run = trained(tmp_path, rows, precision="float64")
    with torch.no_grad():
        run.model.decoder.output.bias += 1e5
    assert 1e-4 < export(run, data=rows).files[1].max_difference < 10


def test_a_missing_package_is_named_with_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert importlib.util.find_spec("onnxruntime") is None
    with pytest.raises(ConfigurationError, match=r"onnxruntime.*vaescope\[onnx\]"):
        export(tmp_path)


def test_unsupported_exports_are_named(tmp_path: Path) -> None:
    codes = tmp_path / "codes.npz"
    codes.write_bytes(b"")
    with pytest.raises(ConfigurationError, match=r"run must be .*codes\.npz"):
        export(codes)
    with pytest.raises(DataError, match="data in memory"):
        export(trained(tmp_path / "runs", np.random.default_rng(0).random((20, 4))).path)
