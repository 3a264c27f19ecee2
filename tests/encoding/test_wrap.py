"""Models of other libraries: what is recognised, what must be given, and that they are not changed."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from foreign_models import (
    LATENTS,
    MODELS,
    NUMBERS,
    SHAPE,
    Base,
    Hierarchical,
    Quantised,
    WithBatchNorm,
    encoding,
    forwarding,
)
from torch import Tensor, nn

import vaescope as vs
from vaescope.encoding import (
    column_orthogonality,
    decode,
    encode_groups,
    interpolate,
    layer_similarity,
    reconstruct,
    sample,
    traversals,
    traverse,
)
from vaescope.encoding.wrap import WrappedModel
from vaescope.errors import ConfigurationError, DataError, UnknownNameError

X = torch.from_numpy(np.random.default_rng(0).random((300, *SHAPE), dtype=np.float32))


def by_hand(model: Base) -> tuple[np.ndarray, np.ndarray]:
    with torch.no_grad():
        mean, log_variance = model.eval().moments(X)
    return mean.double().numpy(), log_variance.double().exp().numpy()


@pytest.mark.parametrize("name", MODELS)
def test_every_usual_form_is_recognised_and_its_types_are_those_of_its_codes(name: str) -> None:
    torch.manual_seed(1)
    model = MODELS[name]()
    mean, variance = by_hand(model)
    codes = vs.encode(model, X)
    torch.testing.assert_close(codes.mean.numpy(), mean)
    torch.testing.assert_close(codes.variance.numpy(), variance, rtol=1e-5, atol=0)
    wanted = vs.diagnose((mean, variance))
    assert vs.diagnose(model, X).types.types == wanted.types.types
    assert [len(codes), codes.latents] == [300, LATENTS]


def test_codes_of_a_wrapped_model_equal_those_of_arrays_with_their_samples() -> None:
    model = MODELS["mean and var"]()
    mean, variance = by_hand(model)
    codes, wanted = vs.encode(model, X, seed=3), vs.encoding.adapt((mean, variance), seed=3)
    torch.testing.assert_close(codes.sample, wanted.sample, rtol=1e-5, atol=1e-6)


def test_what_was_recognised_is_shown() -> None:
    wrapped = vs.wrap(MODELS["pair"](), name="mine")
    assert "to be recognised" in wrapped.summary()
    vs.encode(wrapped, X)
    for fact in ("mine", "encode(x)", "log-variance", "4 latents", "decode(z)"):
        assert fact in repr(wrapped)
    cards = {card.title: card.meaning for card in vs.diagnose(wrapped, X).cards}
    assert "log-variance" in cards["Model"]


def positive_pair(kind: str) -> type[Base]:
    return encoding("Positive", lambda m, v: (m, {"variance": v.exp(), "std": (v / 2).exp(), "log_std": v / 2}[kind]))


def test_a_pair_without_negative_numbers_needs_spread() -> None:
    with pytest.raises(ConfigurationError, match=r"Positive .*no negative number.*spread='variance'"):
        vs.diagnose(positive_pair("std")(), X)


@pytest.mark.parametrize("kind", ["variance", "std", "log_std"])
def test_spread_defines_the_second_of_a_pair(kind: Any) -> None:
    model = positive_pair(kind)()
    codes = vs.encode(vs.wrap(model, spread=kind), X)
    torch.testing.assert_close(codes.variance.numpy(), by_hand(model)[1], rtol=1e-5, atol=0)


def test_a_function_returns_variances() -> None:
    model = MODELS["pair"]()
    _, variance = by_hand(model)
    codes = vs.encode(lambda x: (model.moments(x)[0], model.moments(x)[1].exp()), X)
    torch.testing.assert_close(codes.variance.numpy(), variance, rtol=1e-5, atol=0)
    with pytest.raises(DataError, match="log-variance"):
        vs.diagnose(model.moments, X)
    named = vs.wrap(lambda x: dict(zip(("mean", "log_variance"), model.moments(x), strict=True)))
    torch.testing.assert_close(vs.encode(named, X).variance.numpy(), variance, rtol=1e-5, atol=0)


def test_a_function_or_the_name_of_a_method_may_encode_and_decode() -> None:
    model = Base()
    by_name = vs.wrap(model, encode="moments", decode="items")
    by_function = vs.wrap(
        model, lambda x: {"mean": model.moments(x)[0], "log_variance": model.moments(x)[1]}, model.items
    )
    for wrapped in (by_name, by_function):
        assert reconstruct(wrapped, X).shape == X.shape
    torch.testing.assert_close(vs.encode(by_name, X).mean, vs.encode(by_function, X).mean)
    with pytest.raises(UnknownNameError, match="must be one of drawn, forward, items, moments; got"):
        vs.encode(vs.wrap(model, encode="moment"), X)


class Nothing(nn.Module):
    """A module without any method of its own."""


class Broken(nn.Module):
    def encode(self, x: Tensor) -> Tensor:
        missing: Any = None
        return missing.mean  # type: ignore[no-any-return]


class NeedsLabels(Base):
    def encode(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return self.moments(x + y)


class Unbuilt(Base):
    @property
    def encoder(self) -> nn.Module:
        raise RuntimeError("not built")


class Entries(Base):
    """A vector-quantised model whose class does not say so; its pair could be read as mean and log-variance."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("codebook", torch.zeros(8, LATENTS))

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, _ = self.moments(x)
        return mean, mean.round()


