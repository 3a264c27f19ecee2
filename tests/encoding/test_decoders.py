"""Metrics of models: the decoder of every model, and grids that a model encodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import vaescope as vs
from reference import reference_orthogonality
from vaescope import metrics
from vaescope.data import Dataset, Factors, open_dataset
from vaescope.data.arrays import from_array
from vaescope.encoding import column_orthogonality, decoder_of, distance_to_orthogonality, encode, factor_grid
from vaescope.errors import ConfigurationError, DataError, UnknownNameError
from vaescope.likelihoods import Gaussian
from vaescope.metrics import factor_vae
from vaescope.models import MODELS, Architecture, Linear
from vaescope.nets import MLP, Conv

SMALL = MLP((8,), (8,), decoder_activation="tanh")


def images(items: int = 40) -> Dataset:
    generator = np.random.default_rng(0)
    pixels = generator.integers(0, 256, (items, 1, 8, 8), dtype=np.uint8)
    return from_array(pixels, labels=generator.integers(0, 3, items), factors=generator.integers(0, 4, (items, 2)))


def described(name: str, net: Any = SMALL, **parts: Any) -> Architecture:
    posterior = "deterministic" if name == "autoencoder" else "diagonal"
    return Architecture(name, net, posterior, condition={"conditional": 3, "identifiable": 2}.get(name, 0), **parts)


@pytest.mark.parametrize("net", [SMALL, Conv((4, 2), (4, 8), 16)], ids=["mlp", "conv"])
@pytest.mark.parametrize("name", sorted(MODELS))
def test_every_model_is_differentiated_at_its_means_under_its_condition(name: str, net: Any) -> None:
    """Compared with the Jacobian by reverse mode, item by item."""
    model: Any = described(name, net).build((1, 8, 8), 4, 0).double()
    data = images(6)
    codes = encode(model, data)
    told = nn.functional.one_hot(codes.labels.long(), 3).double() if name == "conditional" else None
    expected = []
    for place, mean in enumerate(codes.mean):
        given = () if told is None else (told[place, None],)
        matrix = torch.autograd.functional.jacobian(
            lambda z, given=given: model.decode(z[None], *given).mean.flatten(), mean
        )
        expected.append(reference_orthogonality.distance(matrix.detach().numpy()))
    assert distance_to_orthogonality(model, data).score == pytest.approx(np.mean(expected), abs=1e-7)
    assert distance_to_orthogonality(model, codes).score == pytest.approx(np.mean(expected), abs=1e-7)
    assert all(parameter.grad is None for parameter in model.parameters())


class Foreign(nn.Module):
    """A model of another library with batch normalisation."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 6))
        self.decoder = nn.Sequential(nn.Linear(3, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 64))

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = self.encoder(x).chunk(2, 1)
        return mean, log_variance


def test_the_decoder_of_another_library_is_differentiated_in_evaluation_mode_and_not_changed() -> None:
    torch.manual_seed(0)
    model, x = Foreign().train(), torch.rand(6, 1, 8, 8)
    model.decoder(torch.randn(50, 3))  # moves the statistics of the batch normalisation
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = [one.score for one in vs.diagnose(model, x, metrics=["distance_to_orthogonality"]).scores]
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    model.eval()
    matrices = [torch.autograd.functional.jacobian(model.decoder, mean[None])[0, :, 0] for mean in model.encode(x)[0]]
    wanted = np.mean([reference_orthogonality.distance(one.detach().numpy()) for one in matrices])
    assert found == [pytest.approx(wanted, abs=1e-4)]
    assert distance_to_orthogonality(vs.wrap(model), x).score == found[0]


def test_a_metric_of_decoders_needs_codes_that_are_vectors() -> None:
    with pytest.raises(ConfigurationError, match="needs a decoder of codes that are vectors"):
        vs.diagnose((np.zeros((50, 2)), np.ones((50, 2))), metrics=["column_orthogonality"])


def test_the_label_changes_the_jacobian_of_a_conditional_model() -> None:
    model = described("conditional").build((1, 8, 8), 4, 0)
    codes = encode(model, images())
    other = replace(codes, labels=(codes.labels + 1) % 3)
    assert distance_to_orthogonality(model, codes).score != distance_to_orthogonality(model, other).score
    with pytest.raises(DataError, match="labels"):
        distance_to_orthogonality(model, replace(codes, labels=None))
    with pytest.raises(DataError, match="3 classes"):
        distance_to_orthogonality(model, replace(codes, labels=codes.labels + 1))


def test_the_jacobian_of_the_logits_differs_from_that_of_the_mean() -> None:
    model: Any = described("vae").build((1, 8, 8), 4, 0)
    data = images()
    codes = encode(model, data)
    found = {of: distance_to_orthogonality(model, data, of=of) for of in ("mean", "logits")}
    assert found["mean"].score != pytest.approx(found["logits"].score, abs=1e-3)
    assert found["logits"].score == pytest.approx(
        metrics.distance_to_orthogonality(model.decoder, codes).score, abs=1e-6
    )
    assert "logits" in found["logits"].estimator


