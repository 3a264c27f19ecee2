"""FONDUE by the protocol of the thesis on the full dSprites grid: numbers beside the published ones, and times.

`one` is one seed from a cold start, with a table of where the time goes, and `seeds` several seeds. `trace` is the
convolutional net at beta = 1, `gaps` are the two other gaps, `blocks` is the gap by information from blocks of 1,000
items, spread and sorted, and from all at once, `truncation` that gap on small images for blocks of many sizes, `betas`
are other betas, all in one program, `connected` is the fully connected net, `dimension` is that of the data. Each
prints every reading as it comes, so that a run cut short has shown what it had.
"""

from __future__ import annotations

import time

BEGAN = time.perf_counter()

import argparse
import json
import math
import sys
import warnings
from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

warnings.filterwarnings("ignore")

import torch
from recorded import Row, add_json, save
from torch import Tensor
from torch.nn.functional import avg_pool2d

import vaescope.sizing.estimate as estimate_module
import vaescope.sizing.setup as setup_module
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
from vaescope.training.engines import StackedEngine

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
TABLES: dict[str, list[Row]] = {}  # rows by caption, as they are measured


def say(text: str) -> None:
    print(f"[{time.perf_counter() - BEGAN:6.1f} s] {text}", flush=True)


def add(caption: str, row: Row) -> None:
    """Keep a row for the results, and print it."""
    TABLES.setdefault(caption, []).append(row)
    say(f"{caption}: {row}")


class PrintedGaps(dict[MeasurementKey, GapTerms]):
    """Measured gaps that are printed as they come."""

    def __setitem__(self, key: MeasurementKey, terms: GapTerms) -> None:
        gap, member, period = key
        row = {"beta": member.objective.beta, "latents": member.latents, "seed": member.seed, "epoch": period}
        add(f"gaps, {gap}", {**row, "gap": terms.gap})
        super().__setitem__(key, terms)


class Table:
    """One pool of models, and searches in it."""

    def __init__(self, net: str, gaps: Mapping[str, Gap], slots: int, options: argparse.Namespace) -> None:
        data = open_dataset(options.data)
        search = SearchOptions(
            net=net, precision=options.precision, batch=64, period=options.period, max_periods=options.max_periods
        )
        self.net, self.options, self.axis = net, options, Latents(200)
        setup = search.setup(data)
        filled = slots if setup.device.type == "cuda" else None
        self.pool = ModelPool(setup, gaps, filled, measurements=PrintedGaps())

    def spec(self, gap: str, beta: float, start: int, width: int, most: int, near: bool) -> SearchSpec:
        member = Member(start, Beta(beta), RATE)
        return SearchSpec(gap, self.axis, member, start, GAPS[gap]().threshold, width, most, near)

    def answer(self, specs: Sequence[SearchSpec], seeds: int) -> None:
        began, before = time.perf_counter(), self.pool.trained_steps
        searches = [SeedSearch(spec, seed) for spec in specs for seed in range(seeds)]
        answers = run_searches(self.pool, searches, lambda done, words="": None)
        for place, spec in enumerate(specs):
            own = answers[place * seeds : (place + 1) * seeds]
            values = [one.value for one in own]
            spread = stdev(values) if seeds > 1 else float("nan")
            beta = spec.member.objective.beta
            published = PUBLISHED.get((self.net, spec.gap, beta), "")
            row = {"net": self.net, "gap": spec.gap, "beta": beta, "latents": fmean(values), "spread": spread}
            row |= {"published": published, "answers": [int(value) for value in values]}
            row |= {"epochs": [one.periods for one in own], "stable": sum(one.stable for one in own)}
            add("answers", row)
            say("gaps " + json.dumps({one.seed: {n: round(g, 2) for n, g in one.search.gaps} for one in own}))
        seconds = time.perf_counter() - began
        steps = self.pool.trained_steps - before
        each = 1e3 * seconds / max(1, steps)
        add("time", {"seconds": seconds, "model-steps": steps, "milliseconds per model-step": each})


