"""The record of a run: additive, readable by older and newer versions, and without influence on the id."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vaescope as vs
from vaescope.errors import MissingVariantError, RunError
from vaescope.objectives import OBJECTIVES, Beta
from vaescope.runs import Run, fit
from vaescope.runs.record import Compilation, Origin, Plugin, Provenance, RunRecord
from vaescope.runs.rows import read_row
from vaescope.runs.sealed import sealed
from vaescope.training import Trainer

STORE = Path(__file__).parents[1] / "compatibility" / "store_0_1" / "runs"
OLD = STORE / "f5dced05642d" / "run.json"
DATA = np.random.default_rng(0).normal(size=(40, 5))
SMALL: dict[str, Any] = {
    "net": {"name": "mlp", "encoder_widths": [4], "decoder_widths": [4]},
    "steps": 4,
    "batch": 8,
    "device": "cpu",
    "progress": False,
}
FULL = Provenance(
    source={"name": "digits", "items": 10},
    versions={"vaescope": "9.0"},
    device="cuda:1",
    checksums={"model.safetensors": "abc"},
    compilation=Compilation(False, "one step is shorter than compiling"),
    started_from=Origin("warm start", run="0123456789ab", step=100),
    latent_types=("active", "passive"),
    plugins=(Plugin("objective", "squared", "squared.objective", "vae-squared", "1.2"),),
)


def newer(table: dict[str, Any]) -> dict[str, Any]:
    """The content of run.json as a newer version might write it, with fields that this one does not know."""
    plugin = {"kind": "net", "variant": "mlp", "module": "nets", "package": "p", "version": "1", "licence": "MIT"}
    provenance = {**table["provenance"], "version": 7, "energy": {"joules": [1, 2]}, "plugins": [plugin]}
    return {**table, "provenance": provenance, "tags": ["good"]}


def rewritten(run: Run) -> dict[str, Any]:
    return without(json.loads((run.path / "run.json").read_text()))


def without(table: dict[str, Any]) -> dict[str, Any]:
    """The content of a file without its checksum."""
    return {name: value for name, value in table.items() if name != "sha256"}


def test_a_record_of_0_1_opens_with_what_it_kept_and_defaults_for_the_rest() -> None:
    provenance = RunRecord.read(OLD).provenance
    assert (provenance.version, provenance.source, provenance.device) == (0, "digits", "cpu")
    assert provenance.versions["vaescope"] == "0.1.0"
    unknown = (provenance.compilation, provenance.started_from, provenance.latent_types)
    assert (*unknown, provenance.checksums, provenance.plugins) == (None, None, None, {}, ())


def test_every_field_survives_json() -> None:
    record = replace(RunRecord.read(OLD), provenance=FULL)
    assert RunRecord.from_table(json.loads(json.dumps(record.table()))) == record


def test_the_id_does_not_depend_on_provenance() -> None:
    old = RunRecord.read(OLD)
    assert replace(old, provenance=FULL).id == old.id == vs.Run.open(OLD.parent).configuration.id


def test_fields_of_a_newer_version_survive_at_every_level() -> None:
    table = newer(replace(RunRecord.read(OLD), provenance=FULL).table())
    read = RunRecord.from_table(json.loads(json.dumps(table)))
    assert read.provenance.version == 7
    assert json.loads(json.dumps(read.table())) == json.loads(json.dumps(table))


def test_a_run_keeps_the_fields_of_a_newer_version_when_it_resumes_and_finishes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "advance", lambda trainer: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            fit(DATA, 2, runs=tmp_path, **SMALL)
    (file,) = tmp_path.glob("*/run.json")
    file.write_text(json.dumps(sealed(newer(without(json.loads(file.read_text()))))))
    run = fit(DATA, 2, runs=tmp_path, **SMALL)
    assert run.status == "complete"
    assert rewritten(run)["tags"] == ["good"]
    assert rewritten(run)["provenance"]["energy"] == {"joules": [1, 2]}


def test_a_run_records_its_source_versions_and_device(tmp_path: Path) -> None:
    run = fit({"name": "synthetic-linear", "seed": 3}, 2, runs=tmp_path, **SMALL)
    assert run.provenance.source == {"name": "synthetic-linear", "seed": 3}
    assert run.provenance.device == "cpu"
    assert run.provenance.versions["vaescope"] == vs.__version__
    assert run.provenance.plugins == ()


def test_a_pruned_run_records_what_it_was_made_from(tmp_path: Path) -> None:
    run = fit("digits", 3, runs=tmp_path, **SMALL)
    pruned = vs.prune(run, keep=[0, 2]).run
    assert pruned.provenance.started_from == Origin("pruned", run.id)
    assert pruned.provenance.source == "digits"


@pytest.mark.parametrize(
    "provenance",
    [
        [1],
        {"device": 3},
        {"version": "1"},
        {"versions": [1]},
        {"source": 3},
        {"plugins": 3},
        {"plugins": [{"kind": "net"}]},
        {"compilation": {"compiled": 1}},
        {"started_from": "elsewhere"},
    ],
)
def test_a_damaged_record_is_named_and_not_half_read(provenance: Any, tmp_path: Path) -> None:
    run = fit(DATA, 2, runs=tmp_path, **SMALL)
    file = run.path / "run.json"
    file.write_text(json.dumps(sealed({**rewritten(run), "provenance": provenance})))
    with pytest.raises(RunError, match=r"run\.json is damaged") as met:
        Run.open(run.path)
    assert "delete" not in str(met.value).lower()


@dataclass(frozen=True)
class Squared(Beta):
    """An objective of another package."""


@pytest.fixture
def run_with_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A complete run whose objective came from a package that is no longer installed."""
    own = OBJECTIVES.distribution
    monkeypatch.setattr(OBJECTIVES, "distribution", lambda name: "vae-squared 1.2" if name == "squared" else own(name))
    OBJECTIVES.register("squared", summary="Squared.")(Squared)
    try:
        return fit(DATA, 2, objective="squared", runs=tmp_path, **SMALL)
    finally:
        OBJECTIVES.unregister("squared")


