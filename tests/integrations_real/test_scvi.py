"""Models of scvi-tools: cells are encoded with their batches and covariates, by the package's own functions."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import scvi
import torch
from by_hand import Untouched, assert_equal, assert_same_types, expected, half_trained, use_everything

import vaescope as vs

CELLS, GENES, LATENTS = 300, 40, 6
COLUMNS = ("batch", "kind", "age")

scvi.settings.seed = 0  # of the split into cells for training and validation; by default another one each time
logging.getLogger("scvi").setLevel(logging.ERROR)
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


def made_cells(cells: int = CELLS, *, seed: int = 0) -> anndata.AnnData:
    """Counts of cells that differ in two directions, in two batches, as a sparse matrix."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(cells, 2)) @ np.random.default_rng(1).normal(size=(2, GENES))
    shares = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    counts = rng.poisson(shares * rng.lognormal(6, 0.3, size=(cells, 1))).astype(np.float32)
    obs = pd.DataFrame(
        {"batch": rng.choice(["a", "b"], cells), "kind": rng.choice(["x", "y"], cells), "age": rng.normal(size=cells)},
        index=[f"cell {number}" for number in range(cells)],
    )
    return anndata.AnnData(sp.csr_matrix(counts), obs=obs)


def trained(model: scvi.model.base.BaseModelClass, epochs: int = 40) -> scvi.model.base.BaseModelClass:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.train(
            max_epochs=epochs,
            accelerator="cpu",
            batch_size=64,
            plan_kwargs={"lr": 1e-2, "n_epochs_kl_warmup": 1},
            enable_progress_bar=False,
            logger=False,
        )
    return model


@pytest.fixture(scope="module")
def cells() -> anndata.AnnData:
    found = made_cells()
    scvi.model.SCVI.setup_anndata(found, batch_key="batch")
    return found


@pytest.fixture(scope="module")
def model(cells: anndata.AnnData) -> scvi.model.SCVI:
    torch.manual_seed(0)
    return trained(scvi.model.SCVI(cells, n_latent=LATENTS, n_hidden=32))


def codes(model: scvi.model.base.BaseModelClass, adata: anndata.AnnData | None = None) -> tuple[torch.Tensor, ...]:
    """Mean and variance as scvi-tools returns them; the random state is restored."""
    with torch.random.fork_rng():
        moments = model.get_latent_representation(adata, batch_size=256, return_dist=True)
    return tuple(torch.from_numpy(part).double() for part in moments)


def contents(adata: anndata.AnnData) -> dict[str, object]:
    return {
        "counts": adata.X.toarray().copy(),
        "columns": tuple(adata.obs.columns),
        "uns": tuple(sorted(adata.uns)),
        "obsm": tuple(sorted(adata.obsm)),
    }


def test_the_types_are_those_of_the_codes_of_scvi_tools(model: scvi.model.SCVI) -> None:
    found = vs.diagnose(model)
    assert found.name == "SCVI"
    assert_same_types(found.types, expected(*codes(model)))
    assert len(found.types.types) == LATENTS
    assert 0 < len(found.types.passive) < LATENTS


def test_a_model_and_its_cells_are_left_as_they_were(
    cells: anndata.AnnData, tmp_path: Path, untouched: Untouched
) -> None:
    model = trained(scvi.model.SCVI(cells, n_latent=LATENTS, n_hidden=16), epochs=1)
    half_trained(model.module)
    before = contents(cells)
    with untouched(model.module):
        results = use_everything(model, None, tmp_path)
    assert_equal(contents(cells), before, "cells")
    model.module.eval()
    assert_same_types(results["diagnose"].types, expected(*codes(model)))


@pytest.mark.parametrize("view", [False, True])
def test_other_cells_are_encoded_and_left_as_they_were(model: scvi.model.SCVI, view: bool) -> None:
    other = made_cells(80, seed=2)
    other = other[10:70] if view else other
    before = contents(other)
    found = vs.diagnose(model, other)
    assert found.types.statistics.count == len(other)
    assert_equal(contents(other), before, "cells")
    assert_same_types(found.types, expected(*codes(model, other.copy())))


