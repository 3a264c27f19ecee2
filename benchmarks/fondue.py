"""FONDUE by the protocol of the thesis on the full dSprites grid: numbers beside the published ones, and times.

`one` is one seed from a cold start, compilation included. `trace` is the convolutional net at beta = 1, `gaps` are
the two other gaps, `blocks` is the gap by information from blocks of 1,000 items, spread and sorted, and from all at
once, `truncation` that gap on small images for blocks of many sizes, `betas` are other betas, all in one program,
`connected` is the fully connected net, `dimension` is that of the data. Each prints every reading as it comes, so that
a run cut short has shown what it had.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

warnings.filterwarnings("ignore")

import torch
from torch import Tensor
from torch.nn.functional import avg_pool2d

from vaescope.data import open_dataset
from vaescope.dimension import estimate, mle
from vaescope.encoding import encode
from vaescope.models import Architecture
from vaescope.nets import MLP
from vaescope.numerics import renyi
from vaescope.objectives import Beta
from vaescope.sizing import SearchOptions, fondue
from vaescope.sizing.axes import Latents
from vaescope.sizing.gaps import GAPS, Gap, GapTerms, Information, Trace
from vaescope.sizing.model_pool import ModelPool, SeedSearch, run_searches
from vaescope.sizing.setup import SearchSpec
from vaescope.sizing.store import MeasurementKey
from vaescope.training import Member, Plan, Trainer

PUBLISHED = {
    ("conv", "trace", 0.5): "13.6",
    ("conv", "trace", 1.0): "10.9 ± 0.7",
    ("conv", "trace", 2.0): "7.4 ± 0.5",
    ("conv", "trace", 4.0): "6.3 ± 0.7",
    ("conv", "dimension", 1.0): "10.1 ± 0.7",
    ("conv", "information", 1.0): "15.7 ± 0.5",
    ("fully_connected", "trace", 1.0): "5.2 ± 0.6",
}
RATE = 1e-4
BEGAN = time.monotonic()


def say(text: str) -> None:
    print(f"[{time.monotonic() - BEGAN:6.1f} s] {text}", flush=True)


class PrintedGaps(dict[MeasurementKey, GapTerms]):
    """Measured gaps that are printed as they come."""

    def __setitem__(self, key: MeasurementKey, terms: GapTerms) -> None:
        gap, member, period = key
        place = f"beta {member.objective.beta:g}, {member.latents} latents, seed {member.seed}, epoch {period}"
        say(f"{gap} {place}: {terms.gap:.3f}")
        super().__setitem__(key, terms)


class Table:
    """One pool of models, and searches in it."""

    def __init__(self, net: str, gaps: Mapping[str, Gap], slots: int, options: argparse.Namespace) -> None:
        data = open_dataset(options.data)
        search = SearchOptions(
            net=net, precision=options.precision, batch=64, period=options.period, max_periods=options.max_periods
        )
        self.net, self.options, self.axis = net, options, Latents(200)
        self.pool = ModelPool(search.setup(data), gaps, slots, measurements=PrintedGaps())

    def spec(self, gap: str, beta: float, start: int, width: int, most: int, near: bool) -> SearchSpec:
        member = Member(start, Beta(beta), RATE)
        return SearchSpec(gap, self.axis, member, start, GAPS[gap]().threshold, width, most, near)

    def answer(self, specs: Sequence[SearchSpec], seeds: int) -> None:
        began, before = time.monotonic(), self.pool.trained_steps
        searches = [SeedSearch(spec, seed) for spec in specs for seed in range(seeds)]
        answers = run_searches(self.pool, searches, lambda done, words="": None)
        for place, spec in enumerate(specs):
            own = answers[place * seeds : (place + 1) * seeds]
            values = [one.value for one in own]
            spread = stdev(values) if seeds > 1 else float("nan")
            beta = spec.member.objective.beta
            published = PUBLISHED.get((self.net, spec.gap, beta), "")
            say(
                f"{self.net}, {spec.gap}, beta {beta:g}: {fmean(values):.1f} ± {spread:.1f} (published {published}) "
                f"{[int(value) for value in values]}, epochs {[one.periods for one in own]}, "
                f"stable {sum(one.stable for one in own)} of {seeds}"
            )
            say("gaps " + json.dumps({one.seed: {n: round(g, 2) for n, g in one.search.gaps} for one in own}))
        seconds = time.monotonic() - began
        steps = self.pool.trained_steps - before
        say(f"took {seconds:.1f} s, {steps} model-steps, {1e3 * seconds / max(1, steps):.3f} ms per model-step")


def one(options: argparse.Namespace) -> None:
    found = fondue(
        options.data,
        seeds=1,
        batch=64,
        learning_rate=RATE,
        precision=options.precision,
        period=options.period,
        runs=None,
    )
    say(f"one seed from a cold start: {found.summary()}")
    say(json.dumps([{key: row[key] for key in ("latents", "gap")} for row in found.curve]))


def dimension(options: argparse.Namespace) -> None:
    data = open_dataset(options.data).draw(10_000)
    say(f"dimension of the data (published 11): {estimate(data).summary()}")
    say(f"k = 20: {mle(data, 20).summary()}")


def trace(options: argparse.Namespace) -> None:
    table = Table("conv", {"trace": Trace()}, 25, options)
    table.answer([table.spec("trace", 1.0, 11, 5, options.max_periods, False)], options.seeds)


def gaps(options: argparse.Namespace) -> None:
    table, most = (
        Table("conv", {name: GAPS[name]() for name in ("dimension", "information")}, 30, options),
        options.max_periods,
    )
    starts = {"dimension": 10, "information": 16}
    table.answer([table.spec(gap, 1.0, start, 5, most, True) for gap, start in starts.items()], options.seeds)


def blocks(options: argparse.Namespace) -> None:
    gaps = {
        "information": Information(),
        "information of one block": Information(block=10_000),
        "information of sorted blocks": Information(cut="sorted"),
    }
    table = Table("conv", gaps, 20, options)
    members = [Member(latents, Beta(1.0), RATE, seed) for seed in range(4) for latents in range(13, 18)]
    table.pool.measure([(name, member) for member in members for name in gaps], 2, lambda done: None)


def truncation(options: argparse.Namespace) -> None:
    """The gap by information of the same codes in other blocks: what FONDUE_IB's answer hangs on."""
    sprites = open_dataset("dsprites-small")
    data = open_dataset(avg_pool2d(sprites.batch(torch.arange(len(sprites))), 2))
    items = data.batch(torch.arange(len(data))).flatten(1)
    drawn = torch.randperm(len(items), generator=torch.Generator().manual_seed(0))
    _, place = torch.unique(items, dim=0, return_inverse=True)
    orders = {"drawn": drawn, "sorted": place.argsort()}
    codes, plan = {}, Plan(3000, 32, log_every=3000, evaluate_every=3000, monitor_every=0)
    for latents in (10, 11, 12, 13, 14, 15, 16, 18):
        trainer = Trainer(Architecture(net=MLP((128,), (128,))), [Member(latents, Beta(1.0), 1e-3)], plan, data)
        trainer.advance()
        sample = encode(trainer.model(), data).sample
        with torch.no_grad():
            codes[latents] = sample, trainer.model().decode(sample).mean.flatten(1)
        say(f"{latents} latents trained")
    for name, order in orders.items():
        for size in (990, 997, 998, 999, 1000, 1010, 2000, 4000):
            answer = max((n for n, parts in codes.items() if _gap(items, *parts, order, size) <= -0.01), default=0)
            say(f"{name} blocks of {size}, log2 {math.log2(size):.4f}: {answer} latents")
    for latents, (sample, _) in codes.items():
        short = ", ".join(f"{_short(sample, order):.4f} {name}" for name, order in orders.items())
        say(f"{latents} latents, bits of H(z) below log2 999: {short}")


