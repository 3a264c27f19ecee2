"""What the papers report of the family, as small real experiments."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from scipy.optimize import linear_sum_assignment
from torch.func import jacrev, vmap

from vaescope.data import Dataset, open_dataset
from vaescope.likelihoods import Gaussian
from vaescope.models import Architecture
from vaescope.objectives import Beta
from vaescope.training import Member, Plan, Trainer

pytestmark = pytest.mark.slow


def trained(architecture: Architecture, members: list[Member], data: Dataset, steps: int, batch: int = 64) -> Trainer:
    plan = Plan(steps, batch, log_every=steps, evaluate_every=steps, monitor_every=0)
    trainer = Trainer(architecture, members, plan, data)
    trainer.advance()
    return trainer


def distance_to_orthogonality(model: Any, data: Dataset) -> float:
    """The mean distance of V, of the Jacobian U S V^T, to the nearest signed permutation (Rolinek, eq. 29)."""
    x = data.batch(torch.arange(200))
    with torch.no_grad():
        means = model.encode(x).mean
        jacobians = vmap(jacrev(lambda z: model.decoder(z[None])[0].flatten()))(means)
        rotations = torch.linalg.svd(jacobians, full_matrices=False).Vh.mT
    distances = []
    for rotation in rotations:
        rows, columns = linear_sum_assignment(-rotation.abs().numpy())
        nearest = torch.zeros_like(rotation)
        nearest[rows, columns] = rotation[rows, columns].sign()
        distances.append(float((rotation - nearest).norm()))
    return sum(distances) / len(distances)


def test_a_diagonal_posterior_finds_the_principal_directions_and_others_do_not() -> None:
    """Rolinek, Table 2, synthetic linear: beta-VAE near 0, the full covariance and the autoencoder well above."""
    data = open_dataset("synthetic-linear", items=5000)
    kinds = {"diagonal": "vae", "full": "vae", "deterministic": "autoencoder"}
    found = {}
    for posterior, model in kinds.items():
        architecture = Architecture(model, "affine", posterior, likelihood=Gaussian(0.5))
        members = [Member(2, Beta(0.05), 1e-2, seed) for seed in range(4)]
        trainer = trained(architecture, members, data, 3000)
        found[posterior] = [distance_to_orthogonality(trainer.model(place), data) for place in range(4)]
    mean = {name: sum(values) / 4 for name, values in found.items()}
    assert mean["diagonal"] < 0.2, found
    assert mean["full"] > 0.4, found
    assert mean["deterministic"] > 0.4, found
