"""The linear VAE in closed form: scikit-learn's PCA, the pipeline, thresholds, and bad input."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA
from torch import Tensor

import vaescope as vs
from vaescope.errors import ConfigurationError, DataError, LatentError
from vaescope.models import MODELS, Linear
from vaescope.numerics import linear
from vaescope.objectives import Beta, Context

ITEMS, DIMENSIONS, LATENTS = 300, 8, 3
EXACT: dict[str, Any] = {"atol": 1e-8, "rtol": 1e-8}


def table(seed: int = 0, noise: float = 0.3) -> np.ndarray:
    """Three strong directions, noise in all, and a mean far from zero."""
    generator = np.random.default_rng(seed)
    codes = generator.normal(size=(ITEMS, LATENTS)) * [4.0, 2.0, 1.0]
    basis = np.linalg.qr(generator.normal(size=(DIMENSIONS, DIMENSIONS)))[0][:, :LATENTS]
    return codes @ basis.T + noise * generator.normal(size=(ITEMS, DIMENSIONS)) + 5


ROWS = table()
X = torch.from_numpy(ROWS)


def shrunk(rows: np.ndarray) -> np.ndarray:
    """Rows for which scikit-learn, which divides by `items - 1`, has the maximum-likelihood covariance."""
    return rows.mean(0) + (rows - rows.mean(0)) * math.sqrt((len(rows) - 1) / len(rows))


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 1000), st.integers(1, DIMENSIONS - 1))
def test_directions_variances_noise_and_score_are_those_of_scikit_learn(seed: int, latents: int) -> None:
    rows = table(seed)
    model, reference = Linear.fit(rows, latents), PCA(latents, svd_solver="full").fit(shrunk(rows))
    np.testing.assert_allclose(model.eigenvalues, reference.explained_variance_, **EXACT)
    np.testing.assert_allclose(float(model.gamma), reference.noise_variance_, **EXACT)
    np.testing.assert_allclose(model.offset, reference.mean_, **EXACT)
    # The directions themselves are as ill-conditioned as their eigenvalues are close; the covariance is not.
    marginal = model.loadings @ model.loadings.T + model.gamma * torch.eye(DIMENSIONS, dtype=torch.float64)
    np.testing.assert_allclose(marginal, reference.get_covariance(), **EXACT)
    score = model.log_likelihood(torch.from_numpy(rows)).mean()
    np.testing.assert_allclose(float(score), reference.score(rows), **EXACT)


def test_the_subspace_and_the_directions_are_those_of_scikit_learn() -> None:
    model, reference = Linear.fit(ROWS, LATENTS), PCA(LATENTS, svd_solver="full").fit(ROWS)
    directions = model.loadings / model.loadings.norm(dim=0)
    np.testing.assert_allclose(directions @ directions.T, reference.components_.T @ reference.components_, **EXACT)
    np.testing.assert_allclose(directions.T.abs(), np.abs(reference.components_), **EXACT)


def test_at_beta_one_the_elbo_of_the_fit_is_its_likelihood_and_no_other_decoder_has_a_larger_one() -> None:
    model = Linear.fit(X, LATENTS)
    posterior = model.encode(X)
    bound = linear.elbo(
        X, model.loadings, model.offset, model.gamma, posterior.mean, posterior.variance.diag_embed()
    ).mean()
    torch.testing.assert_close(bound, model.log_likelihood(X).mean(), **EXACT)
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        nudged = model.loadings + 0.05 * torch.randn(DIMENSIONS, LATENTS, generator=generator, dtype=torch.float64)
        assert linear.log_likelihood(X, nudged, model.offset, model.gamma).mean() < bound


def test_codes_come_through_the_pipeline() -> None:
    model = Linear.fit(ROWS, LATENTS)
    codes = vs.encode(model, ROWS, chunk=64)
    posterior = model.encode(X)
    torch.testing.assert_close(codes.mean, posterior.mean, atol=1e-5, rtol=0)
    torch.testing.assert_close(codes.variance, posterior.variance)
    assert codes.sample.shape == (ITEMS, LATENTS)
    aggregate = codes.mean.var(0, correction=0) + codes.variance.mean(0)
    torch.testing.assert_close(aggregate, torch.ones(LATENTS, dtype=torch.float64), atol=1e-5, rtol=0)


def test_objectives_accept_its_forward_pass() -> None:
    model = Linear.fit(ROWS, LATENTS)
    noise = {name: torch.zeros(ITEMS, width, dtype=torch.float64) for name, width in model.noise.items()}
    result = model(X, noise)
    terms = Beta(1.0)(X, result, Context(torch.tensor(0), ITEMS, torch.ones(LATENTS, dtype=torch.float64)))
    torch.testing.assert_close(result.z, result.posterior.mean)
    error = (X - result.likelihood.mean).square().sum(1)
    expected = 0.5 * (DIMENSIONS * torch.log(2 * math.pi * model.gamma) + error / model.gamma)
    torch.testing.assert_close(terms.values["reconstruction"], expected)
    assert (terms.values["rate"] > 0).all()


@pytest.mark.parametrize("beta", [0.5, 1.0, 4.0, 100.0])
def test_latents_below_the_threshold_are_passive(beta: float) -> None:
    gamma = 0.6
    model = Linear.fit(ROWS, 5, gamma=gamma, beta=beta)
    active = model.eigenvalues > beta * gamma
    assert torch.equal(model.active, active)
    posterior = model.encode(X)
    assert (posterior.mean[:, ~active] == 0).all()
    assert (posterior.variance[:, ~active] == 1).all()
    expected = (beta * gamma / model.eigenvalues[active]).expand(ITEMS, -1)
    torch.testing.assert_close(posterior.variance[:, active], expected)
    aggregate = posterior.mean.var(0, correction=0) + posterior.variance.mean(0)
    torch.testing.assert_close(aggregate, torch.ones(5, dtype=torch.float64))
    torch.testing.assert_close(model.loadings.square().sum(0), (model.eigenvalues - beta * gamma).clamp(min=0))


def test_the_best_gamma_for_a_beta_is_no_worse_than_its_neighbours() -> None:
    def value(model: Linear) -> Tensor:
        return linear.diagonal_objective(X, model.loadings, model.offset, model.gamma, model.beta).mean()

    for beta in (0.5, 2.0, 5.0):
        best = Linear.fit(ROWS, LATENTS, beta=beta)
        for factor in (0.8, 0.99, 1.01, 1.25):
            assert value(Linear.fit(ROWS, LATENTS, gamma=float(best.gamma) * factor, beta=beta)) < value(best)


def test_the_given_gamma_is_kept_exactly() -> None:
    model = Linear.fit(ROWS, LATENTS, gamma=0.1, beta=0.3)
    assert (float(model.gamma), float(model.beta)) == (0.1, 0.3)


def test_a_masked_model_is_the_model_of_fewer_latents() -> None:
    wide, narrow = Linear.fit(ROWS, 4, gamma=0.2), Linear.fit(ROWS, 2, gamma=0.2)
    wide.latent_mask.copy_(torch.tensor([1.0, 1.0, 0.0, 0.0]))
    noise = torch.randn(ITEMS, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    masked, alone = wide(X, {"posterior": noise}), narrow(X, {"posterior": noise[:, :2]})
    torch.testing.assert_close(masked.z[:, :2], alone.z)
    torch.testing.assert_close(masked.likelihood.mean, alone.likelihood.mean)
    torch.testing.assert_close(masked.posterior.kl(masked.prior), alone.posterior.kl(alone.prior))
    torch.testing.assert_close(wide.log_likelihood(X), narrow.log_likelihood(X))
    assert wide.active.tolist() == [True, True, False, False]


def test_images_keep_their_shape() -> None:
    images = np.random.default_rng(0).integers(0, 256, (40, 3, 4, 5), dtype=np.uint8)
    model = Linear.fit(images, 6)
    batch = vs.open_dataset(images).batch(torch.arange(7)).double()
    decoded = model.decode(model.encode(batch).mean)
    assert decoded.mean.shape == batch.shape
    assert decoded.log_prob(batch).shape == (7,)
    flat = Linear.fit(images.reshape(40, -1) / 255, 6)
    torch.testing.assert_close(model.loadings.abs(), flat.loadings.abs(), atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", ["read-only", "tensor", "list", "single"])
def test_tables_of_any_kind_give_one_fit(kind: str) -> None:
    rows: Any = ROWS.copy()
    if kind == "read-only":
        rows.flags.writeable = False
    rows = {"read-only": rows, "tensor": X, "list": ROWS.tolist(), "single": ROWS.astype(np.float32)}[kind]
    precision = 1e-10 if kind in ("read-only", "tensor") else 1e-5
    torch.testing.assert_close(
        Linear.fit(rows, LATENTS).loadings, Linear.fit(ROWS, LATENTS).loadings, atol=precision, rtol=precision
    )


def test_weights_survive_a_copy_and_a_state_dict() -> None:
    model, other = Linear.fit(ROWS, LATENTS, beta=2.0), Linear.fit(table(5), LATENTS)
    other.load_state_dict(copy.deepcopy(model.state_dict()))
    for twin in (other, copy.deepcopy(model)):
        assert torch.equal(twin.encode(X).mean, model.encode(X).mean)
        assert torch.equal(
            twin.decode(model.encode(X).mean).log_prob(X), model.decode(model.encode(X).mean).log_prob(X)
        )


def test_a_model_in_single_precision_runs() -> None:
    model = Linear.fit(ROWS, LATENTS).float()
    codes = vs.encode(model, ROWS)
    assert codes.mean.dtype == torch.float32
    assert model.decode(codes.mean).mean.dtype == torch.float32


def test_the_sign_is_that_of_the_data() -> None:
    loadings = Linear.fit(ROWS, LATENTS).loadings
    assert (loadings.gather(0, loadings.abs().argmax(0, keepdim=True)) > 0).all()
    torch.testing.assert_close(Linear.fit(ROWS[::-1], LATENTS).loadings, loadings, **EXACT)


def test_as_many_latents_as_dimensions_fit_the_whole_covariance() -> None:
    model = Linear.fit(ROWS, DIMENSIONS)
    marginal = model.loadings @ model.loadings.T + model.gamma * torch.eye(DIMENSIONS, dtype=torch.float64)
    np.testing.assert_allclose(marginal, np.cov(ROWS.T, bias=True), **EXACT)


def test_it_is_not_a_registered_model() -> None:
    assert Linear not in MODELS.values()
    assert vs.models.Linear is Linear


@pytest.mark.parametrize("latents", [0, DIMENSIONS + 1, 2.5])
def test_a_wrong_number_of_latents_is_named(latents: Any) -> None:
    with pytest.raises(LatentError, match=f"between 1 and {DIMENSIONS} .* got {latents}"):
        Linear.fit(ROWS, latents)


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, "small"])
@pytest.mark.parametrize("name", ["gamma", "beta"])
def test_a_wrong_strength_is_named(name: str, value: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} .* above 0, got {value!r}"):
        Linear.fit(ROWS, LATENTS, **{name: value})


def spoilt() -> np.ndarray:
    rows = ROWS.copy()
    rows[17, 2] = math.nan
    return rows


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        pytest.param(spoilt(), "item 17 .*NaN", id="nan"),
        pytest.param(ROWS[:1], "at least 2 items.* got 1", id="one item"),
        pytest.param(np.full((9, 4), 0.3), "items must differ.* 0.3", id="one number"),
        pytest.param(np.tile([0.1, 0.7, 1e6, 0.3], (999, 1)), "all are equal", id="one item, repeated"),
        pytest.param(np.tile([0.1, 0.7], (7, 1)).astype(np.float32), "all are equal", id="single precision"),
    ],
)
def test_data_that_cannot_be_fitted_are_named(rows: np.ndarray, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        Linear.fit(rows, 1)


def test_data_without_noise_need_a_gamma() -> None:
    flat = table(noise=0.0)
    with pytest.raises(DataError, match=r"4 latents .* 3 directions"):
        Linear.fit(flat, 4)
    model = Linear.fit(flat, 4, gamma=0.01)
    assert model.active.tolist() == [True, True, True, False]
