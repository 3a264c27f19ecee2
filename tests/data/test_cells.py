"""Cells of an AnnData and of .h5ad files: layers, labels and factors; nothing becomes dense."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import sparse
from typer.testing import CliRunner

import vaescope as vs
from vaescope import cli
from vaescope.data import Dataset, open_dataset
from vaescope.data.sparse import SparseDataset
from vaescope.errors import DataError, LikelihoodWarning

anndata = pytest.importorskip("anndata")
pandas = pytest.importorskip("pandas")

CELLS, GENES = 40, 6
NET = {"name": "mlp", "encoder_widths": [8], "decoder_widths": [8]}


def made() -> anndata.AnnData:
    draw = np.random.default_rng(0)
    counts = sparse.csr_matrix(draw.poisson(0.8, (CELLS, GENES)).astype(np.float32))
    obs = pandas.DataFrame(
        {
            "kind": pandas.Categorical(draw.choice(["B cell", "T cell", "NK"], CELLS)),
            "batch": draw.choice(["one", "two"], CELLS),
            "age": draw.integers(0, 3, CELLS),
            "score": draw.normal(size=CELLS),
        },
        index=[f"cell {cell}" for cell in range(CELLS)],
    )
    found = anndata.AnnData(np.log1p(counts), obs=obs, layers={"counts": counts.tocsc(), "dense": counts.toarray()})
    found.raw = anndata.AnnData(sparse.hstack([counts, counts]).tocsr(), obs=obs)
    return found


@pytest.fixture(scope="module")
def adata() -> anndata.AnnData:
    return made()


@pytest.fixture(scope="module")
def file(adata: anndata.AnnData, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cells") / "cells.h5ad"
    adata.write_h5ad(path)
    return path


@pytest.fixture(params=["in memory", "backed", "file"])
def source(request: pytest.FixtureRequest, adata: anndata.AnnData, file: Path) -> object:
    if request.param == "backed":
        return anndata.read_h5ad(file, backed="r")
    return adata if request.param == "in memory" else file


def rows(data: Dataset) -> np.ndarray:
    return data.batch(torch.arange(len(data))).numpy()


@pytest.mark.parametrize("layer", ["counts", "dense", "raw", "X"])
def test_a_layer_is_opened_as_it_is_stored(source: object, adata: anndata.AnnData, layer: str) -> None:
    data = open_dataset(source, layer=layer)
    known = {"X": adata.X, "raw": adata.raw.X, **adata.layers}[layer]
    assert isinstance(data, SparseDataset) is (layer != "dense")
    assert data.holds_counts is (layer != "X")
    np.testing.assert_array_equal(rows(data), known if layer == "dense" else known.toarray())


def test_labels_and_factors_are_columns(source: object, adata: anndata.AnnData) -> None:
    data = open_dataset(source, layer="counts", labels="kind", factors=["batch", "age"])
    assert data.label_names == ("B cell", "NK", "T cell")
    assert [data.label_names[number] for number in data.labels.tolist()] == list(adata.obs["kind"])
    assert (data.factor_table.names, data.factor_table.sizes) == (("batch", "age"), (2, 3))
    np.testing.assert_array_equal(data.factors[:, 0], adata.obs["batch"] == "two")
    np.testing.assert_array_equal(data.factors[:, 1], adata.obs["age"])


def test_a_matrix_that_does_not_hold_counts_names_the_layer_that_does(source: object) -> None:
    with pytest.warns(LikelihoodWarning, match="layer='counts'"):
        open_dataset(source)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_dataset(source, layer="X")


def test_part_of_an_anndata_with_a_dense_matrix_is_opened(adata: anndata.AnnData) -> None:
    part = adata[adata.obs["batch"] == "one"]
    np.testing.assert_array_equal(rows(open_dataset(part, layer="dense")), part.layers["dense"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"layer": "spliced"}, r"layer must be one of X, raw, counts, dense, got 'spliced'"),
        ({"layer": "counts", "labels": "cell type"}, "obs, which has kind, batch, age, score, got 'cell type'"),
        ({"layer": "counts", "factors": ["donor"]}, "got 'donor'"),
    ],
)
def test_a_wrong_option_is_one_sentence(source: object, options: dict[str, object], said: str) -> None:
    with pytest.raises(DataError, match=said):
        open_dataset(source, **options)


def test_cells_without_a_label_are_named(adata: anndata.AnnData) -> None:
    changed = adata.copy()
    changed.obs["kind"] = changed.obs["kind"].cat.remove_categories("NK")
    with pytest.raises(DataError, match=r"the column 'kind' has 13 missing values, the first for item 4"):
        open_dataset(changed, layer="counts", labels="kind")


def test_other_containers_and_files_are_refused(adata: anndata.AnnData, tmp_path: Path) -> None:
    several = SimpleNamespace(mod={}, obs=adata.obs, uns={}, n_obs=CELLS)
    with pytest.raises(DataError, match="MuData"):
        open_dataset(several)
    with pytest.raises(DataError, match="got no layer and no X"):
        open_dataset(anndata.AnnData(obs=adata.obs))
    (tmp_path / "cells.h5ad").write_bytes(b"no such file")
    with pytest.raises(DataError, match=r"an \.h5ad file; reading it failed"):
        open_dataset(tmp_path / "cells.h5ad")


def test_a_missing_package_is_one_sentence(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anndata.io", None)
    with pytest.raises(DataError, match=r"needs the package anndata.*vaescope\[anndata\]"):
        open_dataset(file)


def test_a_run_on_a_file_opens_it_again(file: Path, tmp_path: Path) -> None:
    data = {"name": str(file), "layer": "counts", "labels": "kind"}
    run = vs.fit(data, 2, net=NET, steps=2, runs=tmp_path)
    assert run.configuration.plain()["architecture"]["likelihood"]["name"] == "negative_binomial"
    codes = vs.Run.open(run.path).encode()
    assert torch.equal(codes.labels, open_dataset(data).labels)


def test_a_run_on_an_anndata_encodes_it_and_parts_of_it(adata: anndata.AnnData, tmp_path: Path) -> None:
    cells = anndata.AnnData(adata.layers["counts"].tocsr(), obs=adata.obs)
    run = vs.fit(cells, 2, net=NET, steps=2, runs=tmp_path)
    torch.testing.assert_close(vs.encode(run, cells[:3]).mean, run.encode().mean[:3])
    torch.testing.assert_close(vs.encode(run, cells[0]).mean, run.encode().mean[:1])


def test_the_command_line_trains_on_a_layer(file: Path, tmp_path: Path) -> None:
    options = ["--set", "data.layer=counts", "--set", 'data.factors=["batch"]', "--likelihood", "negative_binomial"]
    command = ["fit", str(file), *options, "--latents", "2", "--steps", "2", "--runs", str(tmp_path)]
    result = CliRunner().invoke(cli.app, command)
    assert result.exit_code == 0, result.output
    (run,) = vs.runs.Store(tmp_path).runs()
    assert run.provenance.source == {"name": str(file), "layer": "counts", "factors": ["batch"]}
