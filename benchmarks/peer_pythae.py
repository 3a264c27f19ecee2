"""A worker in pythae's own environment: for each number of steps on stdin, the seconds per step on stdout.

The same convolutional VAE, batch and images as ours, trained by pythae's trainer as its documentation shows.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")
os.environ["TQDM_DISABLE"] = "1"
sys.path.insert(0, str(Path(__file__).parent))

import torch
from plain import BATCH, LATENTS, PlainVAE
from torch import Tensor

answers = sys.stdout
with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
    from pythae.models import VAE, VAEConfig
    from pythae.models.base.base_utils import ModelOutput
    from pythae.models.nn import BaseDecoder, BaseEncoder
    from pythae.trainers import BaseTrainer, BaseTrainerConfig
logging.disable(logging.CRITICAL)


class Encoder(BaseEncoder):
    def __init__(self, plain: PlainVAE) -> None:
        super().__init__()
        self.layers, self.mean, self.log_variance = plain.encoder, plain.mean, plain.log_variance

    def forward(self, x: Tensor) -> ModelOutput:
        features = self.layers(x)
        return ModelOutput(embedding=self.mean(features), log_covariance=self.log_variance(features))


class Decoder(BaseDecoder):
    def __init__(self, plain: PlainVAE) -> None:
        super().__init__()
        self.layers = plain.decoder

    def forward(self, z: Tensor) -> ModelOutput:
        return ModelOutput(reconstruction=torch.sigmoid(self.layers(z)))


# As many as the other contenders hold: the C library's habits depend on the sizes that a process has freed.
IMAGES = (torch.rand(2048, 1, 64, 64) > 0.95).float()


def seconds_per_step(steps: int) -> float:
    """Train one epoch of that many batches."""
    images = IMAGES[: steps * BATCH]
    plain = PlainVAE()
    configuration = VAEConfig(input_dim=(1, 64, 64), latent_dim=LATENTS, reconstruction_loss="bce")
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        from pythae.data.datasets import BaseDataset

        trainer = BaseTrainer(
            VAE(configuration, Encoder(plain), Decoder(plain)),
            BaseDataset(images, torch.zeros(len(images))),
            None,
            BaseTrainerConfig(
                output_dir=folder, num_epochs=1, learning_rate=1e-4, per_device_train_batch_size=BATCH, no_cuda=True
            ),
        )
        trainer.prepare_training()
        start = time.perf_counter()
        trainer.train_step(epoch=1)
        return (time.perf_counter() - start) / steps


for line in sys.stdin:
    print(seconds_per_step(int(line)), file=answers, flush=True)
