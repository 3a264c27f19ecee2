"""Make a folder of runs of every kind with the command line: `python make_fixtures.py FOLDER`.

`store_0_1` was made by version 0.1.0. Later versions must open, list and resume it without a change of any id.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

NET = ["--net", "mlp", "--set", "net.encoder_widths=[8]", "--set", "net.decoder_widths=[8]", "--learning-rate", "1e-2"]
COMPLETE = ["digits", "--latents", "3", "--steps", "100"]
CONDITIONAL = ["digits", "--latents", "3", "--model", "conditional", "--objective", "beta_tc", "--steps", "60"]
CRITIC = ["digits", "--latents", "2", "--objective", "factor", "--set", "objective.critic_widths=[8]", "--steps", "60"]
# Python, because checkpoints must be frequent: the settings that `test_runs_of_0_1.py` resumes with.
KILLED = """
import vaescope as vs
mlp = {{"name": "mlp", "encoder_widths": [8], "decoder_widths": [8]}}
members = [vs.Member(n, vs.objectives.Beta(1.0), 1e-2, seed) for n in {latents} for seed in {seeds}]
options = vs.FitOptions(net=mlp, steps=1200, checkpoint_seconds=0, runs={runs!r}, progress=False)
vs.fit_many('digits', members, options)
"""
FAILED = ["digits", "--latents", "2", "--steps", "50", "--set", "objective.beta=1e38"]
FONDUE = ["digits", "--seeds", "2", "--largest", "12", "--period", "100"]
SWEEP = """
[data]
name = "digits"
[model]
net = { name = "mlp", encoder_widths = [8], decoder_widths = [8] }
latents = 3
[objective]
name = "beta"
[training]
steps = 80
learning_rate = 1e-2
[grid]
"objective.beta" = [1, 4]
seed = [0, 1]
[measure]
metrics = ["mig"]
"""


def vaescope(*words: str) -> subprocess.CompletedProcess[str]:
    """Run one command and wait for it."""
    return subprocess.run([sys.executable, "-m", "vaescope", *words], capture_output=True, text=True)


def train(runs: Path, latents: list[int], seeds: list[int]) -> subprocess.Popen[bytes]:
    """Start to train runs with frequent checkpoints."""
    return subprocess.Popen([sys.executable, "-c", KILLED.format(latents=latents, seeds=seeds, runs=str(runs))])


def interrupt(runs: Path, pattern: str, latents: list[int], seeds: list[int]) -> None:
    """Train runs, kill the process after its first checkpoint, and save their final weights separately."""
    process = train(runs, latents, seeds)
    while not list(runs.glob(pattern)) and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    whole = runs.with_name("uninterrupted")
    train(whole, latents, seeds).wait()


def main(folder: Path) -> None:
    where = ["--runs", str(folder / "runs")]
    for words in (COMPLETE, CONDITIONAL, CRITIC):
        print(vaescope("fit", *words, *NET, *where, "--json"))
    complete = json.loads(vaescope("fit", *COMPLETE, *NET, *where, "--json").stdout)[0]["id"]
    print(vaescope("fit", *FAILED, *NET, *where))
    print(vaescope("prune", complete, *where, "--keep", "0,1", "--json"))
    print(vaescope("fondue", *FONDUE, *NET, *where, "--json"))
    (folder / "study.toml").write_text(SWEEP.lstrip())
    print(vaescope("sweep", str(folder / "study.toml"), "--runs", str(folder / "sweep"), "--json"))
    interrupt(folder / "interrupted", "*/state.safetensors", [2], [7])
    interrupt(folder / "ensemble", ".ensembles/*/state.safetensors", [1, 2], [5, 6])
    for file in folder.glob("uninterrupted/*/*"):
        if file.name != "model.safetensors":
            file.unlink()
    for lock in folder.rglob(".lock"):
        lock.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
