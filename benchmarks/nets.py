"""Milliseconds per model-step of several nets: ours beside the same module under torch.compile in a plain loop.

Both train on images that are in the memory of the device, with Adam and the same precision. The contenders of a net run
in one process and take turns; the ratio is the median, over rounds, of the plain loop's time over ours, per model.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from recorded import Row, add_json, machine, save
from torch import Tensor, nn

from vaescope.data.arrays import from_array
from vaescope.data.dataset import Dataset
from vaescope.models import Architecture, LatentModule
from vaescope.nets import Net, ResNet
from vaescope.nets.convolution import Convolution, Deconvolution
from vaescope.numerics.distributions import latent_rate
from vaescope.training import Member, Plan, Trainer

LEARNING_RATE = 1e-4
PLAIN = "plain loop"
# The net (or its name) and the channels and side of the images; the thesis' nets take images of 64 x 64.
CASES: dict[str, tuple[str | Net, int, int]] = {
    "conv": ("conv", 1, 64),
    "conv128": ("conv", 1, 128),
    "conv256": ("conv", 1, 256),
    "resnet": (ResNet(), 3, 64),
    "mlp": ("mlp", 1, 64),
    "fully_connected": ("fully_connected", 1, 64),
}

Run = Callable[[int], float]  # trains that many steps and returns the seconds per step


@dataclass(frozen=True)
class Setting:
    """What every contender trains, on which device."""

    architecture: Architecture
    images: Dataset
    latents: int
    batch: int
    precision: str
    device: str

    def synchronise(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()


def ours(setting: Setting, members: int, chunk: int, compiled: bool | None) -> Run:
    """The trainer with this many members, in chunks of steps between two rows of its history."""
    plan = Plan(
        10**9, setting.batch, precision=setting.precision, log_every=chunk, evaluate_every=chunk, monitor_every=0
    )
    every = [Member(setting.latents, learning_rate=LEARNING_RATE, seed=seed) for seed in range(members)]
    trainer = Trainer(setting.architecture, every, plan, setting.images, None, setting.device, compile=compiled)

    def run(steps: int) -> float:
        chunks, start = -(-steps // chunk), time.perf_counter()
        for _ in range(chunks):
            trainer.advance()
        setting.synchronise()
        return (time.perf_counter() - start) / (chunks * chunk)

    return run


def with_library_layers(model: LatentModule) -> LatentModule:
    """The model with layers of torch, as everyone writes them, in place of our convolutions of stride 2."""
    for module in list(model.modules()):
        for name, layer in module.named_children():
            if not isinstance(layer, Convolution | Deconvolution):
                continue
            kernel, bias = layer.weight.shape[-1], layer.bias is not None
            kind = nn.Conv2d if isinstance(layer, Convolution) else nn.ConvTranspose2d
            first, second = layer.weight.shape[:2]
            widths = (second, first) if kind is nn.Conv2d else (first, second)
            other = kind(*widths, kernel, stride=2, padding=kernel // 2 - 1, bias=bias)
            other.load_state_dict(layer.state_dict())
            setattr(module, name, other)
    return model


def negative_elbo(model: LatentModule, x: Tensor, noise: Tensor) -> Tensor:
    """The loss that both minimise."""
    result = model(x, {"posterior": noise})
    rate = latent_rate(result.posterior, result.prior, result.z).sum(1)
    return (rate - result.likelihood.log_prob(x)).mean()


def plain_loop(setting: Setting, compiled: bool) -> Run:
    """The loop everyone writes, with images on the device, a fused Adam, and autocast or TF32 where it is asked for."""
    device, shape = setting.device, setting.images.shape
    kept = torch.float64 if setting.precision == "float64" else torch.float32
    model = with_library_layers(setting.architecture.build(shape, setting.latents, seed=0))
    model = model.to(device, kept).to(memory_format=torch.channels_last).train()
    optimiser = torch.optim.Adam(model.parameters(), LEARNING_RATE, fused=True)
    images = setting.images.to(device)
    loss_of = torch.compile(negative_elbo) if compiled else negative_elbo
    half = setting.precision == "bfloat16"
    autocast = torch.autocast(device, torch.bfloat16) if half else nullcontext()

    def run(steps: int) -> float:
        torch.set_float32_matmul_precision("high" if setting.precision in ("tf32", "bfloat16") else "highest")
        torch.backends.cudnn.allow_tf32 = setting.precision in ("tf32", "bfloat16")
        start = time.perf_counter()
        for _ in range(steps):
            x = images.batch(torch.randint(len(images), (setting.batch,), device=device)).to(kept)
            x = x.to(memory_format=torch.channels_last)
            noise = torch.randn(setting.batch, setting.latents, dtype=kept, device=device)
            optimiser.zero_grad()
            with autocast:
                loss = loss_of(model, x, noise)
            loss.backward()
            optimiser.step()
        setting.synchronise()
        return (time.perf_counter() - start) / steps

    return run


def in_turn(runs: dict[str, Run], steps: int, rounds: int) -> tuple[dict[str, float], dict[str, list[float]]]:
    """The seconds of each run's first steps, compilation included, and its milliseconds per step in each round."""
    first = {}
    for name, run in runs.items():
        start = time.perf_counter()
        run(steps)
        first[name] = time.perf_counter() - start
        print(f"{name}: compiled, and {steps} steps, in {first[name]:.1f} s", file=sys.stderr, flush=True)
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(run(steps) * 1e3)
    return first, times