REFUSED: dict[str, tuple[Any, str]] = {
    "no methods": (Nothing(), "no method encode, encoder or forward"),
    "error inside": (Broken(), r"Broken .*encode\(x\) fails.*AttributeError"),
    "one tensor": (nn.Sequential(nn.Flatten(), nn.Linear(NUMBERS, 3)), r"one tensor of shape \(256, 3\).*'mean'"),
    "more arguments": (NeedsLabels(), r"encode\(x\) fails.*'y'.*encode="),
    "quantised": (Quantised(), r"Quantised quantises .*VectorQuantizer.*codebook"),
    "a codebook": (Entries(), r"Entries quantises its codes \(codebook\)"),
    "curved": (encoding("PoincareVAE", lambda m, v: (m, v))(), "PoincareVAE has codes in a curved space"),
    "a concentration": (encoding("Sphere", lambda m, v: {"mean": m, "log_concentration": v})(), "not Gaussian"),
    "two means": (encoding("Two", lambda m, v: {"mean": m, "mu": m, "var": v})(), "2 means: mean, mu"),
    "no variance": (encoding("Mean", lambda m, v: {"mean": m, "other": v})(), "without a variance"),
    "posteriors": (encoding("Both", lambda m, v: ({"mu": m, "logvar": v}, {"mu": m, "logvar": v}))(), "2 posteriors"),
    "three tensors": (encoding("Three", lambda m, v: (m, v, v + 1))(), "3 of which could be"),
    "a number": (7, "got int"),
    "a class": (Base, "got the class Base. Pass an instance"),
    "no weights": (Base().to("meta"), "device 'meta'.*Load them"),
    "a property": (Unbuilt(), "attribute encoder of Unbuilt.*RuntimeError: not built"),
    "classes": (
        encoding("Classes", lambda m, v: torch.distributions.OneHotCategorical(logits=m))(),
        r"OneHotCategorical.*N\(0, 1\) is no prior",
    ),
    "shares": (encoding("Shares", lambda m, v: torch.distributions.Dirichlet(v.exp()))(), "Dirichlet.*real numbers"),
}


@pytest.mark.parametrize(("model", "facts"), REFUSED.values(), ids=REFUSED)
def test_unrecognised_models_are_one_sentence(model: Any, facts: str) -> None:
    with pytest.raises((ConfigurationError, DataError), match=facts) as caught:
        vs.diagnose(model, X)
    assert "\n" not in str(caught.value)
    assert len(re.findall("argument", str(caught.value))) < 2  # the same error is not repeated


def test_items_that_the_model_cannot_take_are_named_before_encode() -> None:
    with pytest.raises(
        ConfigurationError, match=r"Base must encode the items.*Check that they have the shape"
    ) as caught:
        vs.diagnose(forwarding("Base", lambda x, m, v, z: (x, m, v))(), torch.rand(20, 3, 9, 9))
    assert "{" not in str(caught.value)