def test_latents_that_are_masked_out_are_left_out() -> None:
    model: Any = described("vae").build((1, 8, 8), 4, 0).double()
    model.latent_mask[2:] = 0
    codes = encode(model, images(5))
    jacobians = [
        torch.autograd.functional.jacobian(lambda z: model.decode(z[None]).mean.flatten(), mean)[:, :2]
        for mean in codes.mean
    ]
    found = distance_to_orthogonality(model, codes)
    expected = np.mean([reference_orthogonality.distance(matrix.detach().numpy()) for matrix in jacobians])
    assert found.score == pytest.approx(expected, abs=1e-7)
    assert found.latents == (0, 1)


def test_a_linear_vae_in_closed_form_is_orthogonal() -> None:
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((8, 8)))[0]
    x = np.random.default_rng(0).standard_normal((300, 8)) * np.arange(1, 9) @ turn
    for latents in (3, 8):
        model = Linear.fit(x, latents, gamma=5.0)
        assert distance_to_orthogonality(model, x).score == pytest.approx(0, abs=1e-9)
        assert column_orthogonality(model, x).score == pytest.approx(0, abs=1e-9)
    assert column_orthogonality(model, x).parts["passive"] == float((~model.active).sum()) > 0


def test_items_are_drawn_by_the_seed() -> None:
    model, data = described("vae").build((1, 8, 8), 4, 0), images()
    found = distance_to_orthogonality(model, data, items=5, seed=2).score
    codes = encode(model, data.draw(5, 2))
    assert found == pytest.approx(distance_to_orthogonality(model, codes, items=5).score, abs=1e-9)


def test_objects_without_a_decoder_are_refused() -> None:
    model, data = described("vae", likelihood=Gaussian()).build((1, 8, 8), 4, 0), images()
    assert decoder_of(nn.Linear(2, 2)) is None
    with pytest.raises(DataError, match="Linear"):
        distance_to_orthogonality(nn.Linear(2, 2), encode(model, data))
    with pytest.raises(DataError, match="conditional"):
        decoder_of(described("conditional").build((1, 8, 8), 4, 0))
    with pytest.raises(ConfigurationError, match="Bernoulli"):
        distance_to_orthogonality(model, data, of="logits")
    with pytest.raises(UnknownNameError, match="'means'"):
        distance_to_orthogonality(model, data, of="means")
    with pytest.raises(DataError, match="4 latents, got 3"):
        distance_to_orthogonality(model, encode(described("vae").build((1, 8, 8), 3, 0), data))


class Cube(Dataset):
    """Items that are the values of their factors."""

    name, grid = "cube", True
    fingerprint = "cube"

    def __init__(self, sizes: tuple[int, ...] = (4, 6, 5)) -> None:
        self.factor_table = Factors(tuple("abcdef"[: len(sizes)]), sizes)
        self.shape = (len(sizes),)

    def __len__(self) -> int:
        assert self.factor_table is not None
        return self.factor_table.cells

    def batch(self, index: Tensor) -> Tensor:
        assert self.factor_table is not None
        return self.factor_table.codes(index).float()

    def to(self, device: torch.device | str) -> Cube:
        return self


def itself(batch: Tensor) -> tuple[Tensor, Tensor]:
    return batch, torch.full_like(batch, 0.01)


def test_a_model_and_its_codes_agree_on_a_grid() -> None:
    data = Cube()
    model = Linear.fit(data, 3)
    drawn, given = (factor_vae(subject, seed=2) for subject in (factor_grid(model, data), encode(model, data)))
    # Two shares of 5,000 votes: four standard errors of their difference, at most.
    assert abs(drawn.score - given.score) < 4 * np.sqrt(2 * 0.25 / 5_000)


def test_a_grid_has_the_names_and_sizes_of_its_data_and_encodes_some_items() -> None:
    grid = factor_grid(itself, Cube())
    assert (grid.names, grid.sizes) == (("a", "b", "c"), (4, 6, 5))
    codes = grid.encode(np.array([0, 7, 119]))
    np.testing.assert_array_equal(codes.mean, [[0, 0, 0], [0, 1, 2], [3, 5, 4]])
    assert factor_grid(itself, "dsprites-small").names[1] == "shape"


def test_data_that_are_not_a_grid_are_refused() -> None:
    with pytest.raises(DataError, match="'array'"):
        factor_grid(itself, open_dataset(np.random.default_rng(0).random((20, 3))))
    with pytest.raises(DataError, match="'cube'"):
        factor_grid(itself, Cube().draw(10))
    with pytest.raises(DataError, match="ndarray"):
        factor_grid(np.zeros((24, 3)), Cube())
