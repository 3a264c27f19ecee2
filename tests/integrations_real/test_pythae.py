"""Models of pythae: the types are those of the encoders' outputs, and the models are not changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from by_hand import Untouched, assert_same_types, expected, half_trained, in_batches, use_everything
from pythae import models
from pythae.data.datasets import DatasetOutput
from torch import Tensor, nn

import vaescope as vs

LATENTS = 8
# Models that return a mean and a log-covariance, and those of them whose codes go through a flow.
GAUSSIAN = ("VAE", "BetaVAE", "BetaTCVAE", "FactorVAE", "DisentangledBetaVAE", "INFOVAE_MMD", "IWAE", "VAMP")
FLOWS = {"VAE_LinNF": "before the flow", "VAE_IAF": "before the flow", "HVAE": "before the Hamiltonian flow"}
WITHOUT_NOISE = ("AE", "WAE_MMD", "RAE_L2")
CONFIGURATIONS = {
    "VAE_LinNF": "VAE_LinNF_Config",
    "VAE_IAF": "VAE_IAF_Config",
    "WAE_MMD": "WAE_MMD_Config",
    "RAE_L2": "RAE_L2_Config",
    "INFOVAE_MMD": "INFOVAE_MMD_Config",
}


def made(name: str) -> nn.Module:
    """A small model for digits, by the name of its class."""
    configuration = getattr(models, CONFIGURATIONS.get(name, f"{name}Config"))
    return getattr(models, name)(configuration(input_dim=(1, 8, 8), latent_dim=LATENTS))


def trained(name: str, x: Tensor, steps: int = 150) -> nn.Module:
    """A model that uses some of its latents."""
    model = made(name)
    model.model_config.reconstruction_loss = "bce"
    optimiser = torch.optim.Adam(model.parameters(), 2e-3)
    for _ in range(steps):
        loss = model(DatasetOutput(data=x[torch.randint(len(x), (64,))])).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    optimiser.zero_grad()
    return model


def codes(model: nn.Module, x: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance of the base posterior, as the loss of pythae uses them."""

    def encode(batch: Tensor) -> tuple[Tensor, Tensor]:
        output = model.encoder(batch)
        return output.embedding.double(), output.log_covariance.double().exp()

    return in_batches(encode, x)


@pytest.fixture(scope="module")
def vae(digits: Tensor) -> nn.Module:
    torch.manual_seed(0)
    return trained("VAE", digits)


def test_the_types_of_a_vae_are_those_of_its_codes(vae: nn.Module, digits: Tensor) -> None:
    found = vs.diagnose(vae, digits)
    assert_same_types(found.types, expected(*codes(vae, digits)))
    assert 0 < len(found.types.passive) < LATENTS


def test_encoding_gives_the_means_and_variances_of_the_encoder(vae: nn.Module, digits: Tensor) -> None:
    mean, variance = codes(vae, digits)
    found = vs.encode(vae, digits)
    assert torch.equal(found.mean, mean)
    assert torch.equal(found.variance, variance)


def test_what_an_encoder_returned_is_diagnosed_without_the_model(vae: nn.Module, digits: Tensor) -> None:
    vae.eval()
    with torch.no_grad():
        output = vae.encoder(digits)
    mean, variance = codes(vae, digits)
    found = vs.diagnose(output).types
    assert found.types == expected(mean, variance).types
    assert found.types == vs.diagnose({"embedding": mean, "log_covariance": variance.log()}).types.types


@pytest.mark.parametrize("name", GAUSSIAN)
def test_an_untrained_model_of_another_kind_is_recognised(name: str, digits: Tensor) -> None:
    model = made(name)
    model.eval()
    assert_same_types(vs.diagnose(model, digits).types, expected(*codes(model, digits)))


def test_a_model_in_training_is_left_as_it_was(digits: Tensor, tmp_path: Path, untouched: Untouched) -> None:
    model = half_trained(made("VAE"))
    with untouched(model):
        results = use_everything(model, digits, tmp_path)
    model.eval()
    assert_same_types(results["diagnose"].types, expected(*codes(model, digits)))


def test_decoding_is_that_of_the_decoder(vae: nn.Module, digits: Tensor) -> None:
    z = torch.randn(5, LATENTS)
    with torch.no_grad():
        wanted = vae.decoder(z).reconstruction
    wrapped = vs.wrap(vae)
    vs.encode(wrapped, digits[:2])
    assert torch.equal(vs.encoding.decode(wrapped, z), wanted)


def test_a_model_is_pruned_and_exported(vae: nn.Module, digits: Tensor, tmp_path: Path, untouched: Untouched) -> None:
    half_trained(vae)
    with untouched(vae):
        pruned = vs.prune(vae, digits)
        exported = vs.export(pruned.model, tmp_path, data=digits)
    vae.eval()
    assert max(file.max_difference for file in exported.files) < 1e-5
    mean, _ = codes(vae, digits)
    mean[:, list(pruned.dropped)] = mean[:, list(pruned.dropped)].mean(0)
    with torch.no_grad():
        wanted = vae.decoder(mean.float()).reconstruction
    torch.testing.assert_close(vs.encoding.reconstruct(pruned.model, digits), wanted, rtol=0, atol=1e-4)


@pytest.mark.parametrize("name", [*FLOWS, "RHVAE"])
def test_for_a_flow_the_base_posterior_is_typed_with_a_note(name: str, digits: Tensor) -> None:
    model = made(name)
    model.eval()
    assert_same_types(vs.diagnose(model, digits).types, expected(*codes(model, digits)))
    assert FLOWS.get(name, FLOWS["HVAE"]) in shown(model, digits)


def test_for_a_vamp_prior_a_note_says_that_rates_use_another_prior(digits: Tensor) -> None:
    assert "VampPrior" in shown(made("VAMP"), digits)


def test_without_a_flow_there_is_no_note(vae: nn.Module, digits: Tensor) -> None:
    assert "flow" not in shown(vae, digits)


@pytest.mark.parametrize("name", ["VQVAE"])
def test_a_vector_quantised_model_is_refused_with_the_reason(name: str, digits: Tensor) -> None:
    refused_with(made(name), digits, ["quanti"])


@pytest.mark.parametrize("name", WITHOUT_NOISE)
def test_the_codes_of_an_autoencoder_have_no_noise(name: str, digits: Tensor) -> None:
    model = made(name)
    found = vs.encode(model, digits)
    assert not found.variance.any()
    with torch.no_grad():
        assert torch.equal(found.mean, in_batches(lambda x: (model.encoder(x).embedding.double(),) * 2, digits)[0])
    assert "without noise" in shown(model, digits)


@pytest.mark.parametrize(("name", "reason"), [("SVAE", "log_concentration"), ("PoincareVAE", "curved")])
def test_posteriors_that_are_not_gaussian_are_refused_with_the_reason(name: str, reason: str, digits: Tensor) -> None:
    refused_with(made(name), digits, [reason])


def shown(model: nn.Module, x: Tensor) -> str:
    """The note of the wrapped model."""
    wrapped = vs.wrap(model)
    vs.encode(wrapped, x[:2])
    return wrapped.summary()


def refused_with(model: nn.Module, x: Tensor, facts: Sequence[str]) -> None:
    """One sentence, without the representation of the whole network."""
    with pytest.raises(vs.VaescopeError) as caught:
        vs.diagnose(model, x)
    message = str(caught.value)
    assert "\n" not in message
    assert len(message) < 400
    assert type(model).__name__ in message
    for fact in facts:
        assert fact in message