def _short(sample: Tensor, order: Tensor) -> float:
    """How far H(z) of blocks of 999 items stays below what it can be."""
    return math.log2(999) - fmean(renyi.entropy(renyi.gram(sample[block])) for block in order.split(999)[:4])


def _gap(items: Tensor, sample: Tensor, decoded: Tensor, order: Tensor, size: int) -> float:
    """H(z) - I(x, x_hat), both truncated to two decimals in each of at most three blocks of that size."""
    gaps = []
    for block in order.split(size)[: min(3, len(order) // size)]:
        shared = renyi.mutual_information(renyi.gram(items[block]), renyi.gram(decoded[block]))
        terms = renyi.entropy(renyi.gram(sample[block])), shared
        gaps.append(math.trunc(round(terms[0] * 100, 6)) - math.trunc(round(terms[1] * 100, 6)))
    return fmean(gaps) / 100


def betas(options: argparse.Namespace) -> None:
    table, most = Table("conv", {"trace": Trace()}, 30, options), options.max_periods
    starts = {4.0: 7, 2.0: 8, 0.5: 13}
    table.answer([table.spec("trace", beta, start, 5, most, True) for beta, start in starts.items()], options.seeds)


def connected(options: argparse.Namespace) -> None:
    table = Table("fully_connected", {"trace": Trace()}, 15, options)
    table.answer([table.spec("trace", 1.0, 5, 5, min(options.max_periods, 3), True)], options.seeds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "stages", nargs="+", choices=["one", "dimension", "trace", "gaps", "blocks", "truncation", "betas", "connected"]
    )
    parser.add_argument("--data", default="dsprites")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--period", type=int, help="steps instead of an epoch, to try the script out")
    parser.add_argument("--precision", default="bfloat16")
    parser.add_argument("--max-periods", type=int, default=4)
    options = parser.parse_args()
    for stage in options.stages:
        globals()[stage](options)


if __name__ == "__main__":
    sys.exit(main())
