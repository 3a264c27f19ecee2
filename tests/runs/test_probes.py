"""What the probes in a history say about each latent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vaescope.runs import fit_many
from vaescope.runs.options import FitOptions
from vaescope.runs.probes import latent_rates, no_latent_rates, passive_since, probes_of
from vaescope.training import Member

ITEMS = np.random.default_rng(0).standard_normal((80, 4)).astype(np.float32)


def probe(step: int, types: str, rates: list[float] | None = None) -> dict[str, Any]:
    counts = {name: types.count(name[0]) for name in ("active", "mixed", "passive")}
    return {"step": step, "split": "probe", **counts, "types": types, **({} if rates is None else {"rates": rates})}


def test_a_latent_is_passive_since_the_first_probe_after_which_it_stays_passive() -> None:
    history = [{"step": 1, "split": "train", "loss": 3.0}]
    history += [probe(100 * place, types) for place, types in enumerate(("aamp", "aapp", "apap", "appp"), 1)]
    assert passive_since(history, 4) == {1: 300, 2: 400, 3: 100}
    assert passive_since(history, 3) == {}
    assert passive_since([], 4) == {}


def test_rates_of_latents_are_a_table_of_probes_and_latents() -> None:
    history = [{"step": 1, "split": "train", "rates": 3.0}, probe(2, "am", [2.5, 0.5]), probe(4, "ap", [3.0, 0.0])]
    found = latent_rates(history)
    assert found is not None
    assert (found.steps, found.types) == ((2, 4), ("am", "ap"))
    np.testing.assert_array_equal(found.rates, [[2.5, 0.5], [3.0, 0.0]])


def test_without_rates_the_reason_is_said() -> None:
    older = [probe(2, "am"), probe(4, "ap")]
    assert latent_rates(older) is None
    assert "version" in no_latent_rates(older)
    once = [probe(2, "am", [2.5, 0.5])]
    assert latent_rates(once) is None
    assert "monitor_every" in no_latent_rates(once)
    assert "not probed" in no_latent_rates([])


def test_a_run_that_an_earlier_version_began_has_the_rates_of_its_later_probes() -> None:
    found = latent_rates([probe(2, "am"), probe(4, "ap", [3.0, 0.0]), probe(6, "ap", [4.0, 0.0])])
    assert found is not None
    assert found.steps == (4, 6)


@pytest.mark.parametrize("members", [1, 2])
def test_every_probe_of_a_run_has_the_rate_of_each_of_its_latents(members: int, tmp_path: Any) -> None:
    options = FitOptions(
        net={"name": "mlp", "encoder_widths": [8], "decoder_widths": [8]},
        steps=30,
        log_every=10,
        evaluate_every=10,
        monitor_every=10,
        runs=tmp_path,
        device="cpu",
    )
    trained = fit_many(ITEMS, [Member(2 + place) for place in range(members)], options)
    for place, run in enumerate(trained):
        found = latent_rates(run.history)
        assert found is not None
        assert found.steps == (10, 20, 30)
        assert found.rates.shape == (3, 2 + place)
        wholes = [row["rate"] for row in probes_of(run.history)]
        np.testing.assert_allclose(found.rates.sum(1), wholes, atol=1e-3)
