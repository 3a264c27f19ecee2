"""Diagnose a VAE written in plain PyTorch: train it on digits, ask which latents it uses, write the report."""

import sys
from pathlib import Path

import torch
from torch import Tensor, nn

import vaescope as vs


class VAE(nn.Module):
    """Images of digits to twelve latents and back."""

    def __init__(self, latents: int = 12) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU())
        self.heads = nn.Linear(64, 2 * latents)
        self.decoder = nn.Sequential(nn.Linear(latents, 64), nn.ReLU(), nn.Linear(64, 64), nn.Unflatten(1, (1, 8, 8)))

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, log_variance = self.heads(self.encoder(x)).chunk(2, 1)
        return mean, log_variance

    def decode(self, z: Tensor) -> Tensor:
        return self.decoder(z)


torch.manual_seed(0)
folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
images = vs.open_dataset("digits").batch(torch.arange(1797))
model = VAE()
optimiser = torch.optim.Adam(model.parameters(), 3e-3)
for _ in range(800):
    x = images[torch.randint(len(images), (128,))]
    mean, log_variance = model.encode(x)
    reconstruction = model.decode(mean + (log_variance / 2).exp() * torch.randn_like(mean))
    distortion = (reconstruction - x).square().sum((1, 2, 3)) / 0.1
    rate = 0.5 * (log_variance.exp() - log_variance - 1 + mean.square()).sum(1)
    loss = (distortion + rate).mean()
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()

found = vs.diagnose(model, images)  # evaluation mode here, and the model is given back in training mode
print(found.summary())
for card in found.cards:
    print(f"{card.status:>16}  {card.title}. {card.meaning} {card.advice}")
for row in found.rows():
    print(f"latent {row['latent']}: {row['type']:<7} {row['kl']:.2f} nats")
print("open in a browser:", vs.report(model, folder / "report.html", images))