@pytest.mark.parametrize("role", ["encode", "decode"])
def test_what_encodes_and_decodes_must_be_a_function_or_a_name(role: Any) -> None:
    with pytest.raises(ConfigurationError, match=f"^{role} must be a function or the name of a method, got 3"):
        vs.wrap(Base(), **{role: 3})


def test_the_tensor_that_needs_spread_is_named_by_its_place() -> None:
    model = encoding("Three", lambda m, v: (m, (v / 2).exp(), m + torch.randn_like(m)))()
    with pytest.raises(ConfigurationError, match=r"whose element 2 has no negative number.*spread="):
        vs.encode(model, X)


class PlanarFlow(nn.Module):
    """A step of a normalising flow."""


CAVEATS = {
    "flow": (PlanarFlow(), "before the flow"),
    "n_lf": (3, "before the Hamiltonian flow"),
    "pseudo_inputs": (nn.Linear(2, 2), r"VampPrior.*N\(0, 1\)"),
}


@pytest.mark.parametrize("attribute", CAVEATS)
def test_what_mean_and_variance_omit_is_reported(attribute: str) -> None:
    model = MODELS["pair"]()
    wrapped = vs.wrap(model)
    value, fact = CAVEATS[attribute]
    setattr(model, attribute, value)
    vs.encode(wrapped, X)
    assert re.search(fact, wrapped.summary())
    assert any(re.search(fact, card.meaning) for card in vs.diagnose(model, X).cards)


def test_a_model_needs_data() -> None:
    with pytest.raises(DataError, match="Pass data"):
        vs.diagnose(MODELS["pair"]())


def test_a_code_without_noise_is_diagnosed_as_such() -> None:
    found = vs.diagnose(encoding("Plain", lambda m, v: {"mean": m})(), X)
    assert "zero variance" in found.summary()


def snapshot(model: nn.Module) -> dict[str, Any]:
    return {
        "state": {name: value.clone() for name, value in model.state_dict().items()},
        "modes": [module.training for module in model.modules()],
        "gradients": [None if one.grad is None else one.grad.clone() for one in model.parameters()],
        "places": [(one.device, one.dtype, id(one)) for one in (*model.parameters(), *model.buffers())],
        "torch": torch.get_rng_state(),
        "numpy": np.random.get_state()[1],  # noqa: NPY002
        "python": random.getstate(),
    }


def same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Tensor):
        return torch.equal(one, other)
    return bool(np.array_equal(one, other)) if isinstance(one, np.ndarray) else bool(one == other)


def recognised(model: nn.Module) -> WrappedModel:
    wrapped = vs.wrap(model)
    wrapped.recognise(X)
    return wrapped


