"""Lightning modules that were trained by a Trainer."""

from __future__ import annotations

import logging
import warnings
from pathlib import Path

import pytest
import torch
from by_hand import Untouched, assert_same_types, expected, half_trained, in_batches, use_everything
from lightning import LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader

import vaescope as vs

LATENTS = 6


class DigitsVAE(LightningModule):
    """A VAE with batch normalisation and dropout, which differ between training and evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.encoder = nn.Sequential(
            nn.Flatten(), nn.Linear(64, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2 * LATENTS)
        )
        self.decoder = nn.Sequential(nn.Linear(LATENTS, 32), nn.ReLU(), nn.Linear(32, 64), nn.Unflatten(1, (1, 8, 8)))

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = self.encoder(x).chunk(2, 1)
        return mean, log_variance

    def decode(self, z: Tensor) -> Tensor:
        return self.decoder(z)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.encode(x)
        return self.decode(mean + (0.5 * log_variance).exp() * torch.randn_like(mean)), mean, log_variance

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        reconstruction, mean, log_variance = self(batch)
        distortion = (reconstruction - batch).square().sum((1, 2, 3)) / 0.1
        rate = 0.5 * (log_variance.exp() - log_variance - 1 + mean.square()).sum(1)
        return (distortion + rate).mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), 1e-2)


class OnlyForward(DigitsVAE):
    """A module whose forward returns everything and whose methods have other names."""

    encode = decode = None  # type: ignore[assignment]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.encoder(x).chunk(2, 1)
        return self.decoder(mean + (0.5 * log_variance).exp() * torch.randn_like(mean)), mean, log_variance


def trained(model: LightningModule, x: Tensor, folder: Path) -> LightningModule:
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = Trainer(
            max_epochs=5,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=folder,
        )
        trainer.fit(model, DataLoader(x, 32, shuffle=True))
    return model


@pytest.fixture(scope="module")
def vae(digits: Tensor, tmp_path_factory: pytest.TempPathFactory) -> LightningModule:
    torch.manual_seed(0)
    return trained(DigitsVAE(), digits, tmp_path_factory.mktemp("lightning"))


def codes(model: DigitsVAE, x: Tensor) -> tuple[Tensor, Tensor]:
    """In evaluation mode, whatever the mode of the module."""
    mode = model.training
    model.eval()

    def encode(batch: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = model.encoder(batch).chunk(2, 1)
        return mean.double(), log_variance.double().exp()

    found = in_batches(encode, x)
    model.train(mode)
    return found


def test_the_types_of_a_module_are_those_of_its_codes(vae: DigitsVAE, digits: Tensor) -> None:
    found = vs.diagnose(vae, digits)
    assert_same_types(found.types, expected(*codes(vae, digits)))


def test_a_module_with_a_trainer_is_left_as_it_was(
    vae: DigitsVAE, digits: Tensor, tmp_path: Path, untouched: Untouched
) -> None:
    half_trained(vae)
    trainer = vae.trainer
    with untouched(vae):
        results = use_everything(vae, digits, tmp_path)
    assert vae.trainer is trainer
    assert_same_types(results["diagnose"].types, expected(*codes(vae, digits)))


def test_a_module_that_only_has_forward_is_recognised(digits: Tensor, untouched: Untouched) -> None:
    model = OnlyForward()
    with untouched(model):
        found = vs.diagnose(model, digits)
    assert_same_types(found.types, expected(*codes(model, digits)))


def test_a_module_loaded_from_a_checkpoint_is_diagnosed(digits: Tensor, tmp_path: Path) -> None:
    model = DigitsVAE()
    trainer = Trainer(logger=False, accelerator="cpu", enable_progress_bar=False, enable_model_summary=False)
    trainer.strategy.connect(model)
    trainer.save_checkpoint(tmp_path / "model.ckpt")
    loaded = DigitsVAE.load_from_checkpoint(tmp_path / "model.ckpt")
    assert_same_types(vs.diagnose(loaded, digits).types, expected(*codes(model, digits)))