def setting_of(name: str, given: argparse.Namespace) -> Setting:
    """The architecture of a case, and its images: random pixels."""
    net, channels, side = CASES[name]
    side = given.pixels or side
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (given.items, side, side, channels), generator=generator).to(torch.uint8)
    images = from_array(pixels.squeeze(-1).numpy())
    return Setting(Architecture(net=net), images, given.latents, given.batch, given.precision, given.device)


def measure(name: str, given: argparse.Namespace) -> tuple[list[Row], Row]:
    """One row for each number of members, and the single times behind them."""
    setting = setting_of(name, given)
    runs = {PLAIN: plain_loop(setting, not given.eager)}
    names = {f"vaescope, {members} member{'s' * (members > 1)}": members for members in given.members}
    runs |= {title: ours(setting, members, given.steps, given.compile) for title, members in names.items()}
    first, times = in_turn(runs, given.steps, given.rounds)
    rows = []
    for title, members in names.items():
        ratios = [plain * members / own for plain, own in zip(times[PLAIN], times[title], strict=True)]
        row = {"net": name, "image": "x".join(map(str, setting.images.shape)), "members": members}
        row |= {"plain loop": statistics.median(times[PLAIN]), "ours": statistics.median(times[title]) / members}
        row |= {"median ratio": statistics.median(ratios), "least": min(ratios), "most": max(ratios)}
        rows.append({**row, "seconds of the first steps": first[title]})
    return rows, {"net": name, "first seconds": first, "milliseconds per step": times}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--nets", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--precision", default="float32", choices=["float32", "float64", "tf32", "bfloat16"])
    parser.add_argument("--members", type=int, nargs="+", default=[1])
    parser.add_argument("--pixels", type=int, help="side of an image; default: that of each net")
    parser.add_argument("--items", type=int, default=2048, help="images")
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--latents", type=int, default=10)
    parser.add_argument("--steps", type=int, default=20, help="steps of a contender in each round")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--eager", action="store_true", help="the plain loop without torch.compile")
    parser.add_argument(
        "--compile", action=argparse.BooleanOptionalAction, default=None, help="ours; by default on a GPU"
    )
    add_json(parser)
    given = parser.parse_args(arguments)
    print(machine(given.device))
    rows: list[Row] = []
    raw: list[Row] = []
    for name in given.nets:
        own, single = measure(name, given)
        rows, raw = rows + own, [*raw, single]
        print(*own, sep="\n", flush=True)
    plain = "eager" if given.eager else "under torch.compile"
    notes = [f"The plain loop is the same module {plain}, with images on the device and a fused Adam."]
    title = f"Nets compared with a plain loop, {given.precision}"
    tables = {"milliseconds per model-step": rows}
    save(given, __file__, title, tables, device=given.device, notes=notes, raw=raw)


if __name__ == "__main__":
    main()
