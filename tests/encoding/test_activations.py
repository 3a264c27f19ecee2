"""Activations of layers: names, values, conditions, chunks and memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from vaescope.data.arrays import from_array
from vaescope.encoding import encode
from vaescope.encoding.activations import activations, layer_widths
from vaescope.errors import ConfigurationError, UnknownNameError
from vaescope.models import Architecture, Linear

ITEMS, LATENTS = 23, 4
IMAGES = np.random.default_rng(0).integers(0, 256, (ITEMS, 1, 8, 8), dtype=np.uint8)
MLP = {"name": "mlp", "encoder_widths": (16, 12), "decoder_widths": (10, 14)}
CODES = ["mean", "variance", "sampled"]


def a_model(name: str = "vae", net: Any = None, dtype: torch.dtype = torch.float64, condition: int = 0) -> Any:
    posterior = "deterministic" if name == "autoencoder" else "diagonal"
    architecture = Architecture(name, net or MLP, posterior, initialisation="torch", condition=condition)
    return architecture.build((1, 8, 8), LATENTS, seed=0).to(dtype)


def images() -> torch.Tensor:
    return torch.from_numpy(IMAGES).double() / 255


def test_layers_of_a_multilayer_perceptron_are_those_computed_by_hand() -> None:
    model = a_model()
    found = activations(model, IMAGES, chunk=5)
    layers = model.encoder.layers
    first = torch.relu(layers[0](images().flatten(1)))
    second = torch.relu(layers[2](first))
    z = encode(model, IMAGES).sample
    third = torch.relu(model.decoder.layers[0](z))
    fourth = torch.relu(model.decoder.layers[2](third))
    expected = {
        "input": images().flatten(1),
        "encoder/1": first,
        "encoder/2": second,
        "mean": model.posterior.mean(second),
        "variance": model.posterior.log_variance(second).exp(),
        "sampled": z,
        "decoder/1": third,
        "decoder/2": fourth,
        "decoder/3": model.decoder.output(fourth),
    }
    assert list(found) == list(expected)
    for name, values in expected.items():
        torch.testing.assert_close(found[name], values.detach(), rtol=0, atol=1e-5)
        assert not found[name].requires_grad


def test_layers_of_a_convolutional_net_come_after_their_activation() -> None:
    model = a_model(net="conv", dtype=torch.float32)
    found = activations(model, IMAGES)
    widths = {name: values.shape[1] for name, values in found.items()}
    assert list(widths) == [
        "input",
        *(f"encoder/{number}" for number in range(1, 6)),
        *CODES,
        *(f"decoder/{number}" for number in range(1, 7)),
    ]
    assert [widths[f"encoder/{number}"] for number in range(1, 6)] == [512, 128, 64, 64, 256]
    assert widths["decoder/6"] == 64
    hidden = [name for name in found if name.startswith(("encoder", "decoder")) and name != "decoder/6"]
    for name in hidden:
        assert float(found[name].min()) >= 0, name
    decoded = model.decoder(encode(model, IMAGES).sample).flatten(1)
    torch.testing.assert_close(found["decoder/6"], decoded.detach())
    first = torch.relu(model.encoder.convolutions[0](images().float()))
    torch.testing.assert_close(found["encoder/1"], first.flatten(1).detach())
    torch.testing.assert_close(found["encoder/5"], model.encoder(images().float()).detach())


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (a_model("vgon"), ["input", *CODES, "decoder/1", "decoder/2", "decoder/3"]),
        (
            a_model("autoencoder"),
            ["input", "encoder/1", "encoder/2", "mean", "decoder/1", "decoder/2", "decoder/3"],
        ),
        (a_model(net="affine"), ["input", *CODES, "decoder/1"]),
        (Linear.fit(IMAGES, LATENTS, gamma=0.1), ["input", *CODES, "decoder/1"]),
    ],
    ids=["vgon", "autoencoder", "affine", "linear"],
)
def test_layers_that_a_model_does_not_have_are_missing(model: Any, expected: list[str]) -> None:
    found = activations(model, IMAGES, chunk=6)
    assert list(found) == expected
    assert {name: values.shape[1] for name, values in found.items()} == layer_widths(model, IMAGES)
    torch.testing.assert_close(found["mean"], encode(model, IMAGES).mean, rtol=0, atol=1e-6)


def test_a_conditional_model_gets_the_labels() -> None:
    data = from_array(IMAGES, labels=np.arange(ITEMS) % 3)
    model = a_model("conditional", condition=3)
    found, codes = activations(model, data, chunk=4), encode(model, data)
    torch.testing.assert_close(found["mean"], codes.mean)
    torch.testing.assert_close(found["sampled"], codes.sample)
    assert found["input"].shape[1] == 64


def test_layers_are_chosen_by_name_and_the_chunk_changes_nothing() -> None:
    model = a_model()
    whole = activations(model, IMAGES)
    some = activations(model, IMAGES, ["decoder/2", "mean"], chunk=7)
    assert list(some) == ["decoder/2", "mean"]
    for name, values in some.items():
        torch.testing.assert_close(values, whole[name])


def test_items_are_drawn_by_the_seed_alone() -> None:
    data = from_array(IMAGES)
    found = activations(a_model(), data, items=9, seed=5)
    torch.testing.assert_close(found["mean"], encode(a_model(), data.draw(9, 5), seed=5).mean)
    assert len(activations(a_model(), data, items=None)["mean"]) == ITEMS


def test_hooks_are_removed_and_the_mode_is_restored() -> None:
    model = a_model().train()
    activations(model, IMAGES)
    assert model.training
    assert all(not module._forward_hooks and not module._forward_pre_hooks for module in model.modules())


def test_a_result_larger_than_the_memory_is_refused() -> None:
    model = a_model()
    needed = ITEMS * 8 * sum(layer_widths(model, IMAGES).values())
    assert len(activations(model, IMAGES, memory=needed)) == 9
    with pytest.raises(ConfigurationError, match=r"memory=\d+ .*'input' .* 64 features"):
        activations(model, IMAGES, memory=needed - 1)
    assert activations(model, IMAGES, ["mean"], memory=ITEMS * 8 * LATENTS)["mean"].shape == (ITEMS, LATENTS)


def test_wrong_settings_are_errors() -> None:
    with pytest.raises(UnknownNameError, match=r"encoder/1.* got 'encoder/9'"):
        activations(a_model(), IMAGES, ["encoder/9"])
    with pytest.raises(ConfigurationError, match=r"layers .* got 'mean'"):
        activations(a_model(), IMAGES, "mean")
    with pytest.raises(ConfigurationError, match="chunk"):
        activations(a_model(), IMAGES, chunk=0)
    with pytest.raises(ConfigurationError, match="items"):
        activations(a_model(), IMAGES, items=0)
