"""What batch norm and initial weights do to sparsity in figure 4 of Mathieu et al., in plain torch.

The nets are those of the paper's code: convolutions 4 x 4 of stride 2 and widths 32-64-128, LeakyReLU(.2), two 4 x 4
convolutions for the mean and, through softplus, the standard deviation; a decoder that mirrors them with ReLU. `source`
has batch norm and weights from N(0, .02) as there, `plain` the same weights without batch norm, `glorot` no batch norm
and Glorot weights. Fashion-MNIST under $VAESCOPE_DATA at 32 x 32, 9,600 steps, 50 latents, Laplace likelihood of scale
.1, beta = 1, MMD over latents, AMSGrad at 5e-4, batches of 500, in float32.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator

warnings.filterwarnings("ignore")

import torch
from recorded import Row, add_json, save
from torch import Tensor, nn
from torch.nn.functional import softplus

from vaescope.data import open_dataset
from vaescope.metrics.sparsity import hoyer
from vaescope.numerics.aggregate import latent_mmd

NETS = ("source", "plain", "glorot")
WIDTHS = (32, 64, 128)
SCALE = 0.1  # of the Laplace likelihood
SMALLEST = 1e-6  # standard deviation of a code
BEGAN = time.monotonic()


def say(text: str) -> None:
    print(f"[{time.monotonic() - BEGAN:6.1f} s] {text}", flush=True)


class Net(nn.Module):
    """Encoder and decoder of images of 32 x 32."""

    def __init__(self, latents: int, kind: str) -> None:
        super().__init__()
        first, second, third = WIDTHS

        def norm(width: int) -> list[nn.Module]:
            return [nn.BatchNorm2d(width)] if kind == "source" else []

        def down(before: int, after: int, *between: nn.Module) -> list[nn.Module]:
            return [nn.Conv2d(before, after, 4, 2, 1, bias=kind != "source"), *between, nn.LeakyReLU(0.2)]

        def up(before: int, after: int, stride: int = 2, padding: int = 1) -> list[nn.Module]:
            layer = nn.ConvTranspose2d(before, after, 4, stride, padding, bias=kind != "source")
            return [layer, *norm(after), nn.ReLU()]

        self.encoder = nn.Sequential(
            *down(1, first), *down(first, second, *norm(second)), *down(second, third, *norm(third))
        )
        self.mean, self.scale = nn.Conv2d(third, latents, 4), nn.Conv2d(third, latents, 4)
        self.decoder = nn.Sequential(
            *up(latents, third, 1, 0),
            *up(third, second),
            *up(second, first),
            nn.ConvTranspose2d(first, 1, 4, 2, 1, bias=kind != "source"),
        )
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d):
                if kind == "glorot":
                    nn.init.xavier_uniform_(layer.weight)
                else:
                    nn.init.normal_(layer.weight, 0.0, 0.02)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    def encode(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Means and standard deviations."""
        hidden = self.encoder(images)
        return self.mean(hidden).flatten(1), softplus(self.scale(hidden).flatten(1)) + SMALLEST

    def decode(self, codes: Tensor) -> Tensor:
        return self.decoder(codes[:, :, None, None])


class Prior:
    """gamma N(0, variance) + (1 - gamma) N(0, 1) for each latent."""

    def __init__(self, gamma: float, variance: float, device: str) -> None:
        self.gamma = gamma
        deviations = torch.tensor([variance**0.5, 1.0], device=device)
        self.components = torch.distributions.Normal(torch.zeros(2, device=device), deviations)
        self.log_weights = torch.tensor([gamma, 1 - gamma], device=device).log()

    def log_density(self, codes: Tensor) -> Tensor:
        return (self.components.log_prob(codes[..., None]) + self.log_weights).logsumexp(-1)

    def draw(self, codes: Tensor) -> Tensor:
        off = torch.rand_like(codes) < self.gamma
        return torch.randn_like(codes) * torch.where(off, self.components.scale[0], self.components.scale[1])


