"""A sweep as a file: every section, and errors with file, line and entry."""

from __future__ import annotations

import random
import time
from pathlib import Path

import numpy as np
import pytest

from vaescope.errors import ConfigurationError
from vaescope.runs.measurements import MeasurementSpec
from vaescope.sweeps.specification import Sweep
from vaescope.sweeps.toml import line_of, read_sweep

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


def test_every_section_is_read_into_its_field(tmp_path: Path) -> None:
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


def test_only_the_data_are_required(tmp_path: Path) -> None:
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
    ("old", "new", "place", "fact"),
    [
        ('"synthetic-linear"', '"synthetic-linar"', "line 2, data.name", "'synthetic-linar'"),
        ("seed = 3", "sead = 3", "line 3, data.sead", "sead is not an option of synthetic-linear"),
        ('model = "vae"', 'model = "vea"', "line 6, model.model", "'vea'"),
        ('{name = "mlp", enc', '{name = "mpl", enc', "line 7, model.net", "'mpl'"),
        ("decoder_widths = [8]", "widths = [8]", "line 7, model.net", "'widths'"),
        ("encoder_widths = [8]", "encoder_widths = [0]", "line 7, model.net", "(0,)"),
        ("encoder_widths = [8]", "encoder_widths = 8", "line 7, model.net", "8"),
        ('posterior = "diagonal"', 'posterior = "deterministic"', "line 8, model.posterior", "'vae'"),
        ('"standard"', '"standart"', "line 9, model.prior", "'standart'"),
        ('"gaussian"', '"bernoulli"', "line 10, model.likelihood", "'learned'"),
        ('"torch"', '"random"', "line 11, model.initialisation", "'random'"),
        ("latents = 3", "latent = 3", "line 12, model.latent", "latents"),
        ("latents = 3", "steps = 3", "line 12, model.steps", "'steps'"),
        ('name = "beta"', 'name = "bata"', "line 15, objective.name", "'bata'"),
        ("beta = 2.0", "bata = 2.0", "line 16, objective.bata", "'bata'"),
        ("steps = 20", "steps = -1", "line 19, training.steps", "got -1"),
        ("batch = 16", "epochs = 16", "line 19, training.steps", "steps=20 and epochs=16"),
        ("batch = 16", "device = 'cpu'", "line 20, training.device", "'device'"),
        ('"adam"', '"adem"', "line 21, training.optimiser", "'adem'"),
        ('"float64"', '"float63"', "line 22, training.precision", "'float63'"),
        ("held_out = 0.2", "held_out = -1", "line 24, training.held_out", "got -1"),
        ("1e-3", "-1e-3", "line 25, training.learning_rate", "above 0"),
        ("seed = 7", "seed = 'seven'", "line 26, training.seed", "'seven'"),
        ('"objective.beta"', '"objectiv.beta"', "line 29, grid.objectiv.beta", "'objectiv'"),
        ('"objective.beta"', '"objective.bata"', "line 29, grid.objective.bata", "'bata'"),
        ("[1.0, 4.0]", "[1.0, -4.0]", "line 29, grid.objective.beta", "got -4.0"),
        ("[1.0, 4.0]", "[-1.0, 4.0]", "line 29, grid.objective.beta", "got -1.0"),
        ("[1.0, 4.0]", "4.0", "line 29, grid.objective.beta", "list"),
        ("[1.0, 4.0]", "[]", "line 29, grid.objective.beta", "list"),
        ("    3,", "    3000000,", "line 30, grid.latents", "got 3000000"),
        ('["mig"]', '["mig", "mag"]', "line 36, measure.metrics", "'mag'"),
        ("items = 100", "items = 1", "line 37, measure.items", "got 1"),
        ('"passive"', '"active"', "line 38, measure.exclude", "'active'"),
        ("exclude =", "leave_out =", "line 38, measure.leave_out", "metrics, items, exclude, seed"),
        ("[measure]", "[measures]", "line 35, measures", "data, model, objective"),
    ],
)
def test_an_error_has_file_line_and_entry(old: str, new: str, place: str, fact: str, tmp_path: Path) -> None:
    assert old in WHOLE
    with pytest.raises(ConfigurationError) as met:
        read(tmp_path, WHOLE.replace(old, new, 1))
    where, words = str(met.value).removeprefix(f"{tmp_path / 'sweep.toml'}, ").split(": ", 1)
    assert where == place
    assert fact in words


DIGITS = '[data]\nname = "digits"\n'


