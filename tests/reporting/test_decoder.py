"""Decoders in a browser and in PyTorch agree, for every net, likelihood, model and activation."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from browser import chromium, opened
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from vaescope.likelihoods import LIKELIHOODS
from vaescope.likelihoods.likelihood import BernoulliLikelihood
from vaescope.markup import Markup, element, join, json_script
from vaescope.models import MODELS, VAE, Architecture, Linear
from vaescope.nets import ACTIVATIONS, NETS, initialise
from vaescope.nets.convolution import Deconvolution
from vaescope.nets.mlp import VectorDecoder
from vaescope.reporting import decoder
from vaescope.reporting.decoder import NotExported, export_decoder, pack

SCRIPTS = [Path(decoder.__file__).parent / "assets" / name for name in ("inflate.js", "decoder.js")]
DECODE = """() => Promise.all(JSON.parse(document.getElementById("cases").textContent).map(async (one) => {
    const made = await vaescope.decoder(one.table);
    return one.z.map((z, item) => Array.from(made.decode(z, one.condition ? one.condition[item] : null)));
}))"""
# Small versions of every net that the page can run; a net that is missing here and below fails a test.
SMALL: dict[str, dict[str, Any]] = {
    "affine": {},
    "conv": {"channels": [4, 6, 5, 8], "hidden": 16},
    "fully_connected": {"decoder_widths": [24, 20, 16]},
    "mlp": {"decoder_widths": [24, 16]},
}
LIVE = ("bernoulli", "gaussian", "laplace")
NOT_LIVE = {"conv1d", "resnet"}
ITEMS = 6
Case = tuple[Any, Tensor, Tensor | None]


def build(
    net: str | dict[str, Any],
    model: str = "vae",
    likelihood: str = "gaussian",
    shape: tuple[int, ...] = (1, 8, 8),
    latents: int = 4,
    standardise: bool = False,
) -> Any:
    """A model whose decoder has weights as large as training makes them."""
    architecture = Architecture(
        model,
        net=net if isinstance(net, dict) else {"name": net, **SMALL[net]},
        posterior="deterministic" if model == "autoencoder" else "diagonal",
        likelihood=likelihood,
        initialisation="glorot",
        condition=3 if MODELS[model].condition else 0,
        standardise=standardise,
    )
    return trained(architecture.build(shape, latents, seed=1))


def trained(model: Any) -> Any:
    """Biases that are not zero, weights that keep codes apart, and outputs as spread as data or logits are."""
    generator = torch.Generator().manual_seed(5)
    layers = [layer for layer in model.decoder.modules() if isinstance(layer, nn.Linear | Deconvolution)]
    with torch.no_grad():
        for layer in layers:
            layer.bias.copy_(torch.randn(layer.bias.shape, generator=generator) * 0.1)
            # Initial kernels make images of codes fainter from layer to layer.
            layer.weight.mul_(3 if isinstance(layer, Deconvolution) else 1.5)
        codes = torch.randn(64, layers[0].in_features, generator=generator)
        spread = 2.0 if isinstance(model.likelihood, BernoulliLikelihood) else 0.5
        layers[-1].weight.mul_(spread / model.decoder(codes).std())
    return model


def masked(model: Any) -> Any:
    """The same model with two of its latents masked."""
    model.latent_mask[2:] = 0
    return model


def standardised(shift: float, scale: float) -> Any:
    """A model of items that it standardises."""
    model = build("mlp", shape=(5,), standardise=True)
    model.units.mean.fill_(shift)
    model.units.scale.copy_(torch.linspace(1, 2, 5) * scale)
    return model


def with_kernels(model: Any, kernel: int) -> Any:
    """The same net with other kernels in its decoder."""
    for index, layer in enumerate(model.decoder.deconvolutions):
        if isinstance(layer, Deconvolution):
            channels, filters = layer.weight.shape[:2]
            model.decoder.deconvolutions[index] = Deconvolution(channels, filters, kernel, layer.size)
    initialise(model.decoder, "glorot", 1)
    return trained(model)


def curve(activation: str) -> Case:
    """A net of one unit that gives the activation of z, from far left to far right."""
    net = {"name": "mlp", "decoder_widths": [1], "decoder_activation": activation}
    model = build(net, shape=(1,), latents=1)
    for name, values in model.decoder.named_parameters():
        nn.init.constant_(values, 1.0 if name.endswith("weight") else 0.0)
    places = [*torch.linspace(-4, 4, 41).tolist(), -90, -30, -15, 15, 19.9, 20.1, 90]
    return model, torch.tensor(places)[:, None], None


def builders() -> dict[str, Callable[[], Case]]:
    """What makes everything that is decoded in the browser, by a name."""

    def of(make: Callable[..., Any], *given: Any, **named: Any) -> Callable[[], Case]:
        return lambda: coded(make(*given, **named))

    def masked_of(*given: Any) -> Callable[[], Case]:
        return lambda: coded(masked(build(*given)))

    found = {
        f"{model} {net} {likelihood}": of(build, net, model, likelihood)
        for model in MODELS
        for net in SMALL
        for likelihood in LIVE
    }
    for net in SMALL:
        for shape in ((1, 28, 28), (3, 13, 9), *(() if net == "conv" else ((5,),))):
            found[f"{net} {shape}"] = of(build, net, shape=shape)
        found[f"{net} of one latent"] = of(build, net, latents=1)
        found[f"{net} masked"] = masked_of(net)
        found[f"conditional {net} masked"] = masked_of(net, "conditional")
    for name in ACTIVATIONS:
        found[f"mlp of {name}"] = of(build, {**SMALL["mlp"], "name": "mlp", "decoder_activation": name})
    for kernel in (2, 6):
        found[f"conv of kernels {kernel}"] = of(
            lambda kernel: with_kernels(build("conv", shape=(2, 13, 9)), kernel), kernel
        )
    found["float64"] = of(lambda: build("mlp").double())
    found["standardised"] = of(standardised, 0.3, 0.7)
    found["dsprites"] = of(build, {"name": "conv"}, likelihood="bernoulli", shape=(1, 64, 64), latents=10)
    return found | {f"curve {name}": partial(curve, name) for name in ACTIVATIONS}


def coded(model: Any) -> Case:
    """Codes for a model, and the unit vectors of labels where it takes a condition."""
    z = torch.randn(ITEMS, len(model.latent_mask), generator=torch.Generator().manual_seed(2))
    width = model.condition_width
    return model, z, torch.eye(width)[torch.arange(ITEMS) % width] if width else None


BUILDERS = builders()


@cache
def case(name: str) -> Case:
    """Built when a test needs it: every process that collects tests knows the names alone."""
    return BUILDERS[name]()


def page_of(tables: list[dict[str, Any]]) -> str:
    script = Markup("\n".join(script.read_text(encoding="utf-8") for script in SCRIPTS))
    head = element("meta", charset="utf-8")
    return "<!DOCTYPE html>" + join(head, json_script("cases", tables), element("script", script))


def entry(name: str, model: Any, z: Tensor, condition: Tensor | None) -> dict[str, Any]:
    made = export_decoder(model)
    # An unconditional decoder takes no condition.
    given = condition.tolist() if condition is not None and made.condition else None
    return {"name": name, "table": made.plain(), "z": z.tolist(), "condition": given}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def page(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    file = tmp_path_factory.mktemp("decoders") / "page.html"
    file.write_text(page_of([entry(name, *case(name)) for name in BUILDERS]), encoding="utf-8")
    with opened(browser, file) as page:
        yield page


@pytest.fixture(scope="module")
def decoded(page: Any) -> dict[str, np.ndarray]:
    """What the browser decodes for every case."""
    return {name: np.array(items) for name, items in zip(BUILDERS, page.evaluate(DECODE), strict=True)}


def rounded(model: Any) -> Any:
    """The model with the weights that the page has."""
    other = copy.deepcopy(model)
    for values in other.decoder.parameters():
        values.data = torch.from_numpy(unpack(pack(values.data.numpy()))).reshape(values.shape).to(values.dtype)
    if other.units is not None:
        other.units.scale.copy_(torch.from_numpy(unpack(pack(other.units.scale.numpy()))))
    return other


def wanted(model: Any, z: Tensor, condition: Tensor | None) -> np.ndarray:
    """What PyTorch decodes, items x numbers."""
    with torch.no_grad():
        return model.decode(z * model.latent_mask, condition).mean.flatten(1).numpy()


@pytest.mark.parametrize("name", [name for name in BUILDERS if not name.startswith("curve")])
def test_the_browser_decodes_what_pytorch_decodes(decoded: dict[str, np.ndarray], name: str) -> None:
    model, *given = case(name)
    expected = wanted(model, *given)
    assert decoded[name].shape == expected.shape
    assert np.abs(decoded[name] - expected).max() < 1e-4
    assert np.abs(decoded[name] - wanted(rounded(model), *given)).max() < 5e-6
    # Outputs that did not depend on the code, or the pixel, would be matched by nearly anything.
    assert expected.std(0).mean() > 0.03
    assert expected.std(1).mean() > 0.03


def test_a_shift_that_is_large_compared_with_the_scale_keeps_its_digits() -> None:
    model = standardised(12345.678, 0.01)
    made = export_decoder(model)
    packed, table = unpack(made.weights), made.operations[-1]
    assert table["name"] == "affine"
    shift, rest = (packed[int(table[part]) :][:5].astype(np.float64) for part in ("shift", "rest"))
    np.testing.assert_array_equal(shift + rest, np.float64(np.float32(12345.678)))


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations_equal_those_of_pytorch_for_small_and_large_inputs(
    decoded: dict[str, np.ndarray], activation: str
) -> None:
    name = f"curve {activation}"
    np.testing.assert_allclose(decoded[name], wanted(*case(name)), rtol=1e-6, atol=1e-6)


def test_labels_change_what_a_conditional_model_decodes(page: Any) -> None:
    made = export_decoder(case("conditional conv bernoulli")[0])
    assert (made.condition, made.inputs) == (3, 4)
    one, other = page.evaluate(
        "async (table) => { const made = await vaescope.decoder(table);"
        "return [[1, 0, 0], [0, 0, 1]].map((label) => Array.from(made.decode(new Float32Array(4), label))); }",
        made.plain(),
    )
    assert np.abs(np.subtract(one, other)).max() > 0.1


def test_wrong_lengths_raise_an_error(page: Any) -> None:
    made = export_decoder(case("conditional mlp bernoulli")[0])
    attempt = (
        "async ([table, z, condition]) => { try { (await vaescope.decoder(table)).decode(z, condition); return null; }"
        "catch (error) { return error.message; } }"
    )
    for z, condition, message in (
        ([0] * 3, [0] * 3, "z must have 4 numbers, got 3."),
        ([0] * 4, None, "condition must have 3 numbers, got 0."),
        ([0] * 4, [0] * 3, None),
    ):
        assert page.evaluate(attempt, [made.plain(), z, condition]) == message


def test_every_net_likelihood_and_model_is_exported() -> None:
    assert SMALL.keys() | NOT_LIVE == set(NETS)
    assert {*LIVE, "poisson", "negative_binomial"} == set(LIKELIHOODS)
    for model, net, likelihood in (
        (model, net, likelihood) for model in MODELS for net in SMALL for likelihood in LIVE
    ):
        made = export_decoder(case(f"{model} {net} {likelihood}")[0])
        assert made.shape == [1, 8, 8]
        assert json.loads(json.dumps(made.plain())) == made.plain()


def test_the_operations_of_the_conv_net_are_in_order() -> None:
    made = export_decoder(case("vae conv bernoulli")[0])
    names = [operation["name"] for operation in made.operations]
    deconvolutions = ["deconvolve", "relu"] * 3 + ["deconvolve"]
    assert names == ["linear", "relu", "linear", "relu", "reshape", *deconvolutions, "channels_first", "sigmoid"]
    assert made.operations[0] == {"name": "linear", "inputs": 4, "outputs": 16, "weight": 0, "bias": 64}


@pytest.mark.parametrize(("net", "shape"), [("resnet", (1, 8, 8)), ("conv1d", (2, 16))])
def test_a_net_that_the_page_cannot_run_is_named(net: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(NotExported, match="Decoder"):
        export_decoder(build({"name": net}, shape=shape))


def test_a_decoder_that_is_too_large_says_how_large_it_is() -> None:
    with pytest.raises(NotExported, match=r"11\.9 million.*6\.0 million"):
        export_decoder(build({"name": "fully_connected"}))


def test_the_size_limit_counts_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build("mlp")
    size = len(export_decoder(model).weights) * 4 // 3  # before compression
    assert size < decoder.MAX_CHARACTERS
    monkeypatch.setattr(decoder, "MAX_CHARACTERS", size)
    export_decoder(model)
    monkeypatch.setattr(decoder, "MAX_CHARACTERS", size - 1)
    with pytest.raises(NotExported):
        export_decoder(model)


class OwnDecoder(VectorDecoder):
    """A user's decoder, which may do anything."""