class Vectors(nn.Module):
    """A model whose spatial codes are vectors."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model, self.training = model, model.training

    def encode(self, x: Tensor) -> dict[str, Tensor]:
        found = self.model.encode(x)
        return {"mean": found.mean.flatten(1), "variance": found.variance.flatten(1)}

    def decode(self, z: Tensor) -> Tensor:
        items: Tensor = self.model.decode(z.reshape(-1, 3, 4, 4))
        return items


USES: dict[str, Callable[[nn.Module, Path], object]] = {
    "diagnose": lambda model, folder: vs.diagnose(model, X[:60]),
    "encode": lambda model, folder: vs.encode(model, X),
    "activations": lambda model, folder: vs.activations(model, X),
    "compare": lambda model, folder: vs.compare([model, lambda x: (x.flatten(1), x.flatten(1))], X[:60]),
    "reconstruct": lambda model, folder: reconstruct(model, X),
    "layers": lambda model, folder: layer_similarity(model, data=X),
    "traverse": lambda model, folder: traverse(recognised(model), vs.encode(model, X).code(0), 1, [-1.0, 1.0]),
    "sample": lambda model, folder: sample(recognised(model), 3),
    "prune": lambda model, folder: vs.prune(model, X, keep=[0, 2]),
    "orthogonality": lambda model, folder: column_orthogonality(vs.wrap(Vectors(model)), X, items=3),
    "report": lambda model, folder: vs.report(vs.wrap(model, latents="flat"), folder / "report.html", X[:60]),
}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_model_is_not_changed(use: Callable[..., object], training: bool, tmp_path: Path) -> None:
    model = WithBatchNorm().train(training)
    model.heads.eval()
    model.decode(model.encode(X[:8]).mean).sum().backward()
    before = snapshot(model)
    use(model, tmp_path)
    after = snapshot(model)
    # beartype, which checks shapes in tests, draws from `random` by itself.
    assert [part for part in before if part != "python" and not same(before[part], after[part])] == []


def test_a_model_in_training_mode_has_the_types_of_evaluation_mode() -> None:
    model = WithBatchNorm().train()
    wanted = vs.diagnose(copy.deepcopy(model).eval(), X[:60])
    assert vs.diagnose(model, X[:60]).types.types == wanted.types.types


def test_the_modules_of_a_function_are_run_in_evaluation_mode_too() -> None:
    model = WithBatchNorm().train()
    wanted = vs.encode(copy.deepcopy(model).eval(), X[:60])
    before = snapshot(model)
    for function in (lambda x: model.encode(x), model.encode, partial(WithBatchNorm.encode, model)):
        torch.testing.assert_close(vs.encode(function, X[:60]).mean, wanted.mean)
    assert same(before["state"], model.state_dict())
    assert before["modes"] == snapshot(model)["modes"]


class Draws(Base):
    """A model that draws random numbers and counts its calls in a buffer, also in evaluation mode."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        self.calls += 1
        random.random()
        np.random.rand()  # noqa: NPY002
        torch.rand(3)
        return self.moments(x)


def test_buffers_and_random_numbers_are_restored_even_if_the_model_changes_them() -> None:
    model = Draws()
    before = snapshot(model)
    vs.encode(model, X)
    assert same(before, snapshot(model))


class Learns(Base):
    """A model that calls backward while it encodes."""

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            mean, log_variance = self.moments(x)
            mean.sum().backward()
        return mean, log_variance


def test_gradients_are_restored_even_if_the_model_computes_others() -> None:
    model = Learns()
    model.layer.weight.grad = torch.ones_like(model.layer.weight)
    before = snapshot(model)
    vs.encode(model, X)
    assert same(before, snapshot(model))


WRAPPERS: dict[str, Callable[[nn.Module], nn.Module]] = {
    "parallel": nn.DataParallel,
    "averaged": torch.optim.swa_utils.AveragedModel,
    "compiled": lambda model: torch.compile(model, backend="eager"),
    "several": lambda model: torch.compile(nn.DataParallel(model), backend="eager"),
}


@pytest.mark.parametrize("name", ["pair", "with the sample"])
@pytest.mark.parametrize("wrapper", WRAPPERS.values(), ids=WRAPPERS)
def test_the_model_in_a_wrapper_of_torch_is_used(wrapper: Callable[[nn.Module], nn.Module], name: str) -> None:
    model = MODELS[name]()
    outer = wrapper(model)
    before = snapshot(outer)
    found = vs.diagnose(outer, X)
    assert found.name == type(model).__name__
    assert found.types.types == vs.diagnose(model, X).types.types
    assert all(same(before[part], snapshot(outer)[part]) for part in ("state", "modes", "gradients", "places"))


