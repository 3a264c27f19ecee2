"""The adapter for scvi-tools with a stand-in for one of its models; tests/integrations_real has the real ones."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import vaescope as vs
from vaescope.data import Subset
from vaescope.encoding.scvi import ScviAdapter, is_scvi_model
from vaescope.errors import ConfigurationError, DataError

CELLS, GENES, LATENTS = 30, 5, 3


class Module(nn.Module):
    """The module of a model: a linear decoder of codes, batches and library sizes."""

    __module__ = "scvi.module"

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(LATENTS, GENES)

    def inference(self) -> None:
        """Makes this a module of scvi-tools."""

    def generative(self, z: Tensor, library: Tensor, batch_index: Tensor) -> dict[str, Any]:
        return {"px": SimpleNamespace(mean=torch.softmax(self.layer(z), 1) * library.exp())}


class NeedsLabels(Module):
    __module__ = "scvi.module"

    def generative(self, z: Tensor, library: Tensor, batch_index: Tensor, y: Tensor) -> dict[str, Any]:  # type: ignore[override]
        raise NotImplementedError


class AnnData:
    """Counts and tables, of which each copy has its own."""

    isbacked = False

    def __init__(self, X: Any, *, obs: Any = None, var: Any = None, layers: Any = (), obsm: Any = (), uns: Any = ()):
        self.X, self.obs, self.var = X, dict(obs or {}), dict(var or {})
        self.layers, self.obsm, self.uns = dict(layers), dict(obsm), dict(uns)
        self.n_obs = len(X)


class Model:
    """A model of scvi-tools, which registers an AnnData when it first encodes it, and draws a random number."""

    __module__ = "scvi.model"

    def __init__(self, adata: AnnData | None, module: Module | None = None, **stats: int) -> None:
        self.adata, self.module, self.stats = adata, Module() if module is None else module, stats
        self.calls: list[list[int]] = []

    def get_latent_representation(
        self, adata: AnnData, *, indices: list[int], batch_size: int, return_dist: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        if adata.X.shape[1] != GENES:
            raise ValueError("Number of vars is not the same\nand more")
        torch.rand(1)
        adata.uns["_scvi_uuid"] = "registered"
        adata.obs["_scvi_batch"] = 0
        self.calls.append(indices)
        rows = adata.X[indices]
        return rows[:, :LATENTS] / 10, np.exp(-rows[:, -LATENTS:])

    def get_anndata_manager(self, adata: AnnData, required: bool = False) -> SimpleNamespace:
        labels = np.arange(len(adata.X))[:, None] % 2
        fields = {"X": adata.X, "labels": labels}
        return SimpleNamespace(summary_stats=self.stats, get_from_registry=fields.__getitem__)


def cells(seed: int = 0) -> AnnData:
    return AnnData(np.random.default_rng(seed).poisson(3.0, (CELLS, GENES)).astype(np.float32))


@pytest.fixture
def model() -> Model:
    return Model(cells())


def test_a_model_is_recognised_by_the_package_of_its_class(model: Model) -> None:
    class Derived(Model):
        """Written by a user."""

    assert is_scvi_model(model)
    assert is_scvi_model(Derived(cells()))
    assert not is_scvi_model(model.module)
    assert not is_scvi_model(Model)
    assert not is_scvi_model(cells())


def test_codes_are_those_of_the_package_in_the_order_of_the_cells(model: Model) -> None:
    found = vs.encode(vs.wrap(model, batch_size=8))
    assert model.adata is not None
    mean, variance = model.get_latent_representation(
        model.adata, indices=list(range(CELLS)), batch_size=8, return_dist=True
    )
    assert np.array_equal(found.mean, mean)
    assert np.array_equal(found.variance, variance)
    assert max(len(call) for call in model.calls[:-1]) == 8


def test_parts_of_the_cells_are_encoded_from_the_right_cells(model: Model) -> None:
    wrapped = vs.wrap(model)
    whole, opened = vs.encode(wrapped), wrapped.open(None)
    index = torch.tensor([7, 3, 11])
    part = Subset.of(Subset.of(opened, torch.arange(2, 30)), index)
    assert torch.equal(vs.encode(wrapped, part).mean, whole.mean[index + 2])
    assert torch.equal(part.batch(torch.arange(3)), opened.batch(index + 2))
    assert torch.equal(vs.encode(model, part).mean, whole.mean[index + 2])


def test_other_cells_are_not_changed_and_not_confused(model: Model) -> None:
    wrapped, other = vs.wrap(model), cells(1)
    own, theirs = vs.encode(wrapped), vs.encode(wrapped, other)
    assert other.uns == {}
    assert other.obs == {}
    assert not torch.equal(own.mean, theirs.mean)
    assert torch.equal(vs.encode(wrapped).mean, own.mean)
    assert wrapped.open(other) is wrapped.open(other)


def test_the_random_state_is_restored(model: Model) -> None:
    before = torch.get_rng_state()
    vs.diagnose(model)
    assert torch.equal(torch.get_rng_state(), before)


def test_codes_are_decoded_for_a_cell_of_median_library_size(model: Model) -> None:
    assert model.adata is not None
    found = vs.encoding.reconstruct(model, model.adata)
    assert found.shape == (CELLS, GENES)
    median = float(np.median(model.adata.X.sum(1)))
    torch.testing.assert_close(found.sum(1), torch.full((CELLS,), median))


def test_labels_are_those_that_the_model_was_set_up_with() -> None:
    assert vs.encode(Model(cells())).labels is None
    labels = vs.encode(Model(cells(), n_labels=2)).labels
    assert labels is not None
    assert labels.tolist() == [cell % 2 for cell in range(CELLS)]


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (Model(cells(), n_extra_continuous_covs=1), "covariates"),
        (Model(cells(), NeedsLabels()), "takes z, library, batch_index, y"),
    ],
)
def test_a_decoder_that_needs_more_than_a_code_is_named(model: Model, reason: str) -> None:
    wrapped = vs.wrap(model)
    assert vs.encode(wrapped).latents == LATENTS
    assert reason in wrapped.no_decoder
    decoded = vs.wrap(model, decode=lambda z: z @ torch.ones(LATENTS, GENES))
    assert vs.encoding.reconstruct(decoded, model.adata).shape == (CELLS, GENES)


def test_unsupported_requests_are_one_sentence(model: Model) -> None:
    class NoDistribution(Model):
        def get_latent_representation(self, adata: AnnData) -> np.ndarray:  # type: ignore[override]
            raise NotImplementedError

    few = AnnData(np.ones((4, 2), dtype=np.float32))
    for subject, data, facts in (
        (model, few, r"Model of scvi-tools cannot encode these cells: ValueError: Number of vars is not the same\.$"),
        (model, np.ones((4, GENES)), "AnnData, got ndarray"),
        (Model(None), None, "without an AnnData. Pass one"),
        (NoDistribution(cells()), None, "no argument return_dist"),
        (model.module, cells(), "Pass the model, not its attribute module"),
    ):
        with pytest.raises((ConfigurationError, DataError), match=facts):
            vs.diagnose(subject, data)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"^Model of scvi-tools encodes cells .* Pass an AnnData"):
        vs.wrap(model).encode(torch.ones(2, GENES))


def test_two_models_are_compared_on_the_cells_of_the_first(model: Model) -> None:
    found = vs.compare([model, Model(cells())])
    assert found.pairs()[0]["similarity"] == pytest.approx(1)
    assert found.names == ("Model (1)", "Model (2)")


def test_cells_have_a_fingerprint_and_are_not_moved(model: Model) -> None:
    adapter = ScviAdapter(model)  # type: ignore[arg-type]
    opened, other = adapter.open(), adapter.open(cells(1))
    assert opened.fingerprint != other.fingerprint
    assert opened.to("cpu") is opened