def test_fewer_cells_than_there_are_can_be_encoded(model: scvi.model.SCVI) -> None:
    found = vs.diagnose(model, items=100)
    assert found.types.statistics.count == 100


def test_encoding_gives_the_means_and_variances_of_all_cells(model: scvi.model.SCVI, cells: anndata.AnnData) -> None:
    mean, variance = codes(model)
    for found in (vs.encode(model), vs.encode(model, cells)):
        assert torch.equal(found.mean, mean)
        assert torch.equal(found.variance, variance)


def test_two_models_are_compared_on_the_same_cells(model: scvi.model.SCVI, cells: anndata.AnnData) -> None:
    torch.manual_seed(1)
    other = trained(scvi.model.SCVI(cells, n_latent=3, n_hidden=16), epochs=20)
    found = vs.compare({"wide": model, "narrow": other})
    assert [row["latents"] for row in found.rows()] == [LATENTS, 3]
    assert found.pairs()[0]["similarity"] == pytest.approx(
        vs.similarity.linear_cka(codes(model)[0], codes(other)[0]), abs=1e-6
    )


def test_codes_are_decoded_to_the_expected_counts_of_a_usual_cell(model: scvi.model.SCVI) -> None:
    wrapped = vs.wrap(model)
    encoded = vs.encode(wrapped)
    totals = np.asarray(model.adata.X.sum(1)).ravel()
    with torch.no_grad():
        given = {"library": torch.full((5, 1), np.log(np.median(totals)), dtype=torch.float32)}
        z, batch = encoded.mean[:5].float(), torch.zeros(5, 1, dtype=torch.long)
        wanted = model.module.generative(z=z, batch_index=batch, **given)["px"].mean
    found = vs.encoding.decode(wrapped, encoded.mean[:5])
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-6)
    assert found.sum(1).mean() == pytest.approx(np.median(totals), rel=0.1)
    assert "expected counts" in wrapped.summary()


def test_reconstructions_resemble_the_counts(model: scvi.model.SCVI) -> None:
    shares = vs.encoding.reconstruct(model, model.adata)
    counts = torch.from_numpy(model.adata.X.toarray())
    found = torch.corrcoef(
        torch.stack(
            [(shares / shares.sum(1, keepdim=True)).flatten(), (counts / counts.sum(1, keepdim=True)).flatten()]
        )
    )
    assert found[0, 1] > 0.8


def test_batches_and_covariates_matter_if_the_model_encodes_them() -> None:
    adata = made_cells()
    scvi.model.SCVI.setup_anndata(
        adata, batch_key="batch", categorical_covariate_keys=["kind"], continuous_covariate_keys=["age"]
    )
    model = trained(scvi.model.SCVI(adata, n_latent=LATENTS, n_hidden=16, encode_covariates=True), epochs=2)
    wrapped = vs.wrap(model)
    found = vs.encode(wrapped)
    assert torch.equal(found.mean, codes(model)[0])
    changed = adata.copy()
    changed.obs["age"] = 5.0
    assert not torch.allclose(vs.encode(model, changed).mean, found.mean)
    assert "covariates" in wrapped.summary()
    with pytest.raises(vs.VaescopeError, match="covariates"):
        vs.encoding.reconstruct(wrapped, adata)


def test_labels_of_the_model_come_with_the_codes() -> None:
    adata = made_cells()
    scvi.model.SCANVI.setup_anndata(adata, batch_key="batch", labels_key="kind", unlabeled_category="unknown")
    model = trained(scvi.model.SCANVI(adata, n_latent=LATENTS, n_hidden=16), epochs=1)
    wrapped = vs.wrap(model)
    found = vs.encode(wrapped)
    assert_same_types(vs.diagnose(model).types, expected(*codes(model)))
    assert found.labels is not None
    assert torch.equal(
        found.labels == found.labels[0], torch.tensor((adata.obs["kind"] == adata.obs["kind"].iloc[0]).values)
    )
    assert "prior given the label" in wrapped.summary()


