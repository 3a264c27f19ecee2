"""Hashes of weights and gaps of short trainings: two versions that train identically print the same on one machine.

`python fingerprints.py` prints JSON; run it with the source of each version on PYTHONPATH and compare.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path

import torch

import vaescope as vs

TRAININGS = {
    "conv": {"latents": 6, "objective": "beta"},
    "annealed": {"latents": 4, "objective": "annealed"},
    "beta_tc": {"latents": 4, "objective": "beta_tc", "posterior": "full"},
    "factor": {"latents": 3, "objective": {"name": "factor", "critic_widths": [16]}},
    "dip": {"latents": 4, "objective": "dip_ii", "optimiser": "amsgrad"},
    "decomposition": {"latents": 4, "objective": "decomposition", "prior": "mixture", "likelihood": "gaussian"},
    "identifiable": {"latents": 5, "model": "identifiable"},
    "vgon": {"latents": 4, "model": "vgon", "optimiser": "adagrad"},
    "autoencoder": {"latents": 4, "model": "autoencoder", "posterior": "deterministic"},
}


def digest(tensors: dict[str, torch.Tensor]) -> str:
    """One hash of all weights and their names."""
    found = hashlib.sha256()
    for name, tensor in sorted(tensors.items()):
        found.update(name.encode() + tensor.contiguous().numpy().tobytes())
    return found.hexdigest()[:16]


def fingerprints(folder: Path) -> dict[str, object]:
    """Ids and hashes by the name of what was trained."""
    common = {"steps": 40, "batch": 16, "runs": folder, "device": "cpu", "progress": False}
    found: dict[str, object] = {}
    for name, settings in TRAININGS.items():
        run = vs.fit("dsprites-small", **settings, **common)
        found[name] = [run.id, digest(run.model.state_dict())]
    members = [vs.Member(latents, vs.objectives.Beta(beta), 1e-3, 1) for latents in (2, 3) for beta in (1.0, 4.0)]
    mlp = {"name": "mlp", "encoder_widths": [16], "decoder_widths": [16]}
    if vs.__version__.startswith("0.1"):
        runs = vs.fit_many("dsprites-small", members, net=mlp, **common)
    else:
        runs = vs.fit_many("dsprites-small", members, vs.FitOptions(net=mlp, **common))
    for place, run in enumerate(runs):
        found[f"ensemble {place}"] = [run.id, digest(run.model.state_dict())]
    # Version 0.1 had a different name for it.
    periods = {"most_periods" if vs.__version__.startswith("0.1") else "max_periods": 2}
    search = vs.fondue("dsprites-small", period=40, **periods, largest=16, init=4, device="cpu", runs=folder)
    (kept,) = folder.glob("fondue-*")
    found["fondue"] = [kept.name, search.latents, *(kept / "history.jsonl").read_text().splitlines()]
    return found


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(fingerprints(Path(folder)), indent=1, default=str))
