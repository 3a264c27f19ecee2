"""The id of a run: equal for equal training, different for any other."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from vaescope.data.arrays import from_array
from vaescope.errors import ConfigurationError
from vaescope.likelihoods import LIKELIHOODS, Gaussian
from vaescope.models import Architecture
from vaescope.nets import MLP, NETS
from vaescope.objectives import OBJECTIVES, Beta
from vaescope.posteriors import POSTERIORS
from vaescope.priors import PRIORS
from vaescope.runs import Configuration, Split
from vaescope.runs.record import hash_of
from vaescope.training import OPTIMISERS, PRECISIONS, Adam, Member, Plan

ROWS = np.arange(24, dtype=np.float64).reshape(6, 4)
BASE = Configuration.of(from_array(ROWS), Split(), Architecture(net="mlp", likelihood="gaussian"), Plan(100), Member(2))
IDENTIFY = """
import numpy as np
from vaescope.data.arrays import from_array
from vaescope.models import Architecture
from vaescope.runs import Configuration, Split
from vaescope.training import Member, Plan
rows = np.arange(24, dtype=np.float64).reshape(6, 4)
data = from_array(rows, "another name")
print(Configuration.of(data, Split(), Architecture(net="mlp", likelihood="gaussian"), Plan(100), Member(2)).id)
"""


def test_the_id_is_the_same_in_every_process() -> None:
    script = subprocess.run([sys.executable, "-c", IDENTIFY], capture_output=True, text=True, check=True)
    assert script.stdout.strip() == BASE.id


def test_the_id_is_twelve_hexadecimal_digits() -> None:
    assert len(BASE.id) == 12
    assert int(BASE.id, 16) >= 0


def test_the_order_of_a_table_does_not_matter() -> None:
    table = BASE.plain()
    backwards = {
        key: dict(reversed(value.items())) if isinstance(value, dict) else value for key, value in table.items()
    }
    assert hash_of(dict(reversed(backwards.items()))) == hash_of(table)
    assert Configuration.from_plain(dict(reversed(backwards.items()))).id == BASE.id


def test_the_id_does_not_depend_on_the_name_of_the_data() -> None:
    other = replace(BASE, data={**BASE.data, "name": "another name"})
    assert other.id == BASE.id
    assert other.plain() != BASE.plain()


OTHERS: dict[str, dict[str, Any]] = {
    "items of the data": {"data": {**BASE.data, "items": 7}},
    "shape of the data": {"data": {**BASE.data, "shape": [2, 2]}},
    "content of the data": {"data": {**BASE.data, "fingerprint": "0"}},
    "held out": {"split": Split(0.2)},
    "held out by number": {"split": Split(1)},
    "seed of the split": {"split": Split(seed=1)},
    "model": {"architecture": Architecture("autoencoder", "mlp", "deterministic", likelihood="gaussian")},
    "net": {"architecture": Architecture(net="affine", likelihood="gaussian")},
    "option of the net": {"architecture": Architecture(net=MLP((9,)), likelihood="gaussian")},
    "likelihood": {"architecture": Architecture(net="mlp", likelihood="bernoulli")},
    "option of the likelihood": {"architecture": Architecture(net="mlp", likelihood=Gaussian(0.5))},
    "initialisation": {"architecture": Architecture(net="mlp", likelihood="gaussian", initialisation="torch")},
    "steps": {"plan": Plan(101)},
    "batch": {"plan": Plan(100, 32)},
    "optimiser": {"plan": Plan(100, optimiser="amsgrad")},
    "option of the optimiser": {"plan": Plan(100, optimiser=Adam(0.8))},
    "precision": {"plan": Plan(100, precision="float64")},
    "rows of the history": {"plan": Plan(100, log_every=25)},
    "rows on held-out items": {"plan": Plan(100, evaluate_every=50)},
    "evaluation items": {"plan": Plan(100, evaluation_items=10)},
    "latents": {"member": Member(3)},
    "strength": {"member": Member(2, Beta(2.0))},
    "learning rate": {"member": Member(2, learning_rate=1e-3)},
    "seed": {"member": Member(2, seed=1)},
}


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS)
def test_everything_that_weights_and_history_depend_on_changes_the_id(change: dict[str, Any]) -> None:
    assert replace(BASE, **change).id != BASE.id


def test_all_changes_lead_to_different_ids() -> None:
    assert len({replace(BASE, **change).id for change in OTHERS.values()}) == len(OTHERS)


PARTS = [
    *(("net", name) for name in NETS),
    *(("likelihood", name) for name in LIKELIHOODS),
    *(("prior", name) for name in PRIORS),
    *(("posterior", name) for name in POSTERIORS),
    *(("optimiser", name) for name in OPTIMISERS),
    *(("objective", name) for name in OBJECTIVES),
    *(("precision", name) for name in PRECISIONS),
]


@pytest.mark.parametrize(("part", "name"), PARTS)
def test_every_registered_part_survives_json(part: str, name: str) -> None:
    if part in ("optimiser", "precision"):
        configuration = replace(BASE, plan=Plan(100, **{part: name}))
    elif part == "objective":
        configuration = replace(BASE, member=Member(2, objective=name))
    else:
        model = {"deterministic": "autoencoder", "conditional": "identifiable"}.get(name, "vae")
        told = {"condition": 2} if model == "identifiable" else {}
        configuration = replace(BASE, architecture=Architecture(model, **told, **{part: name}))
    read = json.loads(json.dumps(configuration.plain()))
    assert read == configuration.plain()
    assert Configuration.from_plain(read) == configuration
    assert Configuration.from_plain(read).id == configuration.id


def test_a_configuration_of_another_format_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="must be 1, got 2"):
        Configuration.from_plain({**BASE.plain(), "format": 2})


def test_numpy_numbers_are_stored_as_python_numbers() -> None:
    likelihood = Gaussian(np.float64(0.5))
    configuration = replace(BASE, architecture=Architecture(net="mlp", likelihood=likelihood))
    assert configuration.id == replace(BASE, architecture=Architecture(net="mlp", likelihood=Gaussian(0.5))).id


def test_a_tensor_as_a_strength_is_refused() -> None:
    configuration = replace(BASE, member=Member(2, Beta(torch.tensor(2.0))))
    with pytest.raises(ConfigurationError, match=r"member\.objective\.beta .*got Tensor"):
        configuration.plain()
