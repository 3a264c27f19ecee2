"""Contract tests for every registry: names, docstrings, round trips, messages, and the help of the command line."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from typing import Any

import pytest
from typer.testing import CliRunner

from vaescope.cli import app
from vaescope.data import DATASETS, open_dataset
from vaescope.errors import ConfigurationError, UnknownNameError
from vaescope.likelihoods import LIKELIHOODS, Gaussian
from vaescope.models import MODELS, Architecture
from vaescope.nets import INITIALISATIONS, MLP, NETS, Conv, FullyConnected
from vaescope.objectives import OBJECTIVES, Beta
from vaescope.posteriors import POSTERIORS
from vaescope.priors import PRIORS
from vaescope.registry import PartRegistry, lookup
from vaescope.runs import TRACKERS
from vaescope.sizing import GAPS
from vaescope.training import OPTIMISERS, PRECISIONS, AMSGrad

# Kind of part, as the command line calls it -> its table.
TABLES: dict[str, Any] = {
    "data": DATASETS,
    "gap": GAPS,
    "initialisation": INITIALISATIONS,
    "likelihood": LIKELIHOODS,
    "model": MODELS,
    "net": NETS,
    "objective": OBJECTIVES,
    "optimiser": OPTIMISERS,
    "posterior": POSTERIORS,
    "precision": PRECISIONS,
    "prior": PRIORS,
    "tracker": TRACKERS,
}
# Parts that a command does not have.
ABSENT = {"fit": {"data", "gap"}, "fondue": {"data", "tracker"}, "sweep": TABLES.keys() - {"tracker"}}
ENTRIES = [pytest.param(kind, name, id=f"{kind}-{name}") for kind, table in TABLES.items() for name in table]
VARIANTS = [
    pytest.param(kind, name, id=f"{kind}-{name}")
    for kind, table in TABLES.items()
    for name, variant in table.items()
    if isinstance(variant, type) and dataclasses.is_dataclass(variant)
]


@pytest.mark.parametrize(("kind", "name"), ENTRIES)
def test_names_are_lower_case_words(kind: str, name: str) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*", name)


@pytest.mark.parametrize("kind", [kind for kind, table in TABLES.items() if isinstance(table, PartRegistry)])
def test_a_part_that_is_not_registered_is_told_the_table(kind: str) -> None:
    (table,) = (name for name, one in globals().items() if one is TABLES[kind])
    with pytest.raises(ConfigurationError, match=rf"got object\. Register its class with the decorator @{table}\.reg"):
        TABLES[kind].name_of(object())


@pytest.mark.parametrize(("kind", "name"), ENTRIES)
def test_every_entry_has_a_description(kind: str, name: str) -> None:
    entry = TABLES[kind][name]
    if kind == "data":
        assert entry.name == name
        assert entry.summary
    elif kind != "precision":
        text = entry.__dict__.get("__doc__") if isinstance(entry, type) else entry.__doc__
        # A data class without a docstring gets its signature for one.
        assert text
        assert not text.startswith(f"{entry.__name__}(")


@pytest.mark.parametrize(
    "kind", ["gap", "likelihood", "net", "objective", "optimiser", "posterior", "prior", "tracker"]
)
def test_variants_with_options_are_frozen_data_classes(kind: str) -> None:
    for variant in TABLES[kind].values():
        assert dataclasses.is_dataclass(variant)
        assert variant.__dataclass_params__.frozen


@pytest.mark.parametrize(("kind", "name"), VARIANTS)
def test_a_variant_survives_a_round_trip_through_json(kind: str, name: str) -> None:
    table = TABLES[kind]
    variant = table.resolve(name)
    assert type(variant) is table[name]
    written = json.loads(json.dumps(table.plain(variant)))
    assert written["name"] == name
    assert table.resolve(written) == variant
    assert table.resolve(variant) is variant


@pytest.mark.parametrize(
    ("kind", "variant"),
    [
        ("net", Conv(kernels=(4, 4), channels=(8, 16), hidden=32)),
        ("net", MLP((3, 4), (), "tanh", "elu")),
        ("net", FullyConnected((256, 1200))),
        ("likelihood", Gaussian(0.5, learned=True)),
        ("objective", Beta(4)),
        ("optimiser", AMSGrad(0.5, 0.9, 1e-4)),
    ],
    ids=repr,
)
def test_options_survive_a_round_trip_through_json(kind: str, variant: Any) -> None:
    written = json.loads(json.dumps(TABLES[kind].plain(variant)))
    assert TABLES[kind].resolve(written) == variant


def test_an_architecture_survives_a_round_trip_through_json() -> None:
    architecture = Architecture(net=MLP((3,), (4,)), likelihood=Gaussian(0.5), initialisation="torch")
    assert Architecture(**json.loads(json.dumps(architecture.plain()))) == architecture


@pytest.mark.parametrize("kind", sorted(TABLES))
def test_the_error_for_an_unknown_name_lists_the_known_names(kind: str) -> None:
    with pytest.raises(UnknownNameError) as refusal:
        lookup(TABLES[kind], "xyzzy", kind)
    assert str(refusal.value).startswith(f"{kind} must be one of ")
    assert set(TABLES[kind]) <= words_of(str(refusal.value))
    assert "'xyzzy'" in str(refusal.value)


def test_the_error_for_an_unknown_data_set_lists_the_known_names() -> None:
    with pytest.raises(UnknownNameError, match="'xyzzy'") as refusal:
        open_dataset("xyzzy")
    assert set(DATASETS) <= words_of(str(refusal.value))


def words_of(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+(?:[-_][a-z0-9]+)*", text))


def help_of(option: str, command: str = "fit") -> str:
    """The help of an option, up to the next option."""
    found = re.search(rf"--{option} (.*?)(?=\s--[a-z]|\Z)", output_of(command, "--help"), re.DOTALL)
    assert found is not None
    return found[1]


@functools.cache
def output_of(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "200", "NO_COLOR": "1"})
    assert result.exit_code == 0, result.output
    return re.sub(r"\x1b\[[0-9;]*m", "", result.output)


@pytest.mark.parametrize(
    ("command", "kind"), [(command, kind) for command in ABSENT for kind in sorted(TABLES.keys() - ABSENT[command])]
)
def test_the_help_of_an_option_lists_all_variants(command: str, kind: str) -> None:
    assert set(TABLES[kind]) <= words_of(help_of(kind, command))


def test_the_datasets_command_lists_all_data_sets() -> None:
    assert set(DATASETS) <= words_of(output_of("datasets"))
