"""On a GPU: programs train the same models as the CPU, resume, and name failures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from vaescope.data import open_dataset
from vaescope.encoding import encode
from vaescope.errors import NonFiniteError
from vaescope.models import Architecture
from vaescope.nets import MLP, Conv
from vaescope.objectives import Beta
from vaescope.runs import FitOptions, fit_many
from vaescope.training import Member, Plan, Trainer
from vaescope.training.batches import Batches

MEMBERS = (Member(3, Beta(1.0), 1e-3, seed=0), Member(8, Beta(4.0), 1e-4, seed=3), Member(5, Beta(0.5), 2e-3, seed=11))
ARCHITECTURES = {
    "conv": Architecture(net=Conv(channels=(8, 8, 16, 16), hidden=32)),
    "mlp": Architecture(net=MLP((40,), (40,), "tanh", "relu")),
}


def trained(architecture: Architecture, members: tuple[Member, ...], device: str, precision: str) -> Trainer:
    plan = Plan(50, 16, precision=precision, log_every=25, evaluate_every=25, evaluation_items=64)
    trainer = Trainer(architecture, members, plan, *open_dataset("dsprites-small").split(0.1), device)
    while not trainer.finished:
        trainer.advance()
    return trainer


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_members_on_the_gpu_equal_models_trained_alone_on_the_cpu(name: str) -> None:
    together = trained(ARCHITECTURES[name], MEMBERS, "cuda", "float64")
    for position, member in enumerate(MEMBERS):
        alone = trained(ARCHITECTURES[name], (member,), "cpu", "float64").model().state_dict()
        for parameter, value in together.model(position).state_dict().items():
            assert float((value - alone[parameter]).norm() / alone[parameter].norm()) <= 1e-9


@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16"])
def test_lower_precision_trains_to_nearly_the_same_loss(precision: str) -> None:
    exact = trained(ARCHITECTURES["conv"], MEMBERS[:1], "cpu", "float64")
    coarse = trained(ARCHITECTURES["conv"], MEMBERS[:1], "cuda", precision)
    held_out = open_dataset("dsprites-small").split(0.1)[1]
    losses = [
        trainer.ensemble.evaluate(trainer.state, Batches(held_out.to(trainer.device)))["loss"].item()
        for trainer in (exact, coarse)
    ]
    assert losses[1] == pytest.approx(losses[0], rel=0.02)


# Each compilation takes half a minute.
@pytest.mark.parametrize(
    ("name", "members", "compiled"),
    [("conv", 1, False), ("conv", 3, False), ("mlp", 1, False), ("mlp", 3, False), ("conv", 1, True), ("mlp", 3, True)],
)
def test_streamed_items_give_the_numbers_of_resident_ones(
    name: str, members: int, compiled: bool, tmp_path: Path
) -> None:
    pixels = (open_dataset("dsprites-small").batch(torch.arange(600)) * 255).to(torch.uint8)
    np.save(tmp_path / "images.npy", pixels.numpy())
    plan = Plan(75, 16, precision="float64", log_every=25, evaluate_every=25, evaluation_items=64)
    one, other = (
        Trainer(
            ARCHITECTURES[name],
            MEMBERS[:members],
            plan,
            *data.split(0.1),
            "cuda",
            compile=compiled,
            streamed=streamed,
        )
        for data, streamed in ((open_dataset(tmp_path / "images.npy"), True), (open_dataset(pixels), False))
    )
    while not one.finished:
        losses = [[row.values["loss"] for row in trainer.advance() if "loss" in row.values] for trainer in (one, other)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-9)
    torch.testing.assert_close(one.state.parameters, other.state.parameters, rtol=1e-9, atol=1e-12)


def test_a_stopped_run_resumes_from_its_state() -> None:
    whole = trained(ARCHITECTURES["mlp"], MEMBERS, "cuda", "float64")
    first = Trainer(ARCHITECTURES["mlp"], MEMBERS, whole.plan, *open_dataset("dsprites-small").split(0.1), "cuda")
    first.advance()
    second = Trainer(ARCHITECTURES["mlp"], MEMBERS, whole.plan, *open_dataset("dsprites-small").split(0.1), "cuda")
    second.load(first.state)
    second.advance()
    torch.testing.assert_close(second.state.parameters, whole.state.parameters, rtol=1e-9, atol=1e-12)


def test_the_first_number_that_is_not_finite_is_named_on_the_gpu_too() -> None:
    members = [Member(2, seed=0), Member(2, Beta(4.0), learning_rate=1e4, seed=9)]
    plan = Plan(200, 16, log_every=50, evaluate_every=50)
    trainer = Trainer(ARCHITECTURES["mlp"], members, plan, open_dataset("dsprites-small"), None, "cuda")
    with pytest.raises(NonFiniteError, match="the member with seed 9") as caught:
        trainer.advance()
    assert trainer.state.step == caught.value.step
    assert torch.isfinite(trainer.state.parameters).all()


def test_runs_of_an_ensemble_are_kept_and_encode(tmp_path: Path) -> None:
    runs = fit_many("dsprites-small", MEMBERS, FitOptions(steps=40, runs=tmp_path, device="cuda", precision="bfloat16"))
    assert [run.status for run in runs] == ["complete"] * 3
    assert [encode(run.model, "dsprites-small", device="cuda").latents for run in runs] == [3, 8, 5]


@pytest.mark.parametrize("name", ["dsprites", "dsprites-color", "dsprites-noisy"])
def test_rendered_images_are_the_same_on_both_devices(name: str) -> None:
    data = open_dataset(name)
    index = torch.randint(0, len(data), (500,), generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(data.to("cuda").batch(index.cuda()).cpu(), data.batch(index), rtol=0, atol=1e-7)


@pytest.mark.parametrize("name", ["dsprites-color", "dsprites-noisy"])
def test_images_that_are_painted_inside_the_compiled_step_train_as_on_the_cpu(name: str) -> None:
    training, held_out = open_dataset(name).draw(600).split(0.1)
    plan = Plan(10, 16, precision="float64", log_every=5, evaluate_every=10, evaluation_items=32)
    states = []
    for device in ("cuda", "cpu"):
        compiled = True if device == "cuda" else None
        trainer = Trainer(ARCHITECTURES["mlp"], MEMBERS[:1], plan, training, held_out, device, compile=compiled)
        while not trainer.finished:
            trainer.advance()
        states.append(trainer.model().state_dict())
    for parameter, value in states[0].items():
        assert float((value.cpu() - states[1][parameter]).norm() / states[1][parameter].norm()) <= 1e-9, parameter
