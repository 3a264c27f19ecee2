"""On a GPU: compiled and uncompiled programs train the same models, and the same seed gives the same weights."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import pytest
import torch

import vaescope as vs
from vaescope.data import open_dataset
from vaescope.encoding import encode
from vaescope.models import Architecture
from vaescope.nets import MLP, Conv, ResNet
from vaescope.objectives import Beta, Factor
from vaescope.training import Member, Plan, Trainer
from vaescope.training.engines import StackedEngine

SMALL = Conv(channels=(8, 8, 16, 16), hidden=32)
CASES: dict[str, tuple[Architecture, Any, dict[str, Any]]] = {
    "conv": (Architecture(net=SMALL), Beta(2.0), {}),
    "other kernels": (Architecture(net=Conv((2, 4, 4, 2), (8, 8, 8, 8), 16)), Beta(2.0), {"optimiser": "amsgrad"}),
    "resnet": (Architecture(net=ResNet(width=4, widest=8)), Beta(2.0), {}),
    "mlp": (Architecture(net=MLP((20,), (20,))), Beta(2.0), {"optimiser": "adagrad"}),
    "factor": (Architecture(net=SMALL), Factor(gamma=5.0, critic_widths=(16,)), {}),
}
EXACT = 1e-9
TOLERANCES = {"float32": 1e-4, "tf32": 5e-3, "bfloat16": 2e-2}  # of the loss and the gradient in the first steps


def prepared(
    name: str, members: int, compiled: bool | None, precision: str, steps: int = 20, **settings: Any
) -> Trainer:
    architecture, objective, own = CASES[name]
    every = [Member(4 - place % 2, objective, 1e-3, seed=place) for place in range(members)]
    plan = Plan(steps, 16, precision=precision, log_every=5, evaluate_every=10, monitor_every=10, **own)
    data = open_dataset("dsprites-small").draw(400).split(0.2)
    return Trainer(architecture, every, plan, *data, "cuda", compile=compiled, **settings)


def trained(*given: Any, **settings: Any) -> Trainer:
    trainer = prepared(*given, **settings)
    while not trainer.finished:
        trainer.advance()
    return trainer


def difference(one: Trainer, other: Trainer) -> float:
    """The largest distance between the weights of members, relative to their norm."""
    ours, theirs = one.state.parameters.double(), other.state.parameters.double()
    return float(((ours - theirs).norm(dim=1) / theirs.norm(dim=1)).max())


# Each compilation takes half a minute.
@pytest.mark.parametrize(
    ("name", "members"), [("conv", 1), ("conv", 4), ("other kernels", 1), ("resnet", 4), ("mlp", 1), ("factor", 1)]
)
def test_compiled_and_uncompiled_programs_train_the_same_models(name: str, members: int) -> None:
    compiled, captured = (trained(name, members, choice, "float64") for choice in (True, False))
    assert (compiled.compilation.compiled, captured.compilation.compiled) == (True, False)
    assert difference(captured, compiled) <= EXACT
    for buffer, value in captured.state.buffers.items():
        torch.testing.assert_close(value, compiled.state.buffers[buffer], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(("precision", "members"), [("float32", 1), ("tf32", 4), ("bfloat16", 1)])
def test_they_agree_to_the_tolerance_of_lower_precision(precision: str, members: int) -> None:
    compiled, captured = (prepared("conv", members, choice, precision).advance() for choice in (True, False))
    for ours, theirs in zip(captured, compiled, strict=True):
        for term in ("loss", "gradient_norm") if ours.split == "train" else ():
            assert ours.values[term] == pytest.approx(theirs.values[term], rel=TOLERANCES[precision])


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize(("name", "members"), [("conv", 1), ("conv", 4), ("resnet", 1), ("mlp", 1)])
def test_the_same_seed_gives_the_same_weights_whatever_ran_before(name: str, members: int, precision: str) -> None:
    first = trained(name, members, False, precision).state.parameters.clone()
    trained("factor", 4, False, "tf32")
    trained("resnet", 1, False, "float64")
    torch.backends.cudnn.benchmark = True  # as another package may leave it
    gc.collect()
    torch.cuda.empty_cache()
    torch.randn(1000, 1000, device="cuda") @ torch.randn(1000, 1000, device="cuda")
    try:
        again = trained(name, members, False, precision).state.parameters
    finally:
        torch.backends.cudnn.benchmark = False
    assert torch.equal(first, again)


def test_compiled_programs_repeat_their_weights_too() -> None:
    first = trained("conv", 1, True, "float32").state.parameters.clone()
    trained("mlp", 4, False, "float64")
    assert torch.equal(trained("conv", 1, True, "float32").state.parameters, first)


def test_a_plan_chooses_the_program() -> None:
    short = trained("mlp", 1, None, "float32", steps=5)
    assert not short.compilation.compiled
    assert "5 planned steps of 1 model are fewer than the 30000" in short.compilation.reason
    long = trained("mlp", 1, None, "float32", steps=5, planned_steps=30_000)
    assert long.compilation.compiled
    engine = long.engine
    assert isinstance(engine, StackedEngine)
    assert engine.compiled


def test_new_members_of_an_uncompiled_program_train_as_in_a_program_of_their_own() -> None:
    shared = trained("conv", 2, False, "float64")
    members = [Member(3, Beta(4.0), 2e-3, seed=7), Member(4, Beta(1.0), 1e-3, seed=8)]
    shared.assign_slots(members, [None, None])
    data = open_dataset("dsprites-small").draw(400).split(0.2)
    own = Trainer(CASES["conv"][0], members, shared.plan, *data, "cuda", compile=False)
    for trainer in (shared, own):
        while not trainer.finished:
            trainer.advance()
    assert difference(shared, own) <= EXACT


def test_a_run_records_why_and_encodes(tmp_path: Path) -> None:
    for asked, reason in ((None, "fewer than"), (True, "compile=True"), (False, "compile=False")):
        settings: dict[str, Any] = {"steps": 10, "device": "cuda", "progress": False, "runs": tmp_path / str(asked)}
        run = vs.fit("dsprites-small", 3, compile=asked, **settings)
        compilation = run.record.provenance.compilation
        assert compilation is not None
        assert (compilation.compiled, reason in compilation.reason) == (asked is True, True)
        assert encode(run.model, "dsprites-small", device="cuda").latents == 3
    assert len({next(path.glob("*/run.json")).parent.name for path in tmp_path.iterdir()}) == 1


def test_a_model_that_draws_random_numbers_is_not_compiled() -> None:
    def factory(latents: int) -> torch.nn.Module:
        return Dropping(latents)

    run_data = open_dataset("dsprites-small").draw(100)
    architecture = vs.FitOptions(model=factory).architecture(run_data)
    plan = Plan(4, 8, log_every=2, evaluate_every=4, monitor_every=0)
    trainer = Trainer(architecture, [Member(2)], plan, run_data, None, "cuda")
    trainer.advance()
    assert (trainer.compilation.compiled, "random numbers" in trainer.compilation.reason) == (False, True)


class Dropping(torch.nn.Module):
    """A VAE with dropout."""

    def __init__(self, latents: int) -> None:
        super().__init__()
        self.encoder = torch.nn.Sequential(
            torch.nn.Flatten(), torch.nn.Dropout(0.1), torch.nn.Linear(4096, 2 * latents)
        )
        self.decoder = torch.nn.Sequential(torch.nn.Linear(latents, 4096), torch.nn.Unflatten(1, (1, 64, 64)))

    def encode(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return self.encoder(x).chunk(2, 1)

    def decode(self, z: torch.Tensor) -> torch.Tensor:
        return self.decoder(z)