class Scripted(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.back = nn.Linear(NUMBERS, 2 * LATENTS), nn.Linear(LATENTS, NUMBERS)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.layer(x.flatten(1)).chunk(2, 1)
        return self.decode(mean), mean, log_variance

    @torch.jit.export
    def decode(self, z: Tensor) -> Tensor:
        return self.back(z).reshape(-1, 1, 8, 8)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_scripted_model_has_no_layers_but_everything_else() -> None:
    model = Scripted()
    scripted = torch.jit.script(model)
    assert vs.diagnose(scripted, X).rows() == vs.diagnose(model, X).rows()
    assert list(vs.activations(scripted, X[:20])) == ["input", "mean", "variance", "sampled", "output"]
    assert vs.prune(scripted, X, keep=[0]).model.name == "Scripted (1 of 4 latents)"


def test_weights_that_are_computed_are_no_layers() -> None:
    model = MODELS["pair"]()
    wanted = list(vs.activations(model, X[:20]))
    for layer, norm in ((model.layer, "spectral_norm"), (model.back, "weight_norm")):
        getattr(torch.nn.utils.parametrizations, norm)(layer)
    before = snapshot(model)["state"]
    assert list(vs.activations(model, X[:20])) == wanted
    assert same(before, model.state_dict())


def test_arrays_that_a_decoder_returns_are_items() -> None:
    model = MODELS["pair"]()
    wrapped = vs.wrap(model, "encode", lambda z: model.items(z).numpy())
    torch.testing.assert_close(reconstruct(wrapped, X), reconstruct(model, X))


def test_a_model_in_half_precision_is_run_in_it() -> None:
    model = MODELS["pair"]().to(torch.bfloat16)
    codes = vs.encode(model, X)
    assert codes.mean.dtype == torch.float64
    assert next(model.parameters()).dtype == torch.bfloat16
    assert reconstruct(model, X).dtype == torch.float32


@pytest.mark.parametrize("name", ["normal", "pair", "named"])
def test_another_output_for_a_later_batch_is_an_error(name: str) -> None:
    outputs = {
        "normal": lambda x: torch.distributions.Normal(x, torch.ones_like(x)),
        "pair": lambda x: (x, -x.square()),
        "named": lambda x: {"mean": x, "log_variance": -x.square()},
    }

    def encode(x: Tensor) -> object:
        codes = x.flatten(1)[:, :3]
        return outputs[name](codes) if len(x) == 200 else {"mean": codes}

    wrapped = vs.wrap(encode, spread=None if name == "normal" else "log_variance", batch_size=200)
    with pytest.raises(DataError, match=r"same kind of output for every batch.*returned a dict"):
        vs.encode(wrapped, X)


def test_batches_have_the_requested_size() -> None:
    sizes: list[int] = []
    model = MODELS["pair"]()
    model.layer.register_forward_hook(lambda _, given, output: sizes.append(len(given[0])))
    vs.encode(vs.wrap(model, batch_size=70), X)
    assert set(sizes) == {70, 20}


def test_items_of_another_shape_are_refused() -> None:
    wrapped = vs.wrap(MODELS["pair"]())
    vs.encode(wrapped, X)
    with pytest.raises(DataError, match=r"\(1, 8, 8\), got \(1, 4, 16\)"):
        vs.encode(wrapped, X.reshape(-1, 1, 4, 16))


def test_items_are_flattened_for_a_model_that_takes_vectors() -> None:
    model = nn.Sequential(nn.Linear(NUMBERS, LATENTS))
    wrapped = vs.wrap(model, lambda x: {"mean": model(x)}, lambda z: z @ model[0].weight)
    assert vs.encode(wrapped, X).latents == LATENTS
    assert reconstruct(wrapped, X).shape == X.shape


def test_logits_become_items_through_the_likelihood() -> None:
    model = Base()
    wrapped = vs.wrap(model, "moments", lambda z: model.back(z), likelihood="bernoulli")
    vs.encode(wrapped, X)
    z = torch.zeros(2, LATENTS)
    torch.testing.assert_close(wrapped.decode(z).mean, model.items(z).detach())


def test_without_a_decoder_the_reason_is_given() -> None:
    wrapped = vs.wrap(MODELS["with the sample"]())
    vs.encode(wrapped, X)
    with pytest.raises(ConfigurationError, match=r"Forwarding cannot decode: it has no method decode .*decode="):
        sample(wrapped, 2)
    unseen = vs.wrap(MODELS["pair"]())
    for model in (unseen, MODELS["pair"]()):
        with pytest.raises(ConfigurationError, match=r"must encode a batch.*wrapped = vs\.wrap\(model\)"):
            sample(model, 2)


class Abbreviated(nn.Module):
    """A plain VAE whose parts have short names, and which has no method decode."""

    def __init__(self, **more: nn.Module) -> None:
        super().__init__()
        self.enc, self.dec = nn.Linear(NUMBERS, 2 * LATENTS), nn.Linear(LATENTS, NUMBERS)
        for name, part in more.items():
            self.add_module(name, part)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.enc(x.flatten(1)).chunk(2, 1)
        return self.dec(mean).view_as(x), mean, log_variance


def test_the_only_part_with_the_name_of_a_decoder_decodes() -> None:
    model = Abbreviated()
    wrapped = vs.wrap(model)
    vs.encode(wrapped, X)
    assert "decoded by dec(z)" in wrapped.summary()
    torch.testing.assert_close(reconstruct(wrapped, X), model(X)[0].detach())
    two = vs.wrap(Abbreviated(decisions=nn.Linear(LATENTS, NUMBERS)))
    vs.encode(two, X)
    assert "no method decode or decoder" in two.summary()


def test_a_decoder_that_returns_something_else_is_not_used() -> None:
    wrapped = vs.wrap(Base(), "moments", lambda z: z)
    vs.encode(wrapped, X)
    assert "must return items of shape (1, 8, 8), got items of shape (4,)" in wrapped.no_decoder
    logits = vs.wrap(Base(), "moments", lambda z: {"logits": z})
    vs.encode(logits, X)
    assert "got dict (logits), in which there is none" in logits.no_decoder


def test_samples_and_traversals_of_a_wrapped_model() -> None:
    wrapped = vs.wrap(MODELS["pair"]())
    codes = vs.encode(wrapped, X)
    assert sample(wrapped, 5).shape == (5, *SHAPE)
    shown = traverse(wrapped, codes.mean[0], 2, [-1.0, 1.0])
    with torch.no_grad():
        code = codes.mean[0].float().clone()
        code[2] = 1.0
        torch.testing.assert_close(shown[1], wrapped.decode(code[None]).mean[0])


def test_layers_of_a_model_have_the_names_of_its_modules() -> None:
    found = vs.activations(WithBatchNorm(), X[:20])
    names = ["input", "encoder/0", "encoder/1", "encoder/heads", "mean", "variance", "sampled"]
    assert list(found) == [*names, "decoder/decoder", "output"]
    assert all(len(table) == 20 for table in found.values())


def test_models_are_compared_by_name_with_their_layers() -> None:
    found = vs.compare([WithBatchNorm(), lambda x: (x.flatten(1)[:, :3], x.flatten(1)[:, :3])], X[:60])
    assert found.names == ("WithBatchNorm", "function")
    assert vs.compare({"a": MODELS["pair"](), "b": MODELS["list"]()}, X).names == ("a", "b")
    layers = vs.compare([MODELS["pair"](), MODELS["list"]()], X, layers=True).layers
    assert layers is not None
    assert "decoder/back" in layers.rows


def test_a_wrapped_model_is_not_wrapped_again() -> None:
    wrapped = vs.wrap(Base())
    with pytest.raises(ConfigurationError, match="WrappedModel"):
        vs.wrap(wrapped)
    with pytest.raises(UnknownNameError, match="channels, flat"):
        vs.wrap(Base(), latents="pixels")  # type: ignore[arg-type]


@pytest.mark.parametrize("device", ["cuda:99", "toaster"])
def test_a_missing_device_is_an_error(device: str) -> None:
    with pytest.raises(ConfigurationError, match=f"device.*{device}"):
        vs.encode(Base(), X, device=device)
    with pytest.raises(ConfigurationError, match=f"device.*{device}"):
        vs.wrap(Base(), device=device)


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="this machine has the device")
def test_a_device_that_this_torch_cannot_use_is_an_error_of_one_line() -> None:
    for use in (lambda: vs.encode(Base(), X, device="mps"), lambda: vs.wrap(Base(), device="mps")):
        with pytest.raises(ConfigurationError, match=r"device 'mps'.*Use 'cpu'") as caught:
            use()
        assert "\n" not in str(caught.value)