class Clock:
    """Seconds that calls of some functions take, by part; time in an inner call counts for its own part only."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inner: list[float] = []

    def watch(self, owner: object, name: str, part: str) -> None:
        """Count the calls of a function of a class or module from now on."""
        function = getattr(owner, name)
        self.seconds.setdefault(part, 0.0)

        def timed(*given: object, **named: object) -> object:
            began = time.perf_counter()
            self._inner.append(0.0)
            try:
                return function(*given, **named)
            finally:
                whole = time.perf_counter() - began
                self.seconds[part] += whole - self._inner.pop()
                if self._inner:
                    self._inner[-1] += whole

        setattr(owner, name, timed)


def search(options: argparse.Namespace, seeds: int) -> None:
    """A whole search from a cold start, and where its time goes."""
    clock = Clock()
    clock.seconds["import"] = time.perf_counter() - BEGAN
    for owner, name, part in (
        (estimate_module, "open_dataset", "data"),
        (SearchOptions, "setup", "data"),
        (setup_module, "estimate", "dimension"),
        (Trainer, "__init__", "model and trial step"),
        (StackedEngine, "_captured", "tracing, compiling and capturing"),
        (Trainer, "advance", "training"),
        (Trainer, "assign_slots", "training"),
        (ModelPool, "_measure", "reading gaps"),
    ):
        clock.watch(owner, name, part)
    settings = {"precision": options.precision, "period": options.period, "compile": options.compile}
    found = fondue(
        options.data, seeds=seeds, batch=64, learning_rate=RATE, search=options.search, runs=None, **settings
    )
    whole = time.perf_counter() - BEGAN
    say(found.summary())
    for part, seconds in {**clock.seconds, "rest": whole - sum(clock.seconds.values()), "all": whole}.items():
        add(f"where the time of {seeds} seed{'s' * (seeds > 1)} goes", {"part": part, "seconds": seconds})
    row = {"search": options.search, "answers": found.values, "stable": found.stable, "start": found.start}
    add("answers", {**row, "models": found.models, "model-steps": found.trained_steps})
    gaps = "gaps of " + ("the seed" if seeds == 1 else f"{seeds} seeds")
    TABLES[gaps] = [{key: row[key] for key in ("latents", "gap")} for row in found.curve]


def one(options: argparse.Namespace) -> None:
    search(options, 1)


def seeds(options: argparse.Namespace) -> None:
    search(options, options.seeds)


def dimension(options: argparse.Namespace) -> None:
    data = open_dataset(options.data).draw(10_000)
    row = {"latents to start with": estimate(data).latents_to_start_with, "MLE at k = 20": mle(data, 20).dimension}
    add("dimension of the data", {**row, "published": 11})


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
            add("answers by blocks", {"blocks": name, "items": size, "log2": math.log2(size), "latents": answer})
    for latents, (sample, _) in codes.items():
        add("bits of H(z) below log2 999", {"latents": latents} | {k: _short(sample, o) for k, o in orders.items()})


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


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    stages = ["one", "seeds", "dimension", "trace", "gaps", "blocks", "truncation", "betas", "connected"]
    parser.add_argument("stages", nargs="+", choices=stages)
    parser.add_argument("--data", default="dsprites")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--period", type=int, help="steps instead of an epoch, to try the script out")
    parser.add_argument("--precision", default="bfloat16")
    parser.add_argument("--max-periods", type=int, default=4)
    parser.add_argument("--search", default="rounds", choices=["rounds", "interpolate", "bisection"])
    parser.add_argument("--compile", action=argparse.BooleanOptionalAction, default=None)
    add_json(parser)
    options = parser.parse_args(arguments)
    for stage in options.stages:
        globals()[stage](options)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    title = "FONDUE by the protocol of the thesis: " + ", ".join(options.stages)
    save(options, __file__, title, TABLES, device=device)


if __name__ == "__main__":
    sys.exit(main())