class OwnModel(nn.Module):
    """A user's model, which decodes in its own way."""

    def decode(self, z: Tensor, condition: Tensor | None = None) -> Any:
        return self.likelihood(-self.decoder(z))


class OwnLikelihood(nn.Module):
    """A user's likelihood."""


def with_part(**parts: nn.Module) -> Any:
    model = build("mlp")
    for name, part in parts.items():
        setattr(model, name, part)
    return model


def with_layer(layer: nn.Module) -> Any:
    model = build("mlp")
    model.decoder.layers[1] = layer
    return model


def own_model() -> Any:
    model = build("mlp")
    model.__class__ = OwnModel
    return model


def diverged() -> Any:
    model = build("mlp")
    nn.init.constant_(model.decoder.output.bias, float("nan"))
    return model


@pytest.mark.parametrize(
    ("model", "named"),
    [
        (lambda: with_part(decoder=OwnDecoder(4, (3,), (1, 8, 8), "relu")), "OwnDecoder"),
        (lambda: with_part(likelihood=OwnLikelihood()), "OwnLikelihood"),
        (lambda: with_layer(nn.BatchNorm1d(24)), "BatchNorm1d"),
        (lambda: with_layer(nn.ELU(alpha=0.5)), "alpha=0.5"),
        (lambda: with_layer(nn.GELU(approximate="tanh")), "approximate='tanh'"),
        (lambda: with_layer(nn.Linear(24, 24, bias=False)), "bias=False"),
        (own_model, "OwnModel"),
        (diverged, "not finite"),
        (lambda: Linear.fit(np.random.default_rng(0).standard_normal((30, 4)), 2), "Linear"),
        (lambda: None, "NoneType"),
    ],
)
def test_unsupported_parts_are_named_in_the_reason(model: Any, named: str) -> None:
    with pytest.raises(NotExported, match=rf"{re.escape(named)}.*\.$"):
        export_decoder(model())


