"""A pruned model equals the model with some latents held constant: the same codes, prior and reconstructions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from vaescope.errors import ConfigurationError, LatentError
from vaescope.likelihoods import LIKELIHOODS
from vaescope.models import MODELS, Architecture
from vaescope.models.pruning import kept_prior, pruned
from vaescope.nets import MLP, NETS, Conv, Conv1d, ResNet
from vaescope.priors import PRIORS, Anisotropic, Mixture, Standard

SHAPE, LATENTS, KEEP, CONDITION_WIDTH = (1, 16, 16), 5, (1, 3), 3
NET = MLP((7,), (6,))
FILL = torch.tensor([0.3, 9.0, -1.2, 9.0, 2.0], dtype=torch.float64)
SIZES: dict[str, Any] = {
    "conv": Conv((4, 4), (4, 4), 8),
    "conv1d": Conv1d((4, 4), 4, 8),
    "mlp": NET,
    "resnet": ResNet(width=4, widest=8),
}
SIGNAL = (2, 13)


def architecture_of(model: str = "vae", **parts: Any) -> Architecture:
    condition = CONDITION_WIDTH if MODELS[model].condition else 0
    posterior = {"posterior": "deterministic"} if model == "autoencoder" else {}
    return Architecture(model, **{"net": NET, **posterior, **parts}, condition=condition)


def built(architecture: Architecture, latents: int = LATENTS, shape: tuple[int, ...] = SHAPE) -> nn.Module:
    """A model in float64 none of whose parameters and statistics is zero."""
    model = architecture.build(shape, latents, seed=3).double().eval()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        for name, buffer in model.named_buffers():
            if "running" in name:
                buffer += torch.rand(buffer.shape, generator=generator, dtype=torch.float64)
    return model


def items(shape: tuple[int, ...] = SHAPE) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(6)
    x = torch.rand(4, *shape, generator=generator, dtype=torch.float64)
    return x, torch.rand(4, CONDITION_WIDTH, generator=generator, dtype=torch.float64)


def filled(z: Tensor, keep: tuple[int, ...] = KEEP) -> Tensor:
    """Codes of all latents, with constants for the dropped ones."""
    whole = FILL.expand(len(z), -1).clone()
    whole[:, list(keep)] = z
    return whole


def check_same(architecture: Architecture, keep: tuple[int, ...] = KEEP, shape: tuple[int, ...] = SHAPE) -> None:
    model = built(architecture, shape=shape)
    small, smaller = pruned(model, architecture, shape, keep, FILL)
    x, condition = items(shape)
    whole, kept = model.encode(x, condition), small.encode(x, condition)
    torch.testing.assert_close(kept.mean, whole.mean[:, keep], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(kept.variance, whole.variance[:, keep], rtol=1e-12, atol=1e-12)
    z = kept.mean + 0.5
    ours, theirs = small.decode(z, condition), model.decode(filled(z, keep), condition)
    torch.testing.assert_close(ours.mean, theirs.mean, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(ours.log_prob(x), theirs.log_prob(x), rtol=1e-10, atol=1e-12)
    rebuilt = smaller.build(shape, len(keep), seed=0).double().eval()
    rebuilt.load_state_dict(small.state_dict())
    torch.testing.assert_close(rebuilt.encode(x, condition).mean, kept.mean, rtol=0, atol=0)
    assert not small.training


@pytest.mark.parametrize("model", sorted(MODELS.keys() - {"vgon"}))
@pytest.mark.parametrize("net", sorted(NETS))
def test_every_model_encodes_and_decodes_as_before(model: str, net: str) -> None:
    check_same(architecture_of(model, net=SIZES.get(net, net)), shape=SIGNAL if net == "conv1d" else SHAPE)


@pytest.mark.parametrize("likelihood", sorted(LIKELIHOODS))
def test_every_likelihood_is_unchanged(likelihood: str) -> None:
    check_same(architecture_of(likelihood=likelihood))


def distribution(model: nn.Module, condition: Tensor) -> Any:
    return model.prior(model.latent_mask, condition)


def check_marginal(prior: Any, keep: tuple[int, ...], model: str = "vae") -> Architecture:
    """Draws of the small prior are those of the large one, and so are its densities, up to what is dropped."""
    architecture = architecture_of(model, prior=prior)
    large = built(architecture)
    small, smaller = pruned(large, architecture, SHAPE, keep, FILL)
    condition = items()[1]
    one, other = distribution(small, condition), distribution(large, condition)
    z = torch.randn(4, LATENTS, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    if hasattr(other, "latent_log_prob"):
        found, wanted = one.latent_log_prob(z[:, keep]), other.latent_log_prob(z)[:, keep]
        torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)
    for moment in ("mean", "variance"):
        if hasattr(other, moment):
            found, wanted = getattr(one, moment), getattr(other, moment)[..., list(keep)]
            torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)
    return smaller


OPTIONS: dict[str, tuple[Any, ...]] = {
    "anisotropic": (
        Anisotropic("isotropic", scale=2.0),
        Anisotropic("fixed", (0.5, 0.1, -1.0, 2.0, 0.0, 7.0), 2.0),
        Anisotropic("learned", scale=0.5),
        Anisotropic("learned", (0.5, 0.1, -1.0, 2.0, 0.0)),
    ),
    "conditional": ({"name": "conditional", "learned_mean": True}, {"name": "conditional", "widths": []}),
    "mixture": (Mixture(((0.0, 1.0, 2.0, 3.0), (1.0, -1.0, 0.5, 0.0)), (0.1, 0.4), (0.3, 0.7)),),
}
PRIORS_AND_OPTIONS = [(name, option) for name in sorted(PRIORS) for option in (name, *OPTIONS.get(name, ()))]


@pytest.mark.parametrize(("name", "prior"), PRIORS_AND_OPTIONS)
def test_every_prior_becomes_its_marginal(name: str, prior: Any) -> None:
    models = ("identifiable", "conditional") if name == "conditional" else ("vae",)
    if prior == "anisotropic":
        prior = Anisotropic()
    for model in models:
        check_marginal(prior, KEEP, model)


def test_the_clusters_of_a_mixture_lose_coordinates() -> None:
    prior = Mixture(((0.0, 1.0, 2.0), (3.0, 4.0, 5.0)), (0.1, 0.4), (0.3, 0.7))
    smaller = check_marginal(prior, (0, 2, 4))
    assert smaller.prior == Mixture(((0.0, 2.0), (3.0, 5.0)), (0.1, 0.4), (0.3, 0.7))
    architecture = architecture_of(prior=prior)
    small, _ = pruned(built(architecture), architecture, SHAPE, (0, 2, 4), FILL)
    z = torch.randn(2000, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    found = distribution(small, z).log_prob(torch.cat([z, torch.zeros(2000, 1)], 1))
    parts = [
        torch.distributions.Normal(torch.tensor(mean, dtype=torch.float64), variance**0.5).log_prob(z).sum(1)
        for mean, variance in (((0.0, 2.0), 0.1), ((3.0, 5.0), 0.4))
    ]
    logs = torch.tensor([0.3, 0.7], dtype=torch.float64).log()[:, None]
    unplaced = torch.distributions.Normal(0.0, 1.0).log_prob(torch.tensor(0.0, dtype=torch.float64))
    torch.testing.assert_close(found, torch.logsumexp(torch.stack(parts) + logs, 0) + unplaced, rtol=1e-6, atol=1e-6)


def test_without_latents_placed_by_clusters_the_prior_is_standard() -> None:
    architecture = architecture_of(prior="mixture")
    assert pruned(built(architecture), architecture, SHAPE, (2, 4), FILL)[1].prior == Standard()


def test_a_prior_without_numbers_for_each_latent_keeps_the_architecture_equal() -> None:
    architecture = architecture_of(prior="student_t")
    assert pruned(built(architecture), architecture, SHAPE, KEEP, FILL)[1] == architecture


def test_keeping_all_latents_changes_nothing() -> None:
    architecture = architecture_of(prior=Anisotropic("learned", (0.5, 0.1, -1.0, 2.0, 0.0)))
    model = built(architecture)
    small, smaller = pruned(model, architecture, SHAPE, range(LATENTS), FILL)
    assert smaller.prior.scale == pytest.approx(1.0)
    for name, value in model.state_dict().items():
        torch.testing.assert_close(small.state_dict()[name], value, rtol=0, atol=0)


def test_the_order_in_which_latents_are_named_does_not_matter() -> None:
    architecture = architecture_of()
    model = built(architecture)
    theirs = pruned(model, architecture, SHAPE, (1, 3), FILL)[0].state_dict()
    for keep in ([3, 1], np.array([3, 1]), torch.tensor([1, 3])):
        ours = pruned(model, architecture, SHAPE, keep, FILL)[0].state_dict()
        assert all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_the_original_model_is_not_changed() -> None:
    architecture = architecture_of()
    model = built(architecture)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    small, _ = pruned(model, architecture, SHAPE, KEEP, FILL)
    with torch.no_grad():
        for parameter in small.parameters():
            parameter.zero_()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_a_full_posterior_can_lose_its_last_latents() -> None:
    check_same(architecture_of(posterior="full"), keep=(0, 1, 2))
    architecture = architecture_of(posterior="full")
    model, x = built(architecture), items()[0]
    small, _ = pruned(model, architecture, SHAPE, (0, 1, 2), FILL)
    torch.testing.assert_close(small.encode(x).covariance, model.encode(x).covariance[:, :3, :3])


def test_a_full_posterior_cannot_lose_a_latent_before_a_kept_one() -> None:
    architecture = architecture_of(posterior="full")
    with pytest.raises(ConfigurationError, match=r"last latents.* latents 1, 3"):
        pruned(built(architecture), architecture, SHAPE, KEEP, FILL)


def test_a_gradient_origin_network_is_refused_with_the_reason() -> None:
    architecture = architecture_of("vgon")
    model = architecture.build(SHAPE, LATENTS, seed=0)
    with pytest.raises(ConfigurationError, match=r"'vgon' .*gradient.* 2 latents"):
        pruned(model, architecture, SHAPE, KEEP, FILL)


def test_a_custom_prior_is_refused_unless_its_marginal_is_registered() -> None:
    class Own:
        pass

    with pytest.raises(ConfigurationError, match="a prior Own cannot be pruned"):
        kept_prior(Own(), nn.Identity(), KEEP)
    kept_prior.register(Own, lambda prior, module, kept: prior)
    own = Own()
    assert kept_prior(own, nn.Identity(), KEEP) is own


@pytest.mark.parametrize("first", [nn.Linear(7, 4), nn.Tanh()], ids=["another width", "no layer"])
def test_a_decoder_that_does_not_begin_with_a_linear_layer_is_refused(first: nn.Module) -> None:
    architecture = architecture_of()
    model: Any = built(architecture)
    model.decoder = nn.Sequential(first)
    with pytest.raises(ConfigurationError, match=r"linear layer.* Sequential"):
        pruned(model, architecture, SHAPE, KEEP, FILL)


@pytest.mark.parametrize("keep", [(), (5,), (-1, 2), (1, 1), (0.5,), (True, 2), "all", 3])
def test_latents_to_keep_must_be_valid_indices(keep: Any) -> None:
    architecture = architecture_of()
    with pytest.raises(LatentError, match="must be different whole numbers from 0 to 4"):
        pruned(built(architecture), architecture, SHAPE, keep, FILL)