def test_a_plugin_is_recorded_with_its_package(run_with_plugin: Run) -> None:
    (plugin,) = RunRecord.read(run_with_plugin.path / "run.json").provenance.plugins
    assert plugin == Plugin("objective", "squared", __name__, "vae-squared", "1.2")


def test_a_run_without_its_plugin_says_which_package_to_install(run_with_plugin: Run) -> None:
    with pytest.raises(MissingVariantError, match=r"'squared' .*pip install vae-squared==1\.2") as met:
        Run.open(run_with_plugin.path)
    assert "delete" not in str(met.value).lower()
    with pytest.raises(MissingVariantError, match=r"vae-squared"):
        vs.Store(run_with_plugin.path.parent).find(run_with_plugin.path.name)


def test_a_run_without_its_plugin_is_listed(run_with_plugin: Run) -> None:
    row = read_row(run_with_plugin.path)
    assert row is not None
    assert (row["objective"], row["status"]) == ("squared", "complete")
    (run_with_plugin.path / "summary.json").unlink()
    assert read_row(run_with_plugin.path) == row


@pytest.mark.parametrize(
    ("plugins", "fact"),
    [([], f"vaescope {vs.__version__}"), ([{"kind": "objective", "variant": "squared", "module": "mine"}], "'mine'")],
    ids=["nothing recorded", "registered by a script"],
)
def test_the_error_for_an_unknown_variant_without_a_package_lists_the_known_ones(
    plugins: list[dict[str, str]], fact: str, run_with_plugin: Run
) -> None:
    table = rewritten(run_with_plugin)
    table["provenance"]["plugins"] = plugins
    (run_with_plugin.path / "run.json").write_text(json.dumps(sealed(table)))
    with pytest.raises(MissingVariantError, match=fact):
        Run.open(run_with_plugin.path)


def test_reading_a_record_loads_no_torch() -> None:
    code = (
        "import sys; from pathlib import Path; from vaescope.runs.record import RunRecord\n"
        "print(RunRecord.read(Path(sys.argv[1])).provenance.device, 'torch' in sys.modules)"
    )
    environment = {"PYTHONPATH": str(Path(vs.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-c", code, str(OLD)], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.split() == ["cpu", "False"]
