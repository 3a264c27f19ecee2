"""Disentanglement and completeness of a matrix of importances, from Eastwood and Williams (2018), section 2."""

from __future__ import annotations

import math

import numpy as np


def disentanglement(importances: np.ndarray) -> float:
    """sum_i rho_i (1 - H_K(P_i)), the entropies to the base of the number of factors."""
    latents, factors = importances.shape
    total = sum(importances[i][j] for i in range(latents) for j in range(factors))
    score = 0.0
    for i in range(latents):
        own = sum(importances[i][j] for j in range(factors))
        entropy = 0.0
        for j in range(factors):
            if importances[i][j] > 0:
                share = importances[i][j] / own
                entropy -= share * math.log(share, factors)
        score += own / total * (1 - entropy)
    return score


def completeness(importances: np.ndarray) -> float:
    """The same for each factor over latents; columns with equal sums have equal weights."""
    latents, factors = importances.shape
    scores = []
    for j in range(factors):
        own = sum(importances[i][j] for i in range(latents))
        shares = [importances[i][j] / own for i in range(latents)]
        scores.append(1 + sum(share * math.log(share, latents) for share in shares if share > 0))
    return sum(scores) / factors
