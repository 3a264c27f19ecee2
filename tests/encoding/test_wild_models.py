"""Models in unusual forms: every function takes them, or says in one sentence what to do instead."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from foreign_models import LATENTS, NUMBERS, SHAPE, Base, encoding, forwarding, normal
from test_wrap import same, snapshot
from torch import Tensor, nn
from torch.distributions import Bernoulli, Categorical, Independent, Laplace, LogNormal, MixtureSameFamily, Normal

import vaescope as vs
from vaescope.encoding import reconstruct, traversals
from vaescope.errors import ConfigurationError, DataError, VaescopeError

X = torch.from_numpy(np.random.default_rng(0).random((60, *SHAPE), dtype=np.float32))
SEQUENCES = torch.from_numpy(np.random.default_rng(1).random((60, 12, 5), dtype=np.float32))


class Whole(Base):
    """Methods in the simplest form; the models below differ in one thing."""

    def encode(self, x: Tensor) -> Any:
        return self.moments(x)

    def decode(self, z: Tensor) -> Any:
        return self.items(z)


class InPlace(Whole):
    """A model that prepares its batch in place, and returns a sample, too."""

    def encode(self, x: Tensor) -> Any:
        mean, log_variance = self.moments(x.sub_(0.5).mul_(2))
        return self.drawn(mean, log_variance), mean, log_variance


class Skips(Whole):
    """A U-Net, whose encoder returns features of the same shape, too."""

    def encode(self, x: Tensor) -> Any:
        return self.moments(x), [x, x]


class Strict(Whole):
    """A model that changes its weights when it changes its mode, as adapters of weights do."""

    def train(self, mode: bool = True) -> Strict:
        raise RuntimeError("weights are merged in evaluation mode")


class Optional(Whole):
    def encode(self, x: Tensor, y: Tensor | None = None) -> Any:
        return self.moments(x if y is None else x + y)


class PerSample(Whole):
    """A posterior that is a mixture, with a mean and a variance of its own."""

    def encode(self, x: Tensor) -> Any:
        mean, _ = self.moments(x)
        parts = Independent(Normal(torch.stack([mean, mean + 1], 1), 1.0), 1)
        return MixtureSameFamily(Categorical(torch.ones(len(x), 2)), parts)


class Single(Whole):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.back = nn.Linear(NUMBERS, 2), nn.Linear(1, NUMBERS)


class Recurrent(nn.Module):
    """A model of sequences; their shape is also that of grey images."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.heads = nn.LSTM(5, 8, batch_first=True), nn.Linear(8, 2 * LATENTS)
        self.back = nn.Linear(LATENTS, 60)

    def encode(self, x: Tensor) -> Any:
        return self.heads(self.net(x)[1][0][0]).chunk(2, 1)

    def decode(self, z: Tensor) -> Tensor:
        return self.back(z).reshape(-1, 12, 5)


class Frozen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.back = nn.Linear(NUMBERS, 2 * LATENTS), nn.Linear(LATENTS, NUMBERS)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.layer(x.flatten(1)).chunk(2, 1)
        return self.back(mean).reshape(-1, 1, 8, 8), mean, log_variance

    @torch.jit.export
    def decode(self, z: Tensor) -> Tensor:
        return self.back(z).reshape(-1, 1, 8, 8)


def decoding(model: type[Base], decoded: Callable[[Tensor], Any]) -> type[Base]:
    """The same model with a `decode` that returns something of the items."""
    return type(model.__name__, (model,), {"decode": lambda self, z: decoded(self.items(z))})


def half() -> nn.Module:
    return Whole().half()


# Models that every function takes.
WILD: dict[str, tuple[Callable[[], nn.Module], Tensor]] = {
    "half precision": (half, X),
    "double precision": (lambda: Whole().double(), X),
    "input changed in place": (InPlace, X),
    "skip connections": (Skips, X),
    "a mode that cannot be set": (Strict, X),
    "an optional label": (Optional, X),
    "a list with a sample": (encoding("Listed", lambda m, v: [m + torch.randn_like(m), m, v]), X),
    "a mixture": (PerSample, X),
    "Laplace": (encoding("Pointed", lambda m, v: Laplace(m, (v / 2).exp())), X),
    "Bernoulli and posterior": (
        decoding(forwarding("Both", lambda x, m, v, z: (Bernoulli(x), normal(m, v))), Bernoulli),
        X,
    ),
    "likelihood and posterior": (
        decoding(forwarding("Both", lambda x, m, v, z: [Normal(x, 1.0), normal(m, v)]), lambda x: Normal(x, 1.0)),
        X,
    ),
    "decoded mean and log-variance": (decoding(Whole, lambda x: (x, -x)), X),
    "a sequence": (Recurrent, SEQUENCES),
    "a single latent": (Single, X),
}


def traversed(model: nn.Module, x: Tensor, folder: Path) -> int:
    wrapped = vs.wrap(model)
    codes = vs.encode(wrapped, x)
    return len(traversals(wrapped, wrapped.open(x), codes).wide)