def terms(net: Net, prior: Prior, images: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Means of the codes; log-likelihood and rate per image, by one code each; MMD of the batch."""
    mean, deviation = net.encode(images)
    posterior = torch.distributions.Normal(mean, deviation, validate_args=False)
    codes = mean + deviation * torch.randn_like(mean)
    likelihood = torch.distributions.Laplace(net.decode(codes), SCALE, validate_args=False)
    log_likelihood = likelihood.log_prob(images).sum((1, 2, 3)).mean()
    rate = (posterior.log_prob(codes) - prior.log_density(codes)).sum(1).mean()
    return mean, log_likelihood, rate, latent_mmd(codes, prior.draw(codes)).sum()


@torch.no_grad()
def measured(net: Net, prior: Prior, images: Tensor, batch: int) -> Row:
    """The measures of figure 4 on held-out images."""
    net.eval()
    parts = [terms(net, prior, images[first : first + batch]) for first in range(0, len(images), batch)]
    net.train()
    means = torch.cat([part[0] for part in parts])
    log_likelihood, rate, mmd = (float(torch.stack([part[place] for part in parts]).mean()) for place in (1, 2, 3))
    varying = int((means.std(0) > 0.1).sum())
    return {
        "sparsity": hoyer(means.cpu()).score,
        "log-likelihood": log_likelihood,
        "MMD": mmd,
        "rate": rate,
        "latents whose means vary": varying,
    }


def trained(
    options: argparse.Namespace, variance: float, alpha: float, training: Tensor, held_out: Tensor
) -> Iterator[Row]:
    """A row in the middle and at the end of training."""
    torch.manual_seed(options.seed)
    net = Net(options.latents, options.net).to(options.device)
    prior = Prior(options.gamma, variance, options.device)
    optimiser = torch.optim.Adam(net.parameters(), 5e-4, amsgrad=True)

    def loss(images: Tensor) -> Tensor:
        _, log_likelihood, rate, mmd = terms(net, prior, images)
        # The MMD of a batch counts for each of its images, as in the paper's code.
        return rate + alpha * mmd - log_likelihood

    compiled = torch.compile(loss) if options.compile else loss
    order, batch = torch.empty(0, dtype=torch.long, device=options.device), options.batch
    name: Row = {"net": options.net, "gamma": options.gamma, "variance": variance, "alpha": alpha}
    for step in range(options.steps):
        if len(order) < batch:
            order = torch.randperm(len(training), device=options.device)
        chosen, order = order[:batch], order[batch:]
        optimiser.zero_grad()
        compiled(training[chosen]).backward()
        optimiser.step()
        if (step + 1) % max(1, options.steps // 2) == 0:
            yield {**name, "steps": step + 1, **measured(net, prior, held_out, batch)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("net", choices=NETS)
    parser.add_argument("--gamma", type=float, default=0.8)
    parser.add_argument("--variances", type=float, nargs="+", default=[0.05, 0.0025])
    parser.add_argument("--alphas", type=float, nargs="+", default=[1000.0, 100.0, 300.0, 0.0])
    parser.add_argument("--latents", type=int, default=50)
    parser.add_argument("--steps", type=int, default=9600)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--items", type=int, default=60_000, help="at most so many of each part, to try the script out")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=torch.cuda.is_available())
    add_json(parser)
    options = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    training, held_out = (
        torch.cat(list(open_dataset("fashion-mnist", part=part, size=32).draw(options.items).chunks(5000)))
        for part in ("train", "test")
    )
    rows: list[Row] = []
    for alpha in options.alphas:
        for variance in options.variances:
            for row in trained(options, variance, alpha, training.to(options.device), held_out.to(options.device)):
                say(str(row))
                rows.append(row)
            torch.compiler.reset()
    title = f"What batch norm does to sparsity: {options.net}"
    save(options, __file__, title, {"Hoyer sparsity on test images": rows}, device=options.device)


if __name__ == "__main__":
    main()