@pytest.mark.parametrize(
    ("text", "place", "fact"),
    [
        ("", "", "[data]"),
        ('[model]\nnet = "mlp"\n', "", "[data]"),
        ('data = "digits"\n', "line 1, data", "[data]"),
        (f"steps = 5\n{DIGITS}", "line 1, steps", "'steps'"),
        ("[data]\nseed = 3\n", "line 1, data", "name"),
        ("[data]\nname = [[0.1, 0.2], [0.3, 0.4]]\n", "line 2, data.name", "0.3"),
        ('[data]\nname = ["mnist", "digits"]\n', "line 2, data.name", "grid"),
        ('[data]\nname = ""\n', "line 2, data.name", "''"),
        (f'{DIGITS}[grid]\n"model.latents" = [2]\n', "line 4, grid.model.latents", "latents is a setting"),
        (f"{DIGITS}[measure]\nseed = 9223372036854775808\n", "line 4, measure.seed", "9223372036854775808"),
        (f"{DIGITS}[grid]\nlearning_rate = [{10**400}]\n", "line 4, grid.learning_rate", "finite"),
        ("[data\n", "", "TOML"),
        (f'{DIGITS}name = "mnist"\n', "", "TOML"),
        (f'{DIGITS}[grid]\n"prior.degrees" = [3]\n', "line 4, grid.prior.degrees", "option of a prior"),
        (f'{DIGITS}[model.net]\nname = "mpl"\n', "line 3, model.net", "'mpl'"),
        (f"{DIGITS}[grid.objective]\nbeta = [-1]\n", "line 4, grid.objective.beta", "got -1"),
        (
            f'{DIGITS}[grid]\nobjective = ["decomposition"]\n"objective.alpha" = [-1, 1]\n',
            "line 5, grid.objective.alpha",
            "got -1",
        ),
        (
            f'{DIGITS}[grid]\nobjective = ["decomposition"]\n"objective.alpha" = [1, -1]\n',
            "line 5, grid.objective.alpha",
            "got -1",
        ),
        (
            f'{DIGITS}[grid]\nobjective = ["decompositon"]\n"objective.alpha" = [1]\n',
            "line 4, grid.objective",
            "'decompositon'",
        ),
        (
            f'{DIGITS}[grid]\nobjective = ["decomposition", "beta"]\n"objective.alpha" = [1]\n',
            "line 4, grid.objective",
            "'alpha'",
        ),
        (f'{DIGITS}[grid]\ndata = ["digits", "digitz"]\n', "line 4, grid.data", "'digitz'"),
        (f"{DIGITS}[grid]\ndata.colour = [1]\n", "line 4, grid.data.colour", "colour"),
        (f"{DIGITS}[measure]\nmetrics = 3\n", "line 4, measure.metrics", "got 3"),
        (
            '[data]\nname = "gaussian-manifold"\n[model]\nlatents = 2\n[measure]\nmetrics = ["hoyer", "mig"]\n',
            "line 6, measure.metrics",
            "mig",
        ),
        (f'{DIGITS}[measure]\nmetrics = ["mig", "dci"]\n', "line 4, measure.metrics", "dci"),
        (
            f'{DIGITS}[model]\nlatents = 2\n[grid]\ndata = ["digits", "gaussian-manifold"]\n[measure]\n'
            'metrics = ["mig"]\n',
            "line 8, measure.metrics",
            "gaussian-manifold",
        ),
        (f"{DIGITS}[model]\nlatents = 500\n[grid]\nseed = [0, 1]\n", "line 4, model.latents", "got 500"),
        (f'{DIGITS}[model]\nprior = "conditional"\nmodel = "vae"\n', "line 4, model.prior", "'vae'"),
        ('[data]\nname = "synthetic-linear"\n[training]\nsteps = 5\n', "line 1, data", "latents"),
    ],
)
def test_files_that_are_not_sweeps_are_refused(text: str, place: str, fact: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as met:
        read(tmp_path, text)
    message = str(met.value)
    assert message.startswith(f"{tmp_path / 'sweep.toml'}, {place}: " if place else str(tmp_path / "sweep.toml"))
    assert fact in message


def test_the_line_is_the_first_of_an_entry() -> None:
    text = 'top = 1\n\n# name = 3\n[a]\ntext = """\nb = 1\n"""\nlist = [\n  1,\n]\nb.c = {d = 5}\n["x.y"]\nz = 2\n'
    paths = {("top",): 1, ("a",): 4, ("a", "text"): 5, ("a", "list"): 8, ("a", "b", "c", "d"): 11, ("x.y", "z"): 13}
    assert {path: line_of(text, path) for path in paths} == paths
    assert line_of(text, ("a", "absent")) is None


def test_values_that_the_grid_replaces_need_not_be_valid(tmp_path: Path) -> None:
    sweep = read(tmp_path, f"{DIGITS}[model]\nlatents = 500\n[grid]\nlatents = [2, 3]\n")
    assert [trial.member.latents for trial in sweep.trials()] == [2, 3]


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"not found: .*absent\.toml"):
        read_sweep(tmp_path / "absent.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigurationError, match=r"bytes\.toml must be a readable text file"):
        read_sweep(tmp_path / "bytes.toml")


def test_data_can_be_named_by_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("codes.npy", np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32))
    assert read(tmp_path, '[data]\nname = "codes.npy"\n[model]\nlatents = 3\n').data == "codes.npy"


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        (f"{DIGITS}x = {'[' * 5000}{']' * 5000}\n", "20 lists and tables"),
        (f"{DIGITS}x = {'[' * 100}{']' * 100}\n", "20 lists and tables"),
        (f"{DIGITS}[{'.'.join('a' * 3000)}]\n", "20 lists and tables"),
        (f"{DIGITS}seed = {'9' * 5000}\n", "must be TOML"),
        (f"{DIGITS}seed = 0x{'f' * 5000}\n", "10,000 bits"),
        (f"{DIGITS}[model.net]\nname = 'mlp'\nencoder_widths = [1000000000]\n", "line 3, model.net: a model"),
        (
            f"{DIGITS}[grid]\nlatents = [2]\n'net.encoder_widths' = [[4], [1000000000]]\n[model]\nnet='mlp'",
            "line 5, grid.",
        ),
        (f"{DIGITS}[training]\nheld_out = 1e308\n", "line 4, training.held_out"),
        (f"{DIGITS}[training]\nepochs = 1e308\n", "line 4, training.epochs"),
        (f"{DIGITS}[model]\nnet = {'n' * 5000!r}\n", "5,002 characters"),
    ],
    ids=["arrays", "less deep arrays", "tables", "digits", "hexadecimal", "widths", "grid", "share", "epochs", "name"],
)
def test_values_too_large_for_any_computer_are_refused(text: str, fact: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as met:
        read(tmp_path, text)
    assert fact in str(met.value)


def test_a_grid_is_counted_before_its_runs_are_made(tmp_path: Path) -> None:
    many = list(range(1000))
    with pytest.raises(
        ConfigurationError, match=r"line 3, grid: .* 100,000 .* 1000 of seed x 1000 of split_seed x 1000 of"
    ):
        read(tmp_path, f"{DIGITS}[grid]\nseed = {many}\nsplit_seed = {many}\n'objective.beta' = {many}\n")
    with pytest.raises(ConfigurationError, match="1000000000 of seed"):
        Sweep("digits", grid={"seed": range(10**9)})


def test_mutated_files_are_sweeps_or_are_refused(tmp_path: Path) -> None:
    draw = random.Random(0)
    values = (
        "1e308",
        "-1",
        "nan",
        "[]",
        "{}",
        "1e9",
        "true",
        "''",
        "1979-05-27",
        "[[[[1]]]]",
        "9999999999999999999999",
    )
    refused = 0
    for _ in range(100):
        lines = WHOLE.splitlines()
        for _ in range(draw.randint(1, 3)):
            number = draw.randrange(len(lines))
            name, equals, _ = lines[number].partition("=")
            lines[number] = draw.choice(
                [f"{name}{equals}{draw.choice(values)}", lines[draw.randrange(len(lines))], lines[number][::-1], ""]
            )
        try:
            read(tmp_path, "\n".join(lines))
        except ConfigurationError:
            refused += 1
    assert 50 < refused < 100


def test_many_values_are_checked_quickly_and_a_long_file_names_the_entry_without_a_line(tmp_path: Path) -> None:
    seeds = ",\n".join(map(str, range(20_000)))
    text = f"{DIGITS}[model]\nlatents = 2\n[grid]\nseed = [\n{seeds}\n]\n"
    began = time.monotonic()
    assert len(read(tmp_path, text).grid["seed"]) == 20_000
    with pytest.raises(ConfigurationError, match=r"sweep\.toml, training\.steps: steps must be"):
        read(tmp_path, f"{text}[training]\nsteps = -1\n")
    assert time.monotonic() - began < 20