def test_a_subclass_with_the_same_decode_is_exported() -> None:
    class Renamed(VAE):
        """Trains otherwise, say."""

    model = build("mlp")
    model.__class__ = Renamed
    assert export_decoder(model) == export_decoder(build("mlp"))


def test_masked_latents_have_no_weight() -> None:
    made = export_decoder(case("conditional mlp masked")[0])
    first = made.operations[0]
    rows = unpack(made.weights)[first["weight"] : first["bias"]].reshape(first["inputs"], first["outputs"])
    assert [bool(row.any()) for row in rows] == [True] * 3 + [True, True, False, False]


def unpack(packed: bytes) -> np.ndarray:
    """The floats whose upper three bytes these are."""
    upper = np.frombuffer(packed, np.uint8).reshape(-1, 3)
    return np.concatenate([np.zeros((len(upper), 1), np.uint8), upper], 1).view("<f4")[:, 0]


def through(value: float) -> np.float32:
    return unpack(pack(np.array([value], np.float32)))[0]


FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(FLOATS.filter(lambda value: abs(value) >= 2.0**-126))
def test_packed_numbers_have_a_relative_error_below_2_to_the_minus_16(value: float) -> None:
    assert abs(float(through(value)) - value) <= 2.0**-16 * abs(value)


@given(st.integers(2**15, 2**16 - 1), st.integers(-126, 112), st.sampled_from([-1, 1]))
def test_numbers_with_fifteen_bits_of_mantissa_are_exact(whole: int, exponent: int, sign: int) -> None:
    assert float(through(sign * whole * 2.0**exponent)) == sign * whole * 2.0**exponent


@given(FLOATS, FLOATS)
def test_packing_keeps_the_order(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert through(low) <= through(high)


def test_ties_round_to_even() -> None:
    step = 2.0**-15
    assert [float(through(1 + half * step / 2)) for half in (1, 3, 5)] == [1.0, 1 + 2 * step, 1 + 2 * step]


@pytest.mark.parametrize("sign", [-1, 1])
def test_extreme_numbers_stay_finite_and_keep_their_sign(sign: int) -> None:
    largest, zero = through(sign * float(np.finfo(np.float32).max)), through(sign * 0.0)
    assert np.isfinite(largest)
    assert abs(largest) > 3.4e38
    assert zero == 0
    assert np.signbit(zero) == (sign < 0)
