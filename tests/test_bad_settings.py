"""Every plausible mistake in the settings of a fit gets one sentence of the right kind, before anything is written.

The mistakes run in one process of their own, where types are not checked on entry: as they do for a user.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

PRELUDE = """
import json, sys, traceback
import numpy as np
import torch
import vaescope as vs
from dataclasses import dataclass
from vaescope.errors import VaescopeError
from vaescope.objectives import Beta
from vaescope.nets import MLP
from vaescope.runs import FitOptions, fit, fit_many
from vaescope.training import Member, Plan

random = np.random.default_rng(0)
vectors, images = random.normal(size=(40, 8)), random.random((40, 16, 16))
runs = sys.argv[1]

@dataclass(frozen=True)
class Other(Beta):
    extra: float = 1.0

def ask(data=vectors, latents=2, **settings):
    return fit(data, latents, **{"steps": 2, "runs": runs, **settings})

def ask_many(members, **settings):
    return fit_many(vectors, members, FitOptions(**{"steps": 2, "runs": runs, **settings}))

results = {}
for name, code in json.load(sys.stdin).items():
    try:
        eval(code)
        results[name] = ["nothing", ""]
    except Exception as error:
        results[name] = [type(error).__name__, str(error), isinstance(error, VaescopeError)]
print(json.dumps(results))
"""

CASES = {
    "zero latents": ("ask(latents=0)", "LatentError", r"between 1 and 8 .*got 0"),
    "negative latents": ("ask(latents=-1)", "LatentError", r"between 1 and 8 .*got -1"),
    "more latents than dimensions": ("ask(latents=9)", "LatentError", r"the data have 8 dimensions\), got 9"),
    "more latents than pixels": ("ask(images, latents=257)", "LatentError", r"between 1 and 256 .*got 257"),
    "latents as a float": ("ask(latents=2.0)", "LatentError", r"whole number between 1 and 8 .*got 2\.0"),
    "latents as a truth value": ("ask(latents=True)", "LatentError", r"whole number.*got True"),
    "latents as text": ("ask(latents='2')", "LatentError", r"whole number.*got '2'"),
    "latents as nothing": ("ask(latents=None)", "LatentError", r"whole number.*got None"),
    "negative beta": ("ask(objective=Beta(-1.0))", "ConfigurationError", r"beta must be .*at least 0, got -1"),
    "beta not a number": ("ask(objective=Beta(float('nan')))", "ConfigurationError", r"beta must be a finite.*nan"),
    "infinite beta": ("ask(objective=Beta(float('inf')))", "ConfigurationError", r"beta must be a finite.*inf"),
    "beta as text": ("ask(objective=Beta('4'))", "ConfigurationError", r"beta must be a finite number.*'4'"),
    "unknown objective": (
        "ask(objective='btea')",
        "UnknownNameError",
        r"objective must be one of.*Did you mean 'beta'",
    ),
    "option of the objective": (
        "ask(objective={'name': 'beta', 'gamma': 1})",
        "ConfigurationError",
        r"objective 'beta' takes the options beta, free_bits, warm_up; got 'gamma'",
    ),
    "objective without a name": ("ask(objective={'beta': 1})", "ConfigurationError", r"must have a 'name'"),
    "objective as a number": ("ask(objective=4.0)", "ConfigurationError", r"objective must be one of .*got float"),
    "unregistered objective": ("ask(objective=Other())", "ConfigurationError", r"objective must be one of .*got Other"),
    "negative learning rate": (
        "ask(learning_rate=-1e-3)",
        "ConfigurationError",
        r"learning_rate must be a finite number above 0",
    ),
    "zero learning rate": (
        "ask(learning_rate=0.0)",
        "ConfigurationError",
        r"learning_rate must be a finite number above 0, got 0",
    ),
    "learning rate not a number": ("ask(learning_rate=float('nan'))", "ConfigurationError", r"learning_rate.*nan"),
    "negative seed": ("ask(seed=-1)", "ConfigurationError", r"seed must be a whole number from 0 .*got -1"),
    "seed too big": ("ask(seed=2**62)", "ConfigurationError", r"seed must be a whole number .*got 4611686018427387904"),
    "seed as a truth value": ("ask(seed=True)", "ConfigurationError", r"seed must be a whole number.*True"),
    "seed as a float": ("ask(seed=1.0)", "ConfigurationError", r"seed must be a whole number.*1\.0"),
    "unknown model": (
        "ask(model='vea')",
        "UnknownNameError",
        r"model must be one of autoencoder, conditional, identifiable, vae, vgon; got 'vea'",
    ),
    "unknown net": ("ask(net='cnov')", "UnknownNameError", r"net must be one of.*Did you mean 'conv'"),
    "empty name of a net": ("ask(net='')", "UnknownNameError", r"net must be one of .*got ''"),
    "net as a number": ("ask(net=3)", "ConfigurationError", r"net must be one of .*got int"),
    "net as a class": ("ask(net=MLP)", "ConfigurationError", r"net must be one of"),
    "unknown option of a net": (
        "ask(net={'name': 'mlp', 'width': 3})",
        "ConfigurationError",
        r"net 'mlp' takes the options .*got 'width'",
    ),
    "unknown likelihood": ("ask(likelihood='gauss')", "UnknownNameError", r"likelihood must be one of.*'gaussian'"),
    "unknown posterior": ("ask(posterior='fall')", "UnknownNameError", r"posterior must be one of .*got 'fall'"),
    "unknown prior": ("ask(prior='uniform')", "UnknownNameError", r"prior must be one of .*got 'uniform'"),
    "unknown optimiser": ("ask(optimiser='adamw')", "UnknownNameError", r"optimiser must be one of .*got 'adamw'"),
    "unknown precision": ("ask(precision='float16')", "UnknownNameError", r"precision must be one of .*got 'float16'"),
    "unknown initialisation": ("ask(initialisation='he')", "UnknownNameError", r"initialisation must be one of .*'he'"),
    "unknown setting in a table": ("FitOptions.of({'step': 3})", "UnknownNameError", r"'step'.*Did you mean 'steps'"),
    "unknown device": ("ask(device='gpu')", "UnknownNameError", r"device must be one of cpu, cuda; got 'gpu'"),
    "device as a number": ("ask(device=0)", "UnknownNameError", r"device must be one of cpu, cuda; got '0'"),
    "device with an odd number": ("ask(device='cuda:x')", "UnknownNameError", r"device must be one of .*'cuda:x'"),
    "a GPU that is not there": ("ask(device='cuda:77')", "ConfigurationError", r"'cuda:77' needs a GPU.*Use 'cpu'"),
    "steps and epochs": ("ask(steps=3, epochs=2)", "ConfigurationError", r"steps or epochs, not both; got steps=3"),
    "zero steps": ("ask(steps=0)", "ConfigurationError", r"steps must be a whole number of at least 1, got 0"),
    "steps as a float": ("ask(steps=1e3)", "ConfigurationError", r"steps must be a whole number.*1000\.0"),
    "steps as text": ("ask(steps='10')", "ConfigurationError", r"steps must be a whole number.*'10'"),
    "zero epochs": (
        "ask(steps=None, epochs=0)",
        "ConfigurationError",
        r"epochs must be a finite number above 0, got 0",
    ),
    "endless epochs": (
        "ask(steps=None, epochs=float('inf'))",
        "ConfigurationError",
        r"epochs must be a finite number.*inf",
    ),
    "epochs as text": ("ask(steps=None, epochs='2')", "ConfigurationError", r"epochs must be a finite number.*'2'"),
    "zero batch": ("ask(batch=0)", "ConfigurationError", r"batch must be a whole number of at least 1, got 0"),
    "zero batch with epochs": ("ask(steps=None, epochs=1, batch=0)", "ConfigurationError", r"batch must be.*got 0"),
    "batch as text": ("ask(batch='64')", "ConfigurationError", r"batch must be a whole number.*'64'"),
    "batch as a truth value": ("ask(batch=True)", "ConfigurationError", r"batch must be a whole number.*True"),
    "batch as nothing": ("ask(batch=None)", "ConfigurationError", r"batch must be a whole number.*None"),
    "zero log_every": ("ask(log_every=0)", "ConfigurationError", r"log_every must be a whole number.*got 0"),
    "evaluate_every no multiple": (
        "ask(log_every=2, evaluate_every=3)",
        "ConfigurationError",
        r"evaluate_every must be a multiple of log_every \(2\), got 3",
    ),
    "zero evaluation items": ("ask(evaluation_items=0)", "ConfigurationError", r"evaluation_items must be"),
    "all held out": ("ask(held_out=1.0)", "ConfigurationError", r"held_out must leave at least one item.*got 1\.0"),
    "more held out than there are": (
        "ask(held_out=40)",
        "ConfigurationError",
        r"held_out must leave.* 40 items, got 40",
    ),
    "too little held out": ("ask(held_out=0.001)", "ConfigurationError", r"held_out must leave.*got 0\.001"),
    "negative held out": (
        "ask(held_out=-0.1)",
        "ConfigurationError",
        r"held_out, a share below 1 or a number of items, must be.*-0\.1",
    ),
    "held out not a number": (
        "ask(held_out=float('nan'))",
        "ConfigurationError",
        r"held_out, a share below 1 or a number of items, must be.*nan",
    ),
    "held out as text": (
        "ask(held_out='10%')",
        "ConfigurationError",
        r"held_out, a share below 1 or a number of items, must be.*'10%'",
    ),
    "held out as a truth value": (
        "ask(held_out=True)",
        "ConfigurationError",
        r"held_out, a share below 1 or a number of items, must be.*True",
    ),
    "negative seed of the split": ("ask(split_seed=-1)", "ConfigurationError", r"split_seed must be.*got -1"),
    "negative checkpoint time": ("ask(checkpoint_seconds=-1)", "ConfigurationError", r"checkpoint_seconds must be"),
    "runs as a number": ("ask(runs=5)", "ConfigurationError", r"runs must be the path of a folder, got 5"),
    "runs as empty text": ("ask(runs='')", "ConfigurationError", r"runs must be the path of a folder, got ''"),
    "odd kernels": (
        "ask(images, net={'name': 'conv', 'kernels': [3, 3, 3, 3]})",
        "ConfigurationError",
        r"kernels must be even.*got \(3, 3, 3, 3\)",
    ),
    "too few kernels": (
        "ask(images, net={'name': 'conv', 'kernels': [4, 4]})",
        "ConfigurationError",
        r"kernels and channels.*\(4, 4\)",
    ),
    "zero width": ("ask(net={'name': 'mlp', 'encoder_widths': [0]})", "ConfigurationError", r"widths.*\(0,\)"),
    "unknown activation": (
        "ask(net={'name': 'mlp', 'encoder_activation': 'rleu'})",
        "UnknownNameError",
        r"activation must be one of .*Did you mean 'relu'",
    ),
    "negative variance": (
        "ask(likelihood={'name': 'gaussian', 'variance': -1.0})",
        "ConfigurationError",
        r"variance of a Gaussian likelihood must be a finite number above 0, got -1",
    ),
    "momentum of one": (
        "ask(optimiser={'name': 'adam', 'beta1': 1.0})",
        "ConfigurationError",
        r"beta1 must lie in \[0, 1\), got 1\.0",
    ),
    "bernoulli outside its range": (
        "ask(likelihood='bernoulli')",
        "DataError",
        r"'bernoulli' needs numbers in \[0, 1\], got -.*use likelihood 'gaussian'",
    ),
    "convolution of vectors": ("ask(net='conv')", "ConfigurationError", r"net 'conv' takes images.*Use net 'mlp'"),
    "autoencoder with noise": (
        "ask(model='autoencoder', posterior='diagonal')",
        "ConfigurationError",
        r"model 'autoencoder' and posterior Diagonal do not go together",
    ),
    "vae without noise": (
        "ask(posterior='deterministic')",
        "ConfigurationError",
        r"model 'vae' and posterior Deterministic do not go together",
    ),
    "no members": ("ask_many([])", "ConfigurationError", r"at least one member, got none"),
    "one member without a list": ("ask_many(Member(2))", "ConfigurationError", r"members must be a list of Member"),
    "members as numbers": ("ask_many([2, 3])", "ConfigurationError", r"members must be a list of Member, got \[2, 3\]"),
    "mixed objectives": (
        "ask_many([Member(2), Member(2, Other())])",
        "ConfigurationError",
        r"must share one form of objective .*got Beta, Other",
    ),
    "one of many with too many latents": ("ask_many([Member(2), Member(20)])", "LatentError", r"got 20"),
    "plan without steps": ("Plan(0)", "ConfigurationError", r"steps must be a whole number of at least 1, got 0"),
    "plan with a negative batch": ("Plan(5, -1)", "ConfigurationError", r"batch must be a whole number.*-1"),
    "plan in rows that do not meet": (
        "Plan(5, log_every=4, evaluate_every=6)",
        "ConfigurationError",
        r"multiple of log_every \(4\), got 6",
    ),
    "unknown data": ("ask('dsprite')", "UnknownNameError", r"'dsprite' is neither a known data set"),
    "data as a number": ("ask(5)", "DataError", r"data must be a name, a path, an array"),
    "data with a gap": ("ask(np.full((5, 8), np.nan))", "DataError", r"must be finite"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bad") / "runs"


@pytest.fixture(scope="module")
def answers(folder: Path) -> dict[str, list[object]]:
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE, str(folder)],
        input=json.dumps({name: code for name, (code, _, _) in CASES.items()}),
        capture_output=True,
        text=True,
        check=True,
    )
    answers: dict[str, list[object]] = json.loads(done.stdout)
    return answers


@pytest.mark.parametrize("name", CASES)
def test_a_wrong_setting_is_named_in_one_sentence(name: str, answers: dict[str, list[object]]) -> None:
    _, kind, words = CASES[name]
    got, message, expected = answers[name]
    assert (got, expected) == (kind, True), message
    assert re.search(words, str(message)), message
    assert "\n" not in str(message)


def test_nothing_is_written_for_a_wrong_setting(answers: dict[str, list[object]], folder: Path) -> None:
    assert len(answers) == len(CASES) >= 30
    assert not folder.exists()
