"""The transformer of scikit-learn on a GPU: codes, items, score and pickles are those of the CPU."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import vaescope as vs

TABLE = np.random.default_rng(0).standard_normal((200, 6))


def test_a_model_on_a_gpu_transforms_as_on_the_cpu() -> None:
    vae = vs.VAETransformer(2, steps=20, device="cuda", random_state=0).fit(TABLE)
    codes, score = vae.transform(TABLE), vae.score(TABLE)
    items = vae.inverse_transform(codes)
    other = pickle.loads(pickle.dumps(vae)).set_params(device="cpu")
    np.testing.assert_allclose(other.transform(TABLE), codes, atol=1e-9)
    np.testing.assert_allclose(other.inverse_transform(codes), items, atol=1e-9)
    assert other.score(TABLE) == pytest.approx(score, rel=1e-9)
