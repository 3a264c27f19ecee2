"""A sweep as a file: every section, and mistakes that are named with file, line and entry."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from vaescope.errors import ConfigurationError
from vaescope.runs.measurements import MeasurementSpec
from vaescope.sweeps.specification import Sweep
from vaescope.sweeps.toml import EXAMPLE, read_sweep

WHOLE = """\
[data]                      # line 1
name = "synthetic-linear"
seed = 3

[model]                     # line 5
model = "vae"
net = {name = "mlp", encoder_widths = [8], decoder_widths = [8]}
posterior = "diagonal"
prior = "standard"
likelihood = {name = "gaussian", learned = true}
initialisation = "torch"
latents = 3

[objective]                 # line 14
name = "beta"
beta = 2.0

[training]                  # line 18
steps = 20
batch = 16
optimiser = "adam"
precision = "float64"
log_every = 5
held_out = 0.2
learning_rate = 1e-3
seed = 7

[grid]                      # line 28
"objective.beta" = [1.0, 4.0]
latents = [
    2,
    3,
]

[measure]                   # line 35
metrics = ["mig"]
items = 100
exclude = "passive"
seed = 1
"""


def read(folder: Path, text: str) -> Sweep:
    file = folder / "sweep.toml"
    file.write_text(text, encoding="utf-8")
    return read_sweep(file)


def test_every_section_finds_its_place(tmp_path: Path) -> None:
    sweep = read(tmp_path, WHOLE)
    assert sweep.data == {"name": "synthetic-linear", "seed": 3}
    assert sweep.member == {"latents": 3, "learning_rate": 1e-3, "seed": 7}
    assert sweep.objective == {"name": "beta", "beta": 2.0}
    assert sweep.grid == {"objective.beta": [1.0, 4.0], "latents": [2, 3]}
    assert sweep.measure == MeasurementSpec(("mig",), 100, "passive", 1)
    assert set(sweep.settings) == {
        *("model", "net", "posterior", "prior", "likelihood", "initialisation"),
        *("steps", "batch", "optimiser", "precision", "log_every", "held_out"),
    }
    assert len(sweep.trials()) == 4


def test_the_example_is_a_sweep(tmp_path: Path) -> None:
    sweep = read(tmp_path, EXAMPLE)
    assert (sweep.data, len(sweep.trials())) == ("dsprites-small", 12)


def test_only_the_data_must_be_said(tmp_path: Path) -> None:
    sweep = read(tmp_path, '[data]\nname = "digits"\n')
    assert (sweep.data, sweep.objective, sweep.grid) == ("digits", {"name": "beta"}, {})
    assert len(sweep.trials()) == 1


@pytest.mark.parametrize(
    "grid",
    [
        '[grid]\n"objective.beta" = [1, 4]\n"net.encoder_widths" = [[4], [8]]\n',
        "[grid]\nobjective.beta = [1, 4]\nnet.encoder_widths = [[4], [8]]\n",
        "[grid.objective]\nbeta = [1, 4]\n[grid.net]\nencoder_widths = [[4], [8]]\n",
    ],
    ids=["quoted", "dotted", "tables"],
)
def test_options_of_parts_can_vary_however_they_are_written(grid: str, tmp_path: Path) -> None:
    parts = '[data]\nname = "digits"\n[model.net]\nname = "mlp"\ndecoder_widths = [8]\n'
    sweep = read(tmp_path, parts + grid)
    assert sweep.grid == {"objective.beta": [1, 4], "net.encoder_widths": [[4], [8]]}
    assert [(one.member.objective.beta, one.settings["net"]["encoder_widths"]) for one in sweep.trials()] == [
        (beta, widths) for beta in (1.0, 4.0) for widths in ([4], [8])
    ]


def test_whole_parts_can_vary(tmp_path: Path) -> None:
    grid = (
        '[grid]\nobjective = [{name = "beta", beta = 4}, {name = "beta_tc"}]\ndata = ["digits", "synthetic-linear"]\n'
    )
    sweep = read(tmp_path, f'[data]\nname = "digits"\n[model]\nlatents = 2\n{grid}')
    assert [type(one.member.objective).__name__ for one in sweep.trials()][::2] == ["Beta", "BetaTC"]
    assert [one.data for one in sweep.trials()][:2] == ["digits", "synthetic-linear"]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"synthetic-linear"', '"synthetic-linar"', "line 2, data.name: 'synthetic-linar' is neither a known data set"),
        ("seed = 3", "sead = 3", "line 3, data.sead: sead is not an option of synthetic-linear"),
        ('model = "vae"', 'model = "vea"', "line 6, model.model: model must be one of"),
        ('{name = "mlp", enc', '{name = "mpl", enc', "line 7, model.net: net must be one of"),
        ("decoder_widths = [8]", "widths = [8]", "line 7, model.net: net 'mlp' takes the options"),
        ("encoder_widths = [8]", "encoder_widths = [0]", "line 7, model.net: "),
        ("encoder_widths = [8]", "encoder_widths = 8", "line 7, model.net: "),
        ('posterior = "diagonal"', 'posterior = "deterministic"', "line 8, model.posterior: model 'vae' and posterior"),
        ('"standard"', '"standart"', "line 9, model.prior: prior must be one of"),
        ('"gaussian"', '"bernoulli"', "line 10, model.likelihood: likelihood 'bernoulli' takes the options"),
        ('"torch"', '"random"', "line 11, model.initialisation: initialisation must be one of"),
        ("latents = 3", "latent = 3", "line 12, model.latent: [model] has model, net"),
        ("latents = 3", "steps = 3", "line 12, model.steps: [model] has model, net"),
        ('name = "beta"', 'name = "bata"', "line 15, objective.name: objective must be one of"),
        ("beta = 2.0", "bata = 2.0", "line 16, objective.bata: objective 'beta' takes the options"),
        ("steps = 20", "steps = -1", "line 19, training.steps: steps must be a whole number of at least 1, got -1."),
        ("batch = 16", "epochs = 16", "training.steps: give steps or epochs, not both"),
        ("batch = 16", "device = 'cpu'", "line 20, training.device: [training] has"),
        ('"adam"', '"adem"', "line 21, training.optimiser: optimiser must be one of"),
        ('"float64"', '"float63"', "line 22, training.precision: precision must be one of"),
        ("held_out = 0.2", "held_out = -1", "line 24, training.held_out: held_out, a share below 1"),
        ("1e-3", "-1e-3", "line 25, training.learning_rate: learning_rate must be a finite number above 0"),
        ("seed = 7", "seed = 'seven'", "line 26, training.seed: seed must be a whole number"),
        ('"objective.beta"', '"objectiv.beta"', "line 29, grid.objectiv.beta: the part of a place in the grid"),
        ('"objective.beta"', '"objective.bata"', "line 29, grid.objective.bata: objective 'beta' takes the options"),
        ("[1.0, 4.0]", "[1.0, -4.0]", "line 29, grid.objective.beta: beta must be a finite number of at least 0"),
        ("[1.0, 4.0]", "[-1.0, 4.0]", "line 29, grid.objective.beta: beta must be a finite number of at least 0"),
        ("[1.0, 4.0]", "4.0", "line 29, grid.objective.beta: the grid's objective.beta must be a list"),
        ("[1.0, 4.0]", "[]", "line 29, grid.objective.beta: the grid's objective.beta must be a list"),
        ("    3,", "    3000000,", "line 30, grid.latents: latents must be a whole number between 1 and"),
        ('["mig"]', '["mig", "mag"]', "line 36, measure.metrics: metric must be one of"),
        ("items = 100", "items = 1", "line 37, measure.items: items must be a whole number of at least 2, got 1."),
        ('"passive"', '"active"', "line 38, measure.exclude: exclude must be 'passive' or 'mixed', got 'active'."),
        ("exclude =", "leave_out =", "line 38, measure.leave_out: [measure] has metrics, items, exclude, seed; got"),
        ("[measure]", "[measures]", "line 35, measures: a sweep has the sections data, model"),
    ],
)
def test_a_mistake_is_named_with_its_file_line_and_entry(old: str, new: str, said: str, tmp_path: Path) -> None:
    assert old in WHOLE
    with pytest.raises(ConfigurationError) as met:
        read(tmp_path, WHOLE.replace(old, new, 1))
    assert str(met.value).startswith(f"{tmp_path / 'sweep.toml'}, ")
    assert said in str(met.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ": a sweep must have a section [data] with a name."),
        ('[model]\nnet = "mlp"\n', ": a sweep must have a section [data] with a name."),
        ('data = "digits"\n', ", line 1, data: data must be a section, [data]."),
        ('steps = 5\n[data]\nname = "digits"\n', ", line 1, steps: a sweep has the sections data, model"),
        ("[data]\nseed = 3\n", ", line 1, data: data must have a name, or the path of a file or folder."),
        (
            "[data]\nname = [[0.1, 0.2], [0.3, 0.4]]\n",
            ", line 2, data.name: the name must be that of data, or the path",
        ),
        ('[data]\nname = ["mnist", "digits"]\n', ", line 2, data.name: the name must be that of data, or"),
        ('[data]\nname = ""\n', ", line 2, data.name: the name must be that of data, or the path of a file or folder"),
        (
            '[data]\nname = "digits"\n[grid]\n"model.latents" = [2]\n',
            ", line 4, grid.model.latents: latents is no option",
        ),
        ('[data]\nname = "digits"\n[measure]\nseed = 9223372036854775808\n', ", line 4, measure.seed: seed must be a"),
        (
            f'[data]\nname = "digits"\n[grid]\nlearning_rate = [{10**400}]\n',
            ", line 4, grid.learning_rate: learning_rate must be",
        ),
        ("[data\n", " must be TOML: "),
        ('[data]\nname = "digits"\nname = "mnist"\n', " must be TOML: "),
        ('[data]\nname = "digits"\n[grid]\n"prior.degrees" = [3]\n', ", line 4, grid.prior.degrees: the grid's prior"),
        ('[data]\nname = "digits"\n[model.net]\nname = "mpl"\n', ", line 3, model.net: net must be one of"),
        ('[data]\nname = "digits"\n[grid.objective]\nbeta = [-1]\n', ", line 4, grid.objective.beta: beta must be"),
        (
            '[data]\nname = "digits"\n[grid]\nobjective = ["decomposition"]\n"objective.alpha" = [-1, 1]\n',
            ", line 5, grid.objective.alpha: alpha must be a finite number of at least 0, got -1.",
        ),
        (
            '[data]\nname = "digits"\n[grid]\nobjective = ["decomposition"]\n"objective.alpha" = [1, -1]\n',
            ", line 5, grid.objective.alpha: alpha must be a finite number of at least 0, got -1.",
        ),
        (
            '[data]\nname = "digits"\n[grid]\nobjective = ["decompositon"]\n"objective.alpha" = [1]\n',
            ", line 4, grid.objective: objective must be one of",
        ),
        (
            '[data]\nname = "digits"\n[measure]\nmetrics = 3\n',
            ", line 4, measure.metrics: metrics must be a list of names, got 3. Write ['mig'].",
        ),
        (
            '[data]\nname = "gaussian-manifold"\n[model]\nlatents = 2\n[measure]\nmetrics = ["hoyer", "mig"]\n',
            ", line 6, measure.metrics: gaussian-manifold must have a factor or a label that varies for the metric mig",
        ),
        (
            '[data]\nname = "digits"\n[measure]\nmetrics = ["mig", "dci"]\n',
            ", line 4, measure.metrics: digits must have at least 2 factors that vary for the metric dci, it has 1.",
        ),
        (
            '[data]\nname = "digits"\n[model]\nlatents = 2\n[grid]\ndata = ["digits", "gaussian-manifold"]\n[measure]\n'
            'metrics = ["mig"]\n',
            ", line 8, measure.metrics: gaussian-manifold must have a factor or a label that varies for the metric mig",
        ),
        (
            '[data]\nname = "digits"\n[model]\nlatents = 500\n[grid]\nseed = [0, 1]\n',
            ", line 4, model.latents: latents",
        ),
    ],
)
def test_files_that_are_no_sweep(text: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as met:
        read(tmp_path, text)
    assert str(met.value).startswith(f"{tmp_path / 'sweep.toml'}{said}")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"absent\.toml must be a text file that can be read, it cannot"):
        read_sweep(tmp_path / "absent.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match=r"bytes\.toml must be a text file that can be read, it cannot"):
        read_sweep(tmp_path / "bytes.toml")


def test_data_by_their_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("codes.npy", np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32))
    assert read(tmp_path, '[data]\nname = "codes.npy"\n[model]\nlatents = 3\n').data == "codes.npy"