@pytest.mark.parametrize("name", ["LinearSCVI", "PEAKVI", "AUTOZI"])
def test_other_models_are_typed_in_the_same_way(name: str) -> None:
    adata, kind = made_cells(), getattr(scvi.model, name)
    kind.setup_anndata(adata, batch_key="batch")
    model = trained(kind(adata, n_latent=LATENTS), epochs=1)
    assert_same_types(vs.diagnose(model).types, expected(*codes(model)))


def test_a_logistic_normal_posterior_is_typed_before_the_softmax(cells: anndata.AnnData) -> None:
    model = trained(scvi.model.SCVI(cells, n_latent=LATENTS, latent_distribution="ln"), epochs=1)
    wrapped = vs.wrap(model)
    assert_same_types(vs.diagnose(wrapped).types, expected(*codes(model)))
    assert "before the softmax" in wrapped.summary()


def test_unsupported_requests_are_one_sentence(model: scvi.model.SCVI, cells: anndata.AnnData) -> None:
    counts = cells.X.toarray()
    for subject, data, facts in (
        (model.module, cells, "is the module of a model.*Pass the model"),
        (model, counts, "AnnData, got ndarray"),
        (model, made_cells()[:, :20].copy(), "Expected: 40 Received: 20"),
        (model, anndata.AnnData(cells.X), "batch"),
    ):
        with pytest.raises(vs.VaescopeError, match=facts) as caught:
            vs.diagnose(subject, data)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 400


@pytest.mark.parametrize("zero_inflated", [False, True])
def test_negative_binomial_likelihoods_are_those_of_the_package(zero_inflated: bool) -> None:
    draw = np.random.default_rng(0)
    x = torch.tensor(draw.negative_binomial(1, 0.05, (50, GENES)), dtype=torch.float64)
    output = torch.tensor(draw.normal(size=(50, GENES)))
    module = vs.likelihoods.NegativeBinomial(zero_inflated=zero_inflated).module((GENES,)).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.tensor(draw.normal(size=GENES)))
    mean, theta = x.sum(1, keepdim=True) * output.softmax(1), module.log_theta.exp()
    if zero_inflated:
        theirs = scvi.distributions.ZeroInflatedNegativeBinomial(mu=mean, theta=theta, zi_logits=module.zero_logit)
    else:
        theirs = scvi.distributions.NegativeBinomial(mu=mean, theta=theta)
    torch.testing.assert_close(module(output).log_prob(x), theirs.log_prob(x).sum(1), rtol=1e-5, atol=0)


def test_poisson_likelihoods_are_those_of_the_package() -> None:
    draw = np.random.default_rng(0)
    x = torch.tensor(draw.poisson(4, (50, GENES)), dtype=torch.float64)
    output = torch.tensor(draw.normal(size=(50, GENES)))
    ours = vs.likelihoods.Poisson().module((GENES,)).double()(output).log_prob(x)
    theirs = scvi.distributions.Poisson(rate=x.sum(1, keepdim=True) * output.softmax(1)).log_prob(x).sum(1)
    torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=0)


def test_the_number_of_latents_of_a_model_that_trains_itself(cells: anndata.AnnData) -> None:
    def train(model: scvi.model.SCVI, data: object, steps: int, seed: int) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.train(
                max_epochs=-1,
                max_steps=steps,
                accelerator="cpu",
                batch_size=64,
                plan_kwargs={"lr": 1e-2, "n_epochs_kl_warmup": None},
                enable_progress_bar=False,
                logger=False,
            )

    def factory(latents: int) -> scvi.model.SCVI:
        return scvi.model.SCVI(cells, n_latent=latents, n_hidden=32)

    found = vs.fondue(cells, model=factory, train=train, init=2, largest=4, period=120, max_periods=2, device="cpu")
    assert found.latents in (2, 3), found.curve  # cells differ in two directions
    assert found.trained_steps == sum(120 * probe.periods for probe in found.probes)
    assert found.settings == {"model": "factory", "train": "train"}
    with pytest.raises(vs.VaescopeError, match="Pass the same AnnData"):
        vs.fondue(cells[:, :20].copy(), model=factory, train=train, init=2, period=1, max_periods=1)
    with pytest.raises(vs.VaescopeError, match="2 latents, but its encode returns 3"):
        vs.fondue(cells, model=lambda latents: factory(3), train=train, init=2, period=1, max_periods=1)
