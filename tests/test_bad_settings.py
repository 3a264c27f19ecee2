"""Every plausible mistake in the settings of a fit raises the right error with one sentence, and writes nothing.

The cases run in a separate process without runtime type checks, as for a user.
"""

from __future__ import annotations

import json
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

def fit_with(data=vectors, latents=2, **settings):
    return fit(data, latents, **{"steps": 2, "runs": runs, **settings})

def fit_many_with(members, **settings):
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

# The call, the class of the error, and the key words of its message.
CASES = {
    "zero latents": ("fit_with(latents=0)", "LatentError", "between 1 and 8 ... got 0"),
    "negative latents": ("fit_with(latents=-1)", "LatentError", "between 1 and 8 ... got -1"),
    "more latents than dimensions": ("fit_with(latents=9)", "LatentError", "8 dimensions ... got 9"),
    "more latents than pixels": ("fit_with(images, latents=257)", "LatentError", "between 1 and 256 ... got 257"),
    "latents as a float": ("fit_with(latents=2.0)", "LatentError", "whole number between 1 and 8 ... got 2.0"),
    "latents as a bool": ("fit_with(latents=True)", "LatentError", "whole number ... got True"),
    "latents as a string": ("fit_with(latents='2')", "LatentError", "whole number ... got '2'"),
    "latents as a list": ("fit_with(latents=[2])", "LatentError", "whole number ... got [2]"),
    "negative beta": ("fit_with(objective=Beta(-1.0))", "ConfigurationError", "beta ... at least 0 ... got -1"),
    "beta is NaN": ("fit_with(objective=Beta(float('nan')))", "ConfigurationError", "beta ... finite ... nan"),
    "infinite beta": ("fit_with(objective=Beta(float('inf')))", "ConfigurationError", "beta ... finite ... inf"),
    "beta as a string": ("fit_with(objective=Beta('4'))", "ConfigurationError", "beta ... finite number ... '4'"),
    "unknown objective": ("fit_with(objective='btea')", "UnknownNameError", "objective ... Did you mean 'beta'"),
    "unknown option of an objective": (
        "fit_with(objective={'name': 'beta', 'gamma': 1})",
        "ConfigurationError",
        "objective 'beta' ... beta ... free_bits ... warm_up ... got 'gamma'",
    ),
    "objective without a name": ("fit_with(objective={'beta': 1})", "ConfigurationError", "must have a 'name'"),
    "objective as a number": ("fit_with(objective=4.0)", "ConfigurationError", "objective ... got float"),
    "unregistered objective": ("fit_with(objective=Other())", "ConfigurationError", "objective ... got Other"),
    "negative learning rate": ("fit_with(learning_rate=-1e-3)", "ConfigurationError", "learning_rate ... above 0"),
    "zero learning rate": ("fit_with(learning_rate=0.0)", "ConfigurationError", "learning_rate ... above 0 ... got 0"),
    "learning rate is NaN": ("fit_with(learning_rate=float('nan'))", "ConfigurationError", "learning_rate ... nan"),
    "negative seed": ("fit_with(seed=-1)", "ConfigurationError", "seed ... whole number from 0 ... got -1"),
    "seed above the maximum": (
        "fit_with(seed=2**62)",
        "ConfigurationError",
        "seed ... whole number ... got 4611686018427387904",
    ),
    "seed as a bool": ("fit_with(seed=True)", "ConfigurationError", "seed ... whole number ... True"),
    "seed as a float": ("fit_with(seed=1.0)", "ConfigurationError", "seed ... whole number ... 1.0"),
    "unknown model": (
        "fit_with(model='vea')",
        "UnknownNameError",
        "model ... autoencoder ... conditional ... identifiable ... vae ... vgon ... got 'vea'",
    ),
    "unknown net": ("fit_with(net='cnov')", "UnknownNameError", "net ... Did you mean 'conv'"),
    "empty net name": ("fit_with(net='')", "UnknownNameError", "net ... got ''"),
    "net as a number": ("fit_with(net=3)", "ConfigurationError", "net ... got int"),
    "net as a class": ("fit_with(net=MLP)", "ConfigurationError", "net"),
    "unknown option of a net": (
        "fit_with(net={'name': 'mlp', 'width': 3})",
        "ConfigurationError",
        "net 'mlp' ... got 'width'",
    ),
    "unknown likelihood": ("fit_with(likelihood='gauss')", "UnknownNameError", "likelihood ... 'gaussian'"),
    "unknown posterior": ("fit_with(posterior='fall')", "UnknownNameError", "posterior ... got 'fall'"),
    "unknown prior": ("fit_with(prior='uniform')", "UnknownNameError", "prior ... got 'uniform'"),
    "unknown optimiser": ("fit_with(optimiser='adamw')", "UnknownNameError", "optimiser ... got 'adamw'"),
    "unknown precision": ("fit_with(precision='float16')", "UnknownNameError", "precision ... got 'float16'"),
    "unknown initialisation": ("fit_with(initialisation='he')", "UnknownNameError", "initialisation ... 'he'"),
    "unknown option in a table": ("FitOptions.of({'step': 3})", "UnknownNameError", "'step' ... Did you mean 'steps'"),
    "unknown device": ("fit_with(device='gpu')", "UnknownNameError", "device ... cpu ... cuda ... got 'gpu'"),
    "device as a number": ("fit_with(device=0)", "UnknownNameError", "device ... cpu ... cuda ... got '0'"),
    "malformed device number": ("fit_with(device='cuda:x')", "UnknownNameError", "device ... 'cuda:x'"),
    "missing GPU": ("fit_with(device='cuda:77')", "ConfigurationError", "'cuda:77' needs a GPU ... Use 'cpu'"),
    "both steps and epochs": (
        "fit_with(steps=3, epochs=2)",
        "ConfigurationError",
        "steps or epochs ... not both ... got steps=3",
    ),
    "zero steps": ("fit_with(steps=0)", "ConfigurationError", "steps ... whole number of at least 1 ... got 0"),
    "steps as a float": ("fit_with(steps=1e3)", "ConfigurationError", "steps ... whole number ... 1000.0"),
    "steps as a string": ("fit_with(steps='10')", "ConfigurationError", "steps ... whole number ... '10'"),
    "zero epochs": ("fit_with(steps=None, epochs=0)", "ConfigurationError", "epochs ... above 0 ... got 0"),
    "infinite epochs": (
        "fit_with(steps=None, epochs=float('inf'))",
        "ConfigurationError",
        "epochs ... finite number ... inf",
    ),
    "epochs as a string": (
        "fit_with(steps=None, epochs='2')",
        "ConfigurationError",
        "epochs ... finite number ... '2'",
    ),
    "zero batch": ("fit_with(batch=0)", "ConfigurationError", "batch ... whole number of at least 1 ... got 0"),
    "zero batch with epochs": ("fit_with(steps=None, epochs=1, batch=0)", "ConfigurationError", "batch ... got 0"),
    "batch as a string": ("fit_with(batch='64')", "ConfigurationError", "batch ... whole number ... '64'"),
    "batch as a bool": ("fit_with(batch=True)", "ConfigurationError", "batch ... whole number ... True"),
    "batch as None": ("fit_with(batch=None)", "ConfigurationError", "batch ... whole number ... None"),
    "zero log_every": ("fit_with(log_every=0)", "ConfigurationError", "log_every ... whole number ... got 0"),
    "evaluate_every not a multiple of log_every": (
        "fit_with(log_every=2, evaluate_every=3)",
        "ConfigurationError",
        "evaluate_every ... multiple of log_every (2) ... got 3",
    ),
    "zero evaluation items": ("fit_with(evaluation_items=0)", "ConfigurationError", "evaluation_items"),
    "all items held out by share": (
        "fit_with(held_out=1.0)",
        "ConfigurationError",
        "held_out ... at least one item ... got 1.0",
    ),
    "all items held out by number": ("fit_with(held_out=40)", "ConfigurationError", "held_out ... 40 items ... got 40"),
    "share that holds out no item": ("fit_with(held_out=0.001)", "ConfigurationError", "held_out ... got 0.001"),
    "negative held_out": ("fit_with(held_out=-0.1)", "ConfigurationError", "held_out ... -0.1"),
    "held_out is NaN": ("fit_with(held_out=float('nan'))", "ConfigurationError", "held_out ... nan"),
    "held_out as a string": ("fit_with(held_out='10%')", "ConfigurationError", "held_out ... '10%'"),
    "held_out as a bool": ("fit_with(held_out=True)", "ConfigurationError", "held_out ... True"),
    "negative split seed": ("fit_with(split_seed=-1)", "ConfigurationError", "split_seed ... got -1"),
    "negative checkpoint_seconds": ("fit_with(checkpoint_seconds=-1)", "ConfigurationError", "checkpoint_seconds"),
    "runs as a number": ("fit_with(runs=5)", "ConfigurationError", "runs ... path of a folder ... got 5"),
    "runs as an empty string": ("fit_with(runs='')", "ConfigurationError", "runs ... path of a folder ... got ''"),
    "odd kernel sizes": (
        "fit_with(images, net={'name': 'conv', 'kernels': [3, 3, 3, 3]})",
        "ConfigurationError",
        "kernels ... even ... got (3, 3, 3, 3)",
    ),
    "too few kernels": (
        "fit_with(images, net={'name': 'conv', 'kernels': [4, 4]})",
        "ConfigurationError",
        "kernels and channels ... (4, 4)",
    ),
    "zero width": ("fit_with(net={'name': 'mlp', 'encoder_widths': [0]})", "ConfigurationError", "widths ... (0,)"),
    "unknown activation": (
        "fit_with(net={'name': 'mlp', 'encoder_activation': 'rleu'})",
        "UnknownNameError",
        "activation ... Did you mean 'relu'",
    ),
    "negative variance": (
        "fit_with(likelihood={'name': 'gaussian', 'variance': -1.0})",
        "ConfigurationError",
        "variance ... above 0 ... got -1",
    ),
    "beta1 of 1": (
        "fit_with(optimiser={'name': 'adam', 'beta1': 1.0})",
        "ConfigurationError",
        "beta1 ... [0, 1) ... got 1.0",
    ),
    "bernoulli likelihood of data outside [0, 1]": (
        "fit_with(likelihood='bernoulli')",
        "DataError",
        "'bernoulli' ... [0, 1] ... got - ... 'gaussian'",
    ),
    "convolutional net for vectors": (
        "fit_with(net='conv')",
        "ConfigurationError",
        "net 'conv' ... images ... Use net 'mlp'",
    ),
    "autoencoder with a random posterior": (
        "fit_with(model='autoencoder', posterior='diagonal')",
        "ConfigurationError",
        "'autoencoder' ... Diagonal do not go together",
    ),
    "VAE with a deterministic posterior": (
        "fit_with(posterior='deterministic')",
        "ConfigurationError",
        "'vae' ... Deterministic do not go together",
    ),
    "no members": ("fit_many_with([])", "ConfigurationError", "at least one member ... got none"),
    "a member in place of a list": ("fit_many_with(Member(2))", "ConfigurationError", "members ... list of Member"),
    "members as numbers": ("fit_many_with([2, 3])", "ConfigurationError", "members ... list of Member ... got [2, 3]"),
    "members with different objectives": (
        "fit_many_with([Member(2), Member(2, Other())])",
        "ConfigurationError",
        "one form of objective ... got Beta ... Other",
    ),
    "one member with too many latents": ("fit_many_with([Member(2), Member(20)])", "LatentError", "got 20"),
    "a share above every number": (
        "fit_with(held_out=1e308)",
        "ConfigurationError",
        "held_out ... at least one item ... got 1e+308",
    ),
    "an infinite number of steps": (
        "fit_with(steps=None, epochs=1e308)",
        "ConfigurationError",
        "epochs ... at most ... got 1e+308",
    ),
    "more steps than can be counted": (
        "fit_with(steps=None, epochs=1e15, batch=1)",
        "ConfigurationError",
        "steps ... got 36",
    ),
    "a step of 400 digits": ("fit_with(steps=10**400)", "ConfigurationError", "steps ... from 1 to ... 401 characters"),
    "a step of 5000 digits": ("fit_with(steps=10**5000)", "ConfigurationError", "steps ... too large to show"),
    "widths of terabytes": (
        "fit_with(net={'name': 'mlp', 'encoder_widths': [10**9]})",
        "ConfigurationError",
        "parameters must fit into memory ... GB ... encoder.layers.0.weight, of shape (1000000000, 8)",
    ),
    "widths that 64 bits cannot count": (
        "fit_with(net={'name': 'mlp', 'encoder_widths': [2**50, 2**50]})",
        "ConfigurationError",
        "must fit into memory ... smaller sizes",
    ),
    "widths above every size": (
        "fit_with(net={'name': 'mlp', 'encoder_widths': [10**30]})",
        "ConfigurationError",
        "encoder_widths ... got (1000",
    ),
    "a critic of terabytes": (
        "fit_with(objective={'name': 'factor', 'critic_widths': [10**7, 10**7]})",
        "ConfigurationError",
        "must fit into memory ... GB ... critic.",
    ),
    "too many layers": (
        "fit_with(net={'name': 'mlp', 'encoder_widths': [1] * 10**6})",
        "ConfigurationError",
        "encoder_widths ... at most 1000 layers, got 1000000",
    ),
    "the noise of too many steps": (
        "fit_with(steps=10**12, log_every=10**12)",
        "ConfigurationError",
        "log_every=1000000000000 ... GB",
    ),
    "an activation as a list": (
        "fit_with(net={'name': 'mlp', 'encoder_activation': {'relu': 1}})",
        "UnknownNameError",
        "activation ... got {'relu': 1}",
    ),
    "a long name": ("fit_with(net='n' * 5000)", "UnknownNameError", "net ... 5,002 characters"),
    "a device of 5000 digits": ("fit_with(device='cuda:' + '9' * 5000)", "UnknownNameError", "device ... 5,007"),
    "plan with zero steps": ("Plan(0)", "ConfigurationError", "steps ... whole number of at least 1 ... got 0"),
    "plan with a negative batch": ("Plan(5, -1)", "ConfigurationError", "batch ... whole number ... -1"),
    "plan with evaluate_every not a multiple of log_every": (
        "Plan(5, log_every=4, evaluate_every=6)",
        "ConfigurationError",
        "multiple of log_every (4) ... got 6",
    ),
    "unknown data": ("fit_with('dsprite')", "UnknownNameError", "'dsprite' ... known data set"),
    "data as a number": ("fit_with(5)", "DataError", "data ... name ... path ... an array"),
    "data with NaN": ("fit_with(np.full((5, 8), np.nan))", "DataError", "must be finite"),
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
def test_the_error_names_the_setting_in_one_sentence(name: str, answers: dict[str, list[object]]) -> None:
    _, kind, facts = CASES[name]
    got, message, expected = answers[name]
    assert (got, expected) == (kind, True), message
    assert all(fact in str(message) for fact in facts.split(" ... ")), message
    assert "\n" not in str(message)


def test_nothing_is_written_for_a_wrong_setting(answers: dict[str, list[object]], folder: Path) -> None:
    assert len(answers) == len(CASES) >= 30
    assert not folder.exists()
