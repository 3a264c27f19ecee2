"""Watch which latents a LightningModule uses while it trains, and diagnose it afterwards."""

import torch
from lightning import LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader

import vaescope as vs
from vaescope.integrations.lightning import PolarisedRegimeCallback


class VAE(LightningModule):
    """Images of digits to twelve latents and back."""

    def __init__(self, latents: int = 12) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2 * latents))
        self.decoder = nn.Sequential(nn.Linear(latents, 64), nn.ReLU(), nn.Linear(64, 64), nn.Unflatten(1, (1, 8, 8)))

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = self.encoder(x).chunk(2, 1)
        return mean, log_variance

    def decode(self, z: Tensor) -> Tensor:
        return self.decoder(z)

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        mean, log_variance = self.encode(batch)
        reconstruction = self.decode(mean + (log_variance / 2).exp() * torch.randn_like(mean))
        distortion = (reconstruction - batch).square().sum((1, 2, 3)) / 0.1
        rate = 0.5 * (log_variance.exp() - log_variance - 1 + mean.square()).sum(1)
        return (distortion + rate).mean()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), 3e-3)


torch.manual_seed(0)
images = vs.open_dataset("digits").batch(torch.arange(1797))
callback = PolarisedRegimeCallback(images[:500], every=100)  # its counts go to the logger and the progress bar, too
trainer = Trainer(max_epochs=60, accelerator="cpu", callbacks=[callback], logger=False, enable_checkpointing=False)
model = VAE()
trainer.fit(model, DataLoader(images, 128, shuffle=True))
print("after training:", callback.types.summary())
print(vs.diagnose(model, images).summary())
