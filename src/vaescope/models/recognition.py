"""Find out how a model of another library encodes and decodes, by calling it on a batch."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal, Protocol, TypeAlias, get_args, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributions import Distribution as TorchDistribution

from vaescope.errors import ConfigurationError, DataError, unknown_name
from vaescope.likelihoods import Likelihood
from vaescope.models.moments import Moments, Spread
from vaescope.models.other_codes import refuse_other_codes
from vaescope.models.outputs import reader_of
from vaescope.models.readers import Call, NotRecognised, Reader
from vaescope.numerics.distributions import Distribution

# Names of what a decoder may return the items by, the most telling first.
ITEM_NAMES: Final = ("reconstruction", "recon", "recon_x", "x_recon", "x_hat", "sample", "px", "mean", "x")
ITEM_TYPES: Final = (Tensor, np.ndarray, TorchDistribution, Distribution)
LOG_STD_LAYER = re.compile(r"log_?(?:std|sigma|scale)(?!_?(?:2|sq))", re.IGNORECASE)
LOG_VARIANCE_LAYER = re.compile(r"log_?var|log_?sigma_?(?:2|sq)", re.IGNORECASE)
DECODER_LAYER = re.compile(r"dec|generator", re.IGNORECASE)
MAX_REASON = 200  # characters of an error of the model

# Items as they are in the data, without their only channel (sequences look like grey images), or flattened.
Form = Literal["items", "planes", "vectors"]
FORMS: tuple[Form, ...] = get_args(Form)
ITEMS, PLANES, VECTORS = FORMS

Function: TypeAlias = Callable[[Tensor], object]
Method: TypeAlias = str | Function


@dataclass(frozen=True)
class NamedFunction:
    """A function, and what summaries and messages call it."""

    words: str
    function: Function

    def __call__(self, given: Tensor) -> object:
        """Call the function."""
        return self.function(given)


@dataclass(frozen=True)
class NoDecoder:
    """Why a model of a known library cannot decode, as the end of a sentence."""

    reason: str


@dataclass(frozen=True)
class Conventions:
    """A module, and what its user says of it that cannot be recognised; the arguments of `vaescope.wrap`."""

    module: nn.Module | None
    encode: Method | None = None
    decode: Method | None = None
    spread: Spread | None = None
    likelihood: Likelihood | None = None


@runtime_checkable
class HasConventions(Protocol):
    """A wrapped model."""

    @property
    def conventions(self) -> Conventions:
        """What was wrapped, and what its user said of it."""
        ...


@dataclass(frozen=True)
class EncoderCall:
    """How to encode a batch.

    Attributes:
        words: What is called, such as 'encode(x)'.
        function: The function or method.
        form: The form in which it takes items.
        readers: How to read what it returns; one for each group of latents, or one named ''.
    """

    words: str
    function: Function
    form: Form
    readers: Mapping[str, Reader]

    def __call__(self, x: Tensor) -> dict[str, tuple[Moments, Moments | None]]:
        """The posterior of each group by name, and its prior if the output has one."""
        output = _call(self.words, self.function, in_form(x, self.form))
        found = {}
        for name, reader in self.readers.items():
            posterior = reader.posterior(output)
            # Not len, which fixes the number of items in an exported graph.
            if posterior.mean.shape[0] != x.shape[0]:
                raise DataError(
                    f"{self.words} must return one row of latents for each of the {len(x)} items of a batch, got the "
                    f"shape {tuple(posterior.mean.shape)}."
                )
            found[name] = posterior, None if reader.prior is None else reader.prior(output)
        return found


@dataclass(frozen=True)
class DecoderCall:
    """How to decode codes to items of `shape`; `flattens` says whether the function takes codes as vectors."""

    words: str
    function: Function
    flattens: bool
    shape: tuple[int, ...]

    def __call__(self, code: Tensor) -> Tensor:
        """The decoded items, in their shape."""
        output = _call(self.words, self.function, code.flatten(1) if self.flattens else code)
        items = decoded_mean(output)
        if items is None or items.numel() != code.shape[0] * math.prod(self.shape):
            got = _described(output) if items is None else f"items of shape {tuple(items.shape[1:])}"
            raise DataError(f"{self.words} must return items of shape {self.shape}, got {got}.")
        return items.reshape(code.shape[0], *self.shape).to(torch.float32)


@dataclass(frozen=True)
class Recognised:
    """What a model was found to do with its first batch.

    Attributes:
        encoder: How it encodes.
        decoder: How it decodes, or the reason why it does not.
        item_shape: The shape of an item.
        code_shape: The shape of the code of an item: (latents,), or (channels, height, width).
        latents: The number of latents: of numbers in a code, or of its channels.
    """

    encoder: EncoderCall
    decoder: DecoderCall | str
    item_shape: tuple[int, ...]
    code_shape: tuple[int, ...]
    latents: int

    @property
    def groups(self) -> tuple[str, ...]:
        """The names of the groups of a hierarchical posterior; empty if there is one group."""
        return tuple(self.encoder.readers) if len(self.encoder.readers) > 1 else ()


def find_encoder(
    name: str, module: nn.Module | None, given: Method | None, x: Tensor, spread: Spread | None
) -> EncoderCall:
    """The first way to encode that gives a posterior; an error says what was tried.

    Args:
        name: What messages call the model.
        module: The model; None for a function.
        given: What the user says encodes; None to find out.
        x: A batch of items.
        spread: What the second of a pair is, if the user says so.
    """
    failed: dict[str, str] = {}  # by the error, which is often the same for vectors
    returned: list[str] = []
    log_std = _log_std_layer(module)
    for words, function, reconstructs in _encoders(name, module, given):
        for form in _forms(tuple(x.shape[1:])):
            inputs = in_form(x, form)
            try:
                output = _call(words, function, inputs)
            except DataError as error:
                failed.setdefault(_cause(error), str(error).rstrip("."))
                continue
            size = math.prod(x.shape[1:]) if reconstructs else None
            try:
                found = reader_of(output, Call(len(x), size, spread, partial(_call, words, function, inputs), log_std))
            except NotRecognised as reason:
                if reason.question:
                    raise ConfigurationError(f"{words} of {name} returns {reason}. {reason.question}") from reason
                returned.append(f"{words} returns {reason}")
                break
            return EncoderCall(words, function, form, found if isinstance(found, dict) else {"": found})
    tried = "; ".join([*failed.values(), *returned]) or "it has no method encode, encoder or forward"
    if failed and not returned:
        raise ConfigurationError(
            f"{name} must encode the items, but {tried}. Check that they have the shape and the type that the model "
            "takes, or pass encode= to vs.wrap: a function of a batch."
        )
    raise ConfigurationError(
        f"{name} must return a posterior for a batch of shape {tuple(x.shape)}, but {tried}. Pass encode= to "
        "vs.wrap: a function of a batch that returns {'mean': ..., 'variance': ...}, {'mean': ..., 'log_variance': "
        "...}, or {'mean': ...} for a code without noise."
    )


def _log_std_layer(module: nn.Module | None) -> str:
    """The name of a layer, outside of the decoder, that gives the log of a standard deviation; '' if there is none."""
    names = [] if module is None else [name for name, _ in module.named_modules() if "dec" not in name.lower()]
    if any(LOG_VARIANCE_LAYER.search(name) for name in names):
        return ""
    return next((name for name in names if LOG_STD_LAYER.search(name)), "")


def _forms(shape: tuple[int, ...]) -> tuple[Form, ...]:
    """The forms in which items of a shape may be encoded, those of the data first."""
    return (ITEMS, *((PLANES,) if len(shape) == 3 and shape[0] == 1 else ()), *((VECTORS,) if len(shape) > 1 else ()))


def in_form(x: Tensor, form: Form) -> Tensor:
    """A batch of items in a form."""
    return {ITEMS: x, PLANES: x.flatten(1, 2), VECTORS: x.flatten(1)}[form] if x.ndim > 2 else x


def find_decoder(
    module: nn.Module | None, given: Method | NoDecoder | None, code: Tensor, shape: tuple[int, ...]
) -> DecoderCall | str:
    """What decodes a batch of codes to items of a shape, or why nothing does."""
    if isinstance(given, NoDecoder):
        return given.reason
    reasons: dict[str, str] = {}
    for words, function in _decoders(module, given):
        for flattens in (False, True) if code.ndim > 2 else (False,):
            found = DecoderCall(words, function, flattens, shape)
            try:
                found(code)
            except DataError as error:
                reasons.setdefault(_cause(error), str(error).rstrip("."))
            else:
                return found
    return "; ".join(reasons.values()) or "it has no method decode or decoder"


def _encoders(name: str, module: nn.Module | None, given: Method | None) -> Iterator[tuple[str, Function, bool]]:
    """What may encode: words, the function, and whether it also reconstructs."""
    if given is not None:
        yield (*_method(module, given, "encode"), False)
        return
    refuse_other_codes(name, module)
    for method in ("encode", "encoder"):
        found = _attribute(module, method)
        if callable(found):
            yield f"{method}(x)", found, False
    # That of the base class raises an error.
    if module is not None and getattr(module.forward, "__func__", None) is not nn.Module.forward:
        yield "forward(x)", module, True


def _decoders(module: nn.Module | None, given: Method | None) -> Iterator[tuple[str, Function]]:
    if given is not None:
        yield _method(module, given, "decode")
        return
    # Where one part alone has the name of a decoder, such as `dec`, it is taken for it.
    named = [] if module is None else [name for name, _ in module.named_children() if DECODER_LAYER.match(name)]
    for method in dict.fromkeys(("decode", "decoder", *(named if len(named) == 1 else ()))):
        found = _attribute(module, method)
        if callable(found):
            yield f"{method}(z)", found


def _method(module: nn.Module | None, given: Method, role: str) -> tuple[str, Function]:
    """The words for, and the function of, what the user says encodes or decodes."""
    if isinstance(given, NamedFunction):
        return given.words, given.function
    if not isinstance(given, str):
        return f"the function {role}", given
    found = _attribute(module, given)
    if not callable(found):
        methods = [
            name
            for name, _ in inspect.getmembers(type(module), inspect.isfunction)
            if name[0] != "_" and not hasattr(nn.Module, name)
        ]
        raise unknown_name(f"{role}, the name of a method of {type(module).__name__},", given, [*methods, "forward"])
    return f"{given}({'x' if role == 'encode' else 'z'})", found


def _attribute(module: nn.Module | None, name: str) -> object:
    """An attribute of the model, which may be a property that fails; None if there is none."""
    try:
        return getattr(module, name, None)
    except Exception as error:
        raise ConfigurationError(
            f"The attribute {name} of {type(module).__name__} cannot be read: {first_line(error)}. Pass functions "
            "encode and decode to vs.wrap."
        ) from error


def _call(words: str, function: Function, given: Tensor) -> object:
    """The output of the model, or an error on one line that says what failed."""
    try:
        # A copy, because the model may change it in place.
        return function(given.clone())
    except ConfigurationError:
        raise
    except Exception as error:
        raise DataError(
            f"{words} fails for a batch of shape {tuple(given.shape)} and type {given.dtype}: {first_line(error)}."
        ) from error


def _cause(error: DataError) -> str:
    """The error of the model that made a call fail; the error itself if it has another reason."""
    return first_line(error.__cause__ or error)


def first_line(error: BaseException) -> str:
    """The kind of an error of other code and the first line of its message, shortened, as the end of a sentence."""
    text = str(error).strip().partition("\n")[0].rstrip(".")[:MAX_REASON]
    return f"{type(error).__name__}{f': {text}' if text else ''}"


def decoded_part(output: object) -> Tensor | TorchDistribution | Distribution | None:
    """What a decoder returned of the items: a tensor, a distribution, a named part or the first element."""
    if isinstance(output, Tensor | np.ndarray):
        return torch.as_tensor(output)
    if isinstance(output, TorchDistribution | Distribution):
        return output
    if isinstance(output, Mapping):
        parts = [output.get(name) for name in ITEM_NAMES]
    elif isinstance(output, tuple | list):
        parts = list(output)
    else:
        parts = [getattr(output, name, None) for name in ITEM_NAMES]
    return next((decoded_part(part) for part in parts if isinstance(part, ITEM_TYPES)), None)


def decoded_mean(output: object) -> Tensor | None:
    """The items in what a decoder returned: a tensor, or the mean of a distribution."""
    found = decoded_part(output)
    return found if found is None or isinstance(found, Tensor) else found.mean


def _described(output: object) -> str:
    """An output in which no items are found, in a few words."""
    parts = f" ({', '.join(map(str, output))})" if isinstance(output, Mapping) else ""
    return f"{type(output).__name__}{parts}, in which there is none"
