"""The examples with other packages run as they are, in a folder in which they leave nothing behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
TYPES = re.compile(r"(\d+) of (\d+) latents are active, (\d+) mixed, and (\d+) passive")

# The number of latents of each types line, and what else a user sees.
EXPECTED: dict[str, tuple[list[int], tuple[str, ...]]] = {
    "pythae_model": (
        [10],
        (r"encoder\(x\) returns 'embedding' and 'log_covariance'", r"CKA 0\.\d\d", r"beta 0\.1: \d+ active.* nats"),
    ),
    "diffusers_autoencoder": (
        [4, 4 * 4 * 4],
        (r"(channel \d: \w+ +[\d.]+ nats per position\n){4}", r"(([\d.]+ ){3}[\d.]+\n){4}", "all numbers as latents"),
    ),
    "scvi_model": ([10], (r"(latent \d: \w+ +[\d.]+ nats\n){10}", "expected counts", r"decoded to: tensor\(\[")),
    "lightning_module": ([12, 12], ("after training: ",)),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_example_prints_types_and_leaves_nothing_behind(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    assert done.returncode == 0, done.stderr
    latents, facts = EXPECTED[name]
    found = [tuple(map(int, match)) for match in TYPES.findall(done.stdout)]
    assert [of for _, of, *_ in found] == latents
    for active, of, mixed, passive in found:
        assert active + mixed + passive == of
        assert 0 < passive < of
    for fact in facts:
        assert re.search(fact, done.stdout), done.stdout
    assert list(tmp_path.iterdir()) == []


def test_every_example_is_run_by_a_test() -> None:
    run_elsewhere = {"plain_pytorch", "sklearn_pipeline", "report_runs"}
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*EXPECTED, *run_elsewhere}