def test_two_functions_are_compared_by_number() -> None:
    functions = [lambda x, first=first: (x.flatten(1)[:, first : first + 3], x.flatten(1)[:, :3]) for first in (0, 3)]
    found = vs.compare(functions, X[:60], layers=True)
    assert found.names == ("function (1)", "function (2)")
    assert found.layers is not None
    assert list(found.layers.rows) == ["input", "mean", "variance", "sampled"]
    with pytest.raises(ConfigurationError, match="at least two models"):
        vs.compare(Base(), X)  # type: ignore[arg-type]


def test_channels_of_spatial_codes_are_latents_and_positions_examples() -> None:
    model = WithBatchNorm().eval()
    with torch.no_grad():
        q = model.encode(X[:60])
    codes = vs.encode(model, X[:60])
    assert (codes.latents, codes.positions, codes.item_count, len(codes)) == (3, (4, 4), 60, 60 * 16)
    torch.testing.assert_close(codes.code(7), q.mean[7].double())
    torch.testing.assert_close(codes.item_means(), q.mean.double().mean((2, 3)))
    rows = q.mean.permute(0, 2, 3, 1).reshape(-1, 3).double()
    torch.testing.assert_close(codes.mean, rows)
    by_hand = vs.diagnose((rows, q.variance.permute(0, 2, 3, 1).reshape(-1, 3)))
    assert vs.diagnose(model, X[:60]).types.types == by_hand.types.types
    assert vs.diagnose((q.mean, q.variance)).types.types == by_hand.types.types


