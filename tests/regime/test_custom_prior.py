"""Codes are compared with the Gaussian prior of their model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from vaescope import diagnose
from vaescope.codes import Representation
from vaescope.data import open_dataset
from vaescope.data.arrays import from_array
from vaescope.data.conditions import condition_table
from vaescope.encoding import adapt, encode
from vaescope.errors import DataError
from vaescope.models import Architecture
from vaescope.nets import MLP
from vaescope.priors import Anisotropic
from vaescope.regime import collapse, delta_kl, mutual_information_bound, variable_types
from vaescope.runs import fit
from vaescope.sizing.gaps import Evidence, Trace
from vaescope.training import Member, Plan, Trainer

SMALL = MLP((16,), (16,))
FIXED = Anisotropic("fixed", (0.0, -2.0, -4.0))
ARCHITECTURES = {
    "conditional": Architecture("identifiable", SMALL, condition=5),
    "learned mean": Architecture(
        "identifiable", SMALL, condition=5, prior={"name": "conditional", "learned_mean": True}
    ),
    "anisotropic": Architecture("vae", SMALL, prior=FIXED),
}


@pytest.fixture(scope="module")
def sprites() -> Any:
    return open_dataset("dsprites-small").draw(300)


def trained(name: str, data: Any) -> tuple[Trainer, dict[str, Any]]:
    plan = Plan(200, 32, log_every=200, evaluate_every=200, monitor_every=200)
    trainer = Trainer(ARCHITECTURES[name], [Member(3, learning_rate=1e-3), Member(3, seed=1)], plan, data)
    looks = [row.values for row in trainer.advance() if row.split == "probe"]
    return trainer, looks[0]


@pytest.mark.parametrize("name", ["conditional", "learned mean"])
def test_codes_come_with_the_prior_of_each_item(name: str, sprites: Any) -> None:
    model: Any = ARCHITECTURES[name].build(sprites.shape, 3, seed=0)
    codes = encode(model, sprites, chunk=64)
    condition = condition_table(sprites, "factors", 5)
    with torch.no_grad():
        wanted = model.prior(model.latent_mask, condition.float())
    torch.testing.assert_close(codes.prior, (wanted.mean, wanted.variance))


def test_a_prior_shared_by_all_items_is_one_row(sprites: Any) -> None:
    model = ARCHITECTURES["anisotropic"].build(sprites.shape, 3, seed=0)
    prior = encode(model, sprites, chunk=64).prior
    assert prior is not None
    torch.testing.assert_close(prior[0], torch.zeros(3))
    torch.testing.assert_close(prior[1], 3 * torch.softmax(torch.tensor([0.0, -2.0, -4.0]), 0))


@pytest.mark.parametrize("prior", ["standard", "sparse", "student_t"])
def test_codes_of_other_priors_are_compared_with_the_standard_prior(prior: str, sprites: Any) -> None:
    model = Architecture("vae", SMALL, prior=prior).build(sprites.shape, 3, seed=0)
    assert encode(model, sprites).prior is None


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_the_monitor_counts_the_types_of_the_codes_of_its_probe(name: str, sprites: Any) -> None:
    trainer, look = trained(name, sprites)
    codes = encode(trainer.model(0), sprites)
    types = variable_types(codes)
    assert types.rule == "conditional"
    assert look["types"] == "".join(kind[0] for kind in types.types)
    error = delta_kl(codes.mean, codes.variance, prior=codes.prior)
    assert look["rate"] == pytest.approx(error.kl, rel=1e-4)
    assert look["delta_kl"] == pytest.approx(error.value, rel=1e-3, abs=1e-5)
    assert codes.prior is not None
    with torch.no_grad():
        posterior = torch.distributions.Normal(codes.mean, codes.variance.sqrt())
        prior = torch.distributions.Normal(codes.prior[0], codes.prior[1].sqrt())
        divergence = torch.distributions.kl_divergence(posterior, prior).sum(1).mean()
    assert look["rate"] == pytest.approx(float(divergence), rel=1e-4)
    assert collapse(codes).rate == pytest.approx(float(divergence), rel=1e-4)


def some_codes(ratio: float = 0.9) -> Representation:
    """One active latent and one that follows a separate prior for each item, narrow and away from 0."""
    generator = torch.Generator().manual_seed(0)
    prior_mean = torch.randn(4000, 2, generator=generator, dtype=torch.float64)
    prior_variance = torch.rand(4000, 2, generator=generator, dtype=torch.float64) * 0.02 + 0.01
    mean, variance = prior_mean.clone(), prior_variance * ratio
    mean[:, 0], variance[:, 0] = prior_mean[:, 0] + prior_variance[:, 0].sqrt(), prior_variance[:, 0] * 0.01
    noise = torch.randn(4000, 2, generator=generator, dtype=torch.float64)
    sample = mean + variance.sqrt() * noise
    return Representation(mean, variance, sample, prior_mean=prior_mean, prior_variance=prior_variance)


def test_types_use_the_prior_of_the_codes_by_default() -> None:
    codes = some_codes(1.0)
    assert variable_types(codes).types == ("active", "passive")
    assert variable_types(codes).types == variable_types((codes.mean, codes.variance), prior=codes.prior).types
    standard = (torch.zeros(2), torch.ones(2))
    assert variable_types(codes, prior=standard).types == ("active", "active")
    assert variable_types((codes.mean, codes.variance)).types == ("active", "active")


def test_in_units_of_the_prior_the_rate_is_that_to_the_standard_prior() -> None:
    codes = some_codes()
    moved = codes.in_units_of_prior()
    assert moved.prior is None
    np.testing.assert_allclose(collapse(moved).rates, collapse(codes).rates, rtol=1e-10)
    assert moved.in_units_of_prior() is moved


def test_a_passive_latent_adds_1_to_the_trace_difference_under_any_prior() -> None:
    codes = some_codes(1.0)
    evidence = Evidence(torch.nn.Identity(), from_array(codes.mean.numpy()), codes)
    assert Trace()(evidence).gap == pytest.approx(1.01, abs=0.05)
    plain = Representation(codes.mean, codes.variance, codes.sample)
    assert abs(Trace()(Evidence(evidence.model, evidence.items, plain)).gap) < 0.1


def test_information_is_reported_with_the_rate_under_the_prior() -> None:
    codes = some_codes()
    found = mutual_information_bound(codes.mean, codes.variance, codes.sample, prior=codes.prior)
    assert found.rate == pytest.approx(collapse(codes).rate)
    assert found.aggregate_kl is None
    shared = mutual_information_bound(codes.mean, codes.variance, codes.sample, prior=(torch.ones(2), torch.ones(2)))
    wanted = 0.5 * (codes.variance + (codes.mean - 1).square() - 1 - codes.variance.log()).sum(1).mean()
    assert shared.rate == pytest.approx(float(wanted))
    assert shared.aggregate_kl == pytest.approx(shared.rate - shared.information)


def test_a_file_of_codes_keeps_the_prior(tmp_path: Path) -> None:
    codes, file = some_codes(), tmp_path / "codes.npz"
    codes.save(file)
    for back in (Representation.load(file), adapt(file)):
        torch.testing.assert_close(back.prior, codes.prior)
    assert diagnose(file).types.rule == "conditional"


def test_incomplete_priors_and_priors_of_other_items_are_refused(tmp_path: Path) -> None:
    mean, file = np.zeros((4, 2)), tmp_path / "codes.npz"
    np.savez(file, mean=mean, variance=mean + 1, prior_mean=mean)
    with pytest.raises(DataError, match=r"prior_mean and prior_variance .* prior_mean alone"):
        adapt(file)
    np.savez(file, mean=mean, variance=mean + 1, sample=mean, prior_mean=mean[:3], prior_variance=mean + 1)
    with pytest.raises(DataError, match=r"prior_mean must have the shape of mean, \(4, 2\), .* got .* \(3, 2\)"):
        Representation.load(file)


def test_a_diagnosis_names_the_prior(tmp_path: Path) -> None:
    run = fit("digits", latents=3, net=SMALL, prior=FIXED, steps=20, runs=tmp_path)
    found = diagnose(run)
    (card,) = [card for card in found.cards if card.title == "Prior"]
    assert card.status == "note"
    assert "own prior (anisotropic)" in card.meaning
    assert found.types.rule == "conditional"


def test_samples_of_a_model_have_its_full_covariance(sprites: Any) -> None:
    model: Any = Architecture("vae", SMALL, "full").build(sprites.shape, 3, seed=0)
    torch.testing.assert_close(adapt(model, sprites, seed=3).sample, encode(model, sprites, seed=3).sample)


def test_a_conditional_model_is_encoded_with_its_condition(sprites: Any) -> None:
    model: Any = ARCHITECTURES["conditional"].build(sprites.shape, 3, seed=0)
    torch.testing.assert_close(adapt(model, sprites).mean, encode(model, sprites).mean)