USES: dict[str, Callable[[nn.Module, Tensor, Path], object]] = {
    "diagnose": lambda model, x, folder: vs.diagnose(model, x),
    "encode": lambda model, x, folder: vs.encode(model, x),
    "reconstruct": lambda model, x, folder: reconstruct(model, x),
    "prune": lambda model, x, folder: vs.prune(model, x, keep=[0]),
    "compare": lambda model, x, folder: vs.compare([model, model], x, layers=True),
    "activations": lambda model, x, folder: vs.activations(model, x),
    "traverse": traversed,
    "report": lambda model, x, folder: vs.report(model, folder / "report.html", x),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
@pytest.mark.parametrize(("make", "x"), WILD.values(), ids=WILD)
def test_every_function_takes_a_wild_model_and_changes_neither_it_nor_the_items(
    make: Callable[[], nn.Module], x: Tensor, use: Callable[..., object], tmp_path: Path
) -> None:
    torch.manual_seed(0)
    model, items = make(), x.clone()
    before = snapshot(model)
    use(model, x, tmp_path)
    after = snapshot(model)
    assert [part for part in before if part != "python" and not same(before[part], after[part])] == []
    assert torch.equal(x, items)


@torch.no_grad()
def test_wild_models_have_the_codes_that_they_return() -> None:
    changing, recurrent, mixed = InPlace(), Recurrent(), PerSample()
    torch.testing.assert_close(vs.encode(changing, X).mean.float(), changing.moments((X - 0.5) * 2)[0])
    torch.testing.assert_close(vs.encode(recurrent, SEQUENCES).mean.float(), recurrent.encode(SEQUENCES)[0])
    torch.testing.assert_close(
        reconstruct(recurrent, SEQUENCES)[:, 0], recurrent.decode(recurrent.encode(SEQUENCES)[0])
    )
    codes = vs.encode(mixed, X)
    torch.testing.assert_close(codes.mean.float(), mixed.moments(X)[0] + 0.5)
    torch.testing.assert_close(codes.variance, torch.full_like(codes.variance, 1.25))
    both = WILD["likelihood and posterior"][0]()
    torch.testing.assert_close(vs.encode(both, X).mean.float(), both.moments(X)[0])


def test_only_a_distribution_next_to_a_posterior_is_a_reconstruction() -> None:
    """A code may have as many numbers as an item."""
    found = vs.encode(forwarding("Wide", lambda x, m, v, z: Normal(x.flatten(1), 1.0))(), X)
    assert found.latents == NUMBERS


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_programs_without_a_mode_are_run_as_they_are() -> None:
    model = Frozen().eval()
    frozen = torch.jit.freeze(torch.jit.script(model), ["decode"])
    assert vs.diagnose(frozen, X).rows() == vs.diagnose(model, X).rows()
    torch.testing.assert_close(reconstruct(frozen, X), reconstruct(model, X))
    exported = torch.export.export(model, (X,)).module()
    torch.testing.assert_close(vs.encode(exported, X).mean, vs.encode(model, X).mean)


class Normalising(Base):
    """A model whose codes and buffers depend on its mode."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(NUMBERS)

    def encode(self, x: Tensor) -> dict[str, Tensor]:
        mean, log_variance = self.moments(self.norm(x.flatten(1)))
        return {"mean": mean, "log_variance": log_variance}


class Holding:
    """An object of a program, such as a trainer, that holds its model somewhere."""

    def __init__(self, model: nn.Module) -> None:
        self.parts = {"models": [model]}

    def encode(self, x: Tensor) -> Any:
        return self.parts["models"][0].encode(x)

    def __call__(self, x: Tensor) -> Any:
        return self.encode(x)


def encoded_by(x: Tensor, model: Normalising) -> Any:
    return model.encode(x)


def in_a_closure(model: Normalising) -> Callable[[Tensor], Any]:
    models = (model,)
    return lambda x: next(one.encode(x) for one in models)


def applied(function: Callable[[Tensor], Any], x: Tensor) -> Any:
    return function(x)


FUNCTIONS: dict[str, Callable[[Normalising], Callable[[Tensor], Any]]] = {
    "a method of an object": lambda model: Holding(model).encode,
    "an object": Holding,
    "a default": lambda model: lambda x, one=model: one.encode(x),
    "a keyword": lambda model: partial(encoded_by, model=model),
    "a list in a closure": in_a_closure,
    "a function in a function": lambda model: partial(applied, in_a_closure(model)),
}


@pytest.mark.parametrize("make", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_model_within_a_function_runs_in_evaluation_mode_and_is_not_changed(
    make: Callable[[Normalising], Callable[[Tensor], Any]],
) -> None:
    model = Normalising()
    model.encode(X)  # moves the running statistics
    wanted = vs.encode(model.eval(), X)
    model.train()
    before = snapshot(model)
    torch.testing.assert_close(vs.encode(make(model), X).mean, wanted.mean)
    after = snapshot(model)
    assert [part for part in before if part != "python" and not same(before[part], after[part])] == []


class LogStd(nn.Module):
    """The second of its pair is the log of the standard deviation, which only the name of a layer says."""

    def __init__(self, name: str = "fc_log_std") -> None:
        super().__init__()
        self.fc_mu, self.back = nn.Linear(NUMBERS, LATENTS), nn.Linear(LATENTS, NUMBERS)
        self.name = name
        self.add_module(name, nn.Linear(NUMBERS, LATENTS))

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        flat = x.flatten(1)
        return self.fc_mu(flat), self.get_submodule(self.name)(flat)


def test_a_layer_for_log_deviations_raises_the_question() -> None:
    model = LogStd()
    with pytest.raises(ConfigurationError, match=r"layer 'fc_log_std'. Pass spread='log_std' or 'log_variance'"):
        vs.encode(model, X)
    with torch.no_grad():
        wanted = (2 * model.encode(X)[1].double()).exp()
    torch.testing.assert_close(vs.encode(vs.wrap(model, spread="log_std"), X).variance, wanted)


@pytest.mark.parametrize("name", ["fc_logvar", "log_sigma2", "decoder_log_scale"])
def test_other_layers_raise_no_question(name: str) -> None:
    model = LogStd(name)
    with torch.no_grad():
        wanted = model.encode(X)[1].double().exp()
    torch.testing.assert_close(vs.encode(model, X).variance, wanted)


class Shared(Whole):
    """One variance for all items."""

    def __init__(self) -> None:
        super().__init__()
        self.log_variance = nn.Parameter(torch.zeros(LATENTS))

    def encode(self, x: Tensor) -> Any:
        return {"mu": self.moments(x)[0], "logvar": self.log_variance}


class Lazy(Whole):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.LazyLinear(2 * LATENTS)


class Program:
    """An object that is no module but has the methods of one; the model in it is of another library."""

    def __init__(self) -> None:
        self.model = Whole()

    def encode(self, x: Tensor) -> Any:
        return self.model.encode(x)

    def decode(self, z: Tensor) -> Any:
        return self.model.decode(z)


REFUSED: dict[str, tuple[Any, Tensor, str]] = {
    "another object": (
        Program(),
        X,
        r"got Program\. Pass its methods: vs\.wrap\(model\.encode, decode=model\.decode\)",
    ),
    "weights": (Base().state_dict(), X, "OrderedDict.*weights of a model.*load_state_dict"),
    "lazy layers": (Lazy(), X, "layers are lazy"),
    "numbers": (encoding("One", lambda m, v: {"mu": m[:, 0], "logvar": v[:, 0]})(), X, r"second axis: mean\[:, None\]"),
    "one variance": (Shared(), X, r"one shape, items x latents, got \(60, 4\) and \(4,\)"),
    "positive numbers": (
        encoding("Exp", lambda m, v: LogNormal(m, (v / 2).exp()))(),
        X,
        "LogNormal, whose values are not all real",
    ),
    "two posteriors": (encoding("Pair", lambda m, v: (normal(m, v), normal(v, m)))(), X, "2 posteriors"),
    "nothing": (encoding("Nothing", lambda m, v: None)(), X, "NoneType .*without a mean and a variance"),
    "samples": (
        encoding("Many", lambda m, v: normal(m.expand(3, -1, -1), v.expand(3, -1, -1)))(),
        X,
        r"one row of latents for each of the 60 items .* got the shape \(3, 60, 4\)",
    ),
    "complex numbers": (encoding("Complex", lambda m, v: (torch.complex(m, v), v))(), X, "real numbers"),
    "volumes": (
        Whole(),
        torch.rand(9, 1, 4, 4, 4),
        r"items must be vectors, signals .*got items of shape \(1, 4, 4, 4\)",
    ),
}
NEEDED = ("encode", "reconstruct", "prune", "activations")


@pytest.mark.parametrize("use", NEEDED)
@pytest.mark.parametrize(("model", "x", "facts"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_used_gets_one_sentence(model: Any, x: Tensor, facts: str, use: str, tmp_path: Path) -> None:
    with pytest.raises(VaescopeError, match=facts) as caught:
        USES[use](model, x, tmp_path)
    assert "\n" not in str(caught.value)


def test_a_run_is_used_as_it_is(tmp_path: Path) -> None:
    net = {"name": "mlp", "encoder_widths": [6], "decoder_widths": [6]}
    run = vs.fit("digits", 2, net=net, steps=2, batch=8, runs=tmp_path, progress=False)
    with pytest.raises(ConfigurationError, match=r"got Run\. It holds a model of this library: use it as it is"):
        vs.wrap(run)  # type: ignore[arg-type]


def test_weights_in_place_of_a_model_are_named_by_diagnose_and_wrap(tmp_path: Path) -> None:
    for use in (lambda: vs.wrap(Program()), lambda: vs.diagnose(Program(), X)):  # type: ignore[arg-type]
        with pytest.raises((ConfigurationError, DataError), match="Pass its methods"):
            use()
    torch.save(Base().state_dict(), tmp_path / "model.pt")
    for take in (vs.diagnose, vs.encode, vs.activations):
        with pytest.raises(DataError, match="build the model"):
            take(tmp_path / "model.pt", X)
    with pytest.raises(ConfigurationError, match="load_state_dict"):
        vs.wrap(Base().state_dict())  # type: ignore[arg-type]
