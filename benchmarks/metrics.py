"""Seconds and scores of metrics on codes: DCI and SAP against scikit-learn, MIG and FactorVAE against disent.

All rows of a table come from one run on one machine with the same cores; compare ratios, not absolute times. The same
script is the worker that runs in disent's own environment, where vaescope need not be.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

Row = dict[str, Any]

CLASSES = (3, 6, 40, 32, 32)  # those of dSprites
GRID = (3, 6, 10, 8, 8)
LATENTS = 10
ROTATIONS, NOISES, DUPLICATES = (0, 0.1, 0.25, 0.5, 1), (0.02, 0.5), (False, True)


def representation(number: int, items: int) -> tuple[np.ndarray, np.ndarray]:
    """Factors, and codes of one of 20 qualities: turned by a share of a right angle, noisy, twice or beside noise."""
    generator = np.random.default_rng((number, 2024))
    factors = np.stack([generator.integers(0, count, items) for count in CLASSES], 1)
    return codes_of(factors, number, generator), factors


def codes_of(factors: np.ndarray, number: int, generator: np.random.Generator) -> np.ndarray:
    """The codes of that quality."""
    from scipy.linalg import expm

    sources = (factors - factors.mean(0)) / factors.std(0)
    twice = DUPLICATES[number // 10 % 2]
    codes = np.concatenate([sources, sources if twice else generator.standard_normal(sources.shape)], 1)
    codes += NOISES[number // 5 % 2] * generator.standard_normal(codes.shape)
    raw = generator.standard_normal((LATENTS, LATENTS))
    skew = raw - raw.T
    angle = ROTATIONS[number % 5] * np.pi / 2
    return codes @ expm(angle * skew / np.abs(np.linalg.eigvals(skew)).max())


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """How long the work takes, and what comes of it."""
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def speed_of_dci(items: int) -> list[Row]:
    """Both protocols, trained on that many codes; half as many more are tested."""
    from vaescope.metrics.prediction import dci

    codes, factors = representation(2, items * 3 // 2)
    dci(codes[:300], factors[:300] % 3)
    fast, found = seconds(lambda: dci(codes, factors))
    rows: list[Row] = [{"protocol": "fast", "seconds": fast, "ratio": 1.0, "score": found.score}]
    print(rows[-1], flush=True)
    slow, found = seconds(lambda: dci(codes, factors, protocol="dlib"))
    # Before and after, as the machine may not be ours alone.
    around = (fast + seconds(lambda: dci(codes, factors))[0]) / 2
    rows.append({"protocol": "scikit-learn", "seconds": slow, "ratio": slow / around, "score": found.score})
    print(rows[-1], flush=True)
    return rows


def speed_of_sap(items: int) -> list[Row]:
    """Support vector machines of one latent: Newton's method on sorted values against LinearSVC, default and exact."""
    from sklearn.svm import LinearSVC

    from vaescope.metrics.linear_svm import classify

    generator, rows = np.random.default_rng(0), []
    for classes in (3, 6, 40):
        labels = generator.integers(0, classes, items * 3 // 2)
        values = labels + 0.5 * classes**0.5 * generator.standard_normal(len(labels))
        train, test = (values[:items], labels[:items]), values[items:]

        def library(train: tuple[np.ndarray, np.ndarray] = train, test: np.ndarray = test, **options: float) -> Any:
            machine = LinearSVC(C=0.01, class_weight="balanced", dual=False, **options)
            return machine.fit(train[0][:, None], train[1]).predict(test[:, None])

        ours, guesses = seconds(lambda train=train, test=test: classify(*train, test, cost=0.01))
        default, usual = seconds(library)
        slow, exact = seconds(lambda library=library: library(tol=1e-9, max_iter=10_000))
        for name, value, found in (("Newton", ours, guesses), ("LinearSVC", default, usual), ("exact", slow, exact)):
            row = {"classes": classes, "method": name, "seconds": value, "ratio": value / ours}
            rows.append({**row, "guesses of the exact machine": np.mean(found == exact)})
            print(rows[-1], flush=True)
    return rows


def speed_of_continuous_sap(turns: int = 15) -> list[Row]:
    """SAP of continuous factors, and disentanglement_lib's loop over squared covariances, in turn, of one thread."""
    from vaescope.metrics import sap

    found = []
    for items, latents in ((1_000, 10), (10_000, 10), (10_000, 50), (100_000, 10)):
        generator = np.random.default_rng(0)
        codes = generator.standard_normal((items, latents))
        factors = codes[:, :5] + generator.standard_normal((items, 5))

        def loop(codes: np.ndarray = codes, factors: np.ndarray = factors) -> float:
            matrix = np.zeros((codes.shape[1], factors.shape[1]))
            for row, code in enumerate(codes.T):
                for column, factor in enumerate(factors.T):
                    spread = np.cov(code, factor, ddof=1)
                    matrix[row, column] = spread[0, 1] ** 2 / (spread[0, 0] * spread[1, 1])
            ordered = np.sort(matrix, 0)
            return float((ordered[-1] - ordered[-2]).mean())

        times: list[list[float]] = [[], []]
        for _ in range(turns):
            for work, own in zip((partial(sap, codes, factors), loop), times, strict=True):
                start = time.process_time()
                work()
                own.append(time.process_time() - start)
        our, their = map(min, times)
        row = {"items": items, "latents": latents, "ours": our, "loop": their, "ratio": their / our}
        found.append(row | {"difference": abs(float(sap(codes, factors)) - loop())})
        print(
            f"SAP, continuous, {items} codes x {latents}: {our * 1e3:.2f} ms, loop {their * 1e3:.2f} ms, "
            f"ratio {their / our:.2f}",
            flush=True,
        )
    return found


def speed_of_others(items: int) -> list[Row]:
    """Nearest neighbours of codes, and the Jacobians of a decoder of 784 dimensions."""
    from vaescope.metrics import distance_to_orthogonality, neighbours

    codes, factors = representation(2, items)
    rows: list[Row] = [{"what": "neighbours", "seconds": seconds(lambda: neighbours(codes, factors))[0]}]
    layers = [torch.nn.Linear(6, 500), torch.nn.Tanh(), torch.nn.Linear(500, 500), torch.nn.Tanh()]
    decoder = torch.nn.Sequential(*layers, torch.nn.Linear(500, 784))
    took, found = seconds(lambda: distance_to_orthogonality(decoder, codes[:, :6]))
    rows.append({"what": f"distance_to_orthogonality ({found.estimator})", "seconds": took})
    print(*rows, sep="\n", flush=True)
    return rows


def agreement_of_dci(items: int, count: int) -> list[Row]:
    """The scores of both protocols over representations of varied quality, and whether they rank them alike."""
    from scipy.stats import spearmanr

    from vaescope.metrics.prediction import dci

    rows = []
    for number in range(count):
        codes, factors = representation(number, items * 3 // 2)
        both = [dci(codes, factors, protocol=protocol) for protocol in ("fast", "dlib")]
        rows.append([(found.score, *found.parts.values()) for found in both])
        print(f"  representation {number:2}: fast {rows[-1][0][0]:.3f}, scikit-learn {rows[-1][1][0]:.3f}", flush=True)
    table = np.array(rows)
    scores = enumerate(("disentanglement", "completeness", "informativeness"))
    found = {name: spearmanr(table[:, 0, place], table[:, 1, place]).statistic for place, name in scores}
    print(f"Spearman correlation over {count} representations, {items} codes each: {found}")
    return [found]


def grid() -> tuple[np.ndarray, np.ndarray]:
    """Every combination of the factors, and codes turned a little."""
    factors = np.indices(GRID).reshape(len(GRID), -1).T
    return codes_of(factors, 1, np.random.default_rng(0)), factors


def compared_with_disent(peer: str) -> list[Row]:
    """Both packages are given finished codes, so that what is timed is the metric and the drawing of its items.

    Each is timed the second time, when nothing is left to be imported.
    """
    from vaescope.metrics import mig
    from vaescope.metrics.fixed_factor import factor_vae

    codes, factors = grid()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "codes.npy"
        np.save(path, codes.astype(np.float32))
        answer = subprocess.run([peer, __file__, "--worker", str(path)], capture_output=True, text=True)
    if answer.returncode == 3:
        print(f"disent is not installed for {peer}: MIG and FactorVAE are not compared.")
        return []
    if answer.returncode:
        sys.exit(f"disent's worker failed:\n{answer.stderr}")
    theirs = json.loads(answer.stdout.splitlines()[-1])

    def mig_of_drawn() -> Any:
        drawn = np.random.default_rng(0).integers(0, len(codes), 10_000)
        return mig(codes[drawn], factors[drawn])

    ours = {"MIG": mig_of_drawn, "FactorVAE": lambda: factor_vae(codes, factors)}
    rows = []
    for name, work in ours.items():
        work()
        own, found = seconds(work)
        value, score = theirs[name]
        row = {"metric": name, "ours": own, "disent": value, "ratio": value / own}
        rows.append({**row, "score": found.score, "score of disent": score})
        print(rows[-1], flush=True)
    return rows


def worker(path: str) -> int:
    """disent's seconds and scores, as one line of JSON; 3 where it is not installed."""
    import importlib.util

    if importlib.util.find_spec("disent") is None:
        return 3
    # Operators that a torchvision without its compiled part leaves undefined, and looks for when it is imported.
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    from disent.dataset import DisentDataset
    from disent.dataset.data import ArrayGroundTruthData
    from disent.metrics import metric_factor_vae, metric_mig

    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002 (disent draws from numpy's global generator)
    pictures = np.load(path)[:, :, None, None]
    names = tuple(f"factor {place}" for place in range(len(GRID)))
    data = ArrayGroundTruthData(pictures, names, GRID, array_chn_is_last=False, transform=torch.from_numpy)
    dataset = DisentDataset(data)
    found = {}
    for name, metric in (("MIG", metric_mig), ("FactorVAE", metric_factor_vae)):
        work = partial(metric, dataset, lambda x: x.flatten(1))
        work()
        value, scores = seconds(work)
        key = "mig.discrete_score" if name == "MIG" else "factor_vae.eval_accuracy"
        found[name] = (value, float(scores[key]))
    print(json.dumps(found))
    return 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=10_000, help="codes to train on where seconds are measured")
    parser.add_argument("--ranked-items", type=int, default=2_000, help="codes to train on where rankings are compared")
    parser.add_argument("--representations", type=int, default=20)
    parser.add_argument(
        "--no-dci", action="store_true", help="without DCI, whose protocol in scikit-learn takes minutes"
    )
    parser.add_argument("--peer", default=sys.executable, help="the Python that has disent")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--continuous-sap", action="store_true", help="SAP of continuous factors alone")
    parser.add_argument("--json", help="also write the results to this file, which results.py shows")
    options = parser.parse_args()
    if options.worker:
        sys.exit(worker(options.worker))
    from recorded import machine, save

    print(machine(), flush=True)
    tables = {"SAP of continuous factors, processor seconds": speed_of_continuous_sap()}
    if not options.continuous_sap:
        combinations = f"{np.prod(GRID):,} combinations of {len(GRID)} factors, {LATENTS} latents"
        tables[f"MIG and FactorVAE, {combinations}, seconds"] = compared_with_disent(options.peer)
        tables[f"SAP of one latent, {options.items:,} codes"] = speed_of_sap(options.items)
        tables[f"{options.items:,} codes"] = speed_of_others(options.items)
        if not options.no_dci:
            tables[f"DCI, {options.items:,} codes x {LATENTS}"] = speed_of_dci(options.items)
            correlation = f"Spearman correlation of both protocols, {options.representations} representations"
            tables[correlation] = agreement_of_dci(options.ranked_items, options.representations)
    tables = {caption: rows for caption, rows in tables.items() if rows}
    save(options, __file__, "Metrics compared with other packages", tables)


if __name__ == "__main__":
    main()