def test_all_numbers_of_spatial_codes_are_latents_on_request() -> None:
    wrapped = vs.wrap(WithBatchNorm(), latents="flat")
    codes = vs.encode(wrapped, X)
    assert (codes.latents, codes.positions, len(codes)) == (48, None, 300)
    assert reconstruct(wrapped, X[:4]).shape == sample(wrapped, 4).shape == (4, *SHAPE)
    assert isinstance(wrapped, WrappedModel)
    with pytest.raises(DataError, match=r"^codes must be items x 48, got"):
        decode(wrapped, torch.zeros(2, 3, 4, 4))


def test_a_channel_is_traversed_by_its_average() -> None:
    wrapped = vs.wrap(WithBatchNorm())
    codes = vs.encode(wrapped, X)
    found = traversals(wrapped, vs.open_dataset(X), codes, example=3)
    assert found.usual[1].items.shape[1:] == SHAPE
    code = codes.code(3).float()
    code[1] += 2.0 - code[1].mean()
    torch.testing.assert_close(traverse(wrapped, codes.code(3), 1, [2.0])[0], wrapped.decode(code[None]).mean[0])


def test_spatial_codes_are_interpolated_between_the_reconstructions() -> None:
    wrapped = vs.wrap(WithBatchNorm())
    line = interpolate(wrapped, wrapped.open(X[:1]), wrapped.open(X[1:2]), steps=3)
    torch.testing.assert_close(line[[0, -1]], reconstruct(wrapped, X[:2]))


def test_groups_of_latents_have_activations_each() -> None:
    model = Hierarchical()
    found, groups = vs.activations(model, X[:9]), encode_groups(model, X[:9])
    assert list(found) == [
        "input",
        "encoder/layer",
        *(f"{kind}/{group}" for group in groups for kind in ("mean", "variance", "sampled")),
    ]
    for group, codes in groups.items():
        torch.testing.assert_close(found[f"mean/{group}"], codes.mean.float())
    assert layer_similarity(model, data=X[:60]).matrix.shape == (8, 8)


def test_groups_of_latents_have_a_representation_each_with_its_own_prior() -> None:
    model = Hierarchical()
    groups = encode_groups(model, X)
    assert {name: codes.latents for name, codes in groups.items()} == {"upper": LATENTS, "lower": 2}
    assert groups["upper"].prior is None
    assert groups["lower"].prior is not None
    torch.testing.assert_close(groups["lower"].prior[0], groups["lower"].mean / 2)
    with pytest.raises(DataError, match="2 groups of latents"):
        vs.encode(model, X)
    with pytest.raises(ConfigurationError, match="groups of latents"):
        vs.wrap(model).encode(X)
