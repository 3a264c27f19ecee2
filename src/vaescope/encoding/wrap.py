"""`vaescope.wrap`: a model of another library as one that every function of vaescope takes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel

from vaescope.checks import whole_number
from vaescope.encoding.scvi import ScviAdapter, ScviModel, is_scvi_model, refuse_scvi_module
from vaescope.encoding.untouched import checked_device
from vaescope.encoding.wrapped import BATCH_SIZE, CHANNELS, SPATIAL_LATENTS, SpatialLatents, WrappedModel
from vaescope.errors import ConfigurationError, DataError, quoted, unknown_name
from vaescope.likelihoods import LIKELIHOODS, Likelihood
from vaescope.models.latent_model import LatentModel
from vaescope.models.moments import VARIANCE, Spread, checked_spread
from vaescope.models.recognition import Function, Method
from vaescope.registry import PartSpec

# Endings of files of weights.
WEIGHT_FILES: Final = (".pt", ".pth", ".ckpt", ".bin", ".safetensors")


def wrap(
    module: nn.Module | Function | ScviModel,
    encode: Method | None = None,
    decode: Method | None = None,
    *,
    latents: SpatialLatents = CHANNELS,
    spread: Spread | None = None,
    likelihood: PartSpec[Likelihood] | None = None,
    batch_size: int = BATCH_SIZE,
    device: torch.device | str | None = None,
    name: str | None = None,
) -> WrappedModel:
    """Make a model of another library one that every function of vaescope takes.

    Functions that take a model wrap a bare module by themselves; call `wrap` to say what they cannot know. Recognised
    are methods `encode` and `decode`; submodules `encoder` and `decoder`; a forward pass that returns (reconstruction,
    mean, log-variance); models of scvi-tools with their AnnData; distributions of torch; and tuples, dictionaries and
    objects with a mean (`mean`, `mu`, `loc`, ...) and a `variance`, `log_variance`, `std`, ... by any common name. Of a
    module that torch has compiled, made parallel or averaged, the module inside is wrapped.

    Args:
        module: The model, or a function of a batch that encodes it. A pair that such a function returns is (mean,
            variance).
        encode: What encodes a batch: a function, or the name of a method. Default: recognised.
        decode: What decodes a batch of codes: a function, or the name of a method. Default: recognised.
        latents: What the latents of a spatial posterior (items x channels x height x width) are: its 'channels', with
            positions as examples, or all its numbers ('flat').
        spread: What the second of a pair is: 'variance', 'log_variance', 'std' or 'log_std'. Default: a log-variance
            if it has negative numbers and no layer has a name such as log_std.
        likelihood: What the decoder's output parametrises, such as 'bernoulli' for logits. Default: the output is the
            decoded item.
        batch_size: The number of items per forward pass.
        device: Where the model runs; it is moved back after each call. Default: where it is.
        name: What pages and messages call the model. Default: the name of its class.

    Returns:
        The wrapped model; its `summary()` says what was recognised.
    """
    module = _checked_subject(module)
    adapter = ScviAdapter(module) if is_scvi_model(module) else None
    for role, method in (("encode", encode), ("decode", decode)):
        if method is not None and not isinstance(method, str) and not callable(method):
            raise ConfigurationError(f"{role} must be a function or the name of a method, got {quoted(method)}.")
    if latents not in SPATIAL_LATENTS:
        raise unknown_name("latents", latents, SPATIAL_LATENTS)
    checked_spread(spread)
    inner = module if isinstance(module, nn.Module) else None
    if adapter is not None:
        inner, encode = adapter.module, adapter.encoder if encode is None else encode
    elif encode is None and inner is None:
        assert callable(module)
        encode = module
    # What people write for vaescope returns variances; what a model returns is recognised.
    default = VARIANCE if callable(encode) else None
    return WrappedModel(
        inner,
        encode,
        decode,
        adapter=adapter,
        latents=latents,
        spread=default if spread is None else spread,
        likelihood=None if likelihood is None else LIKELIHOODS.resolve(likelihood),
        batch_size=whole_number("batch_size", batch_size, 1),
        device=None if device is None else checked_device(device),
        name=model_name(module) if name is None else name,
    )


def _checked_subject(subject: nn.Module | Function | ScviModel) -> nn.Module | Function | ScviModel:
    """What is wrapped: a model of scvi-tools, a module without the wrappers of torch, or a function; else an error."""
    if isinstance(subject, LatentModel):
        raise ConfigurationError(
            f"wrap takes a model of another library, got {type(subject).__name__}. Use it as it is."
        )
    if isinstance(subject, type):
        raise ConfigurationError(f"wrap takes a model, got the class {subject.__name__}. Pass an instance of it.")
    subject = _inner(subject) if isinstance(subject, nn.Module) else subject
    refuse_scvi_module(subject)
    if not callable(subject) and not is_scvi_model(subject):
        raise ConfigurationError(
            f"wrap takes a torch module or a function that encodes a batch, got {type(subject).__name__}."
            f"{instead_of(subject)}"
        )
    return subject


def _inner(module: nn.Module) -> nn.Module:
    """The model in a wrapper of torch, which has none of its methods; what is no wrapper is returned unchanged."""
    while True:
        parallel = isinstance(module, nn.DataParallel | DistributedDataParallel | AveragedModel)
        # The class of compiled modules is slow to import.
        found = dict(module.named_children()).get("module" if parallel else "_orig_mod")
        if found is None:
            return module
        module = found


@runtime_checkable
class HasModel(Protocol):
    """What has a trained model of this library, such as a run."""

    @property
    def model(self) -> LatentModel:
        """The model."""


def model_of(subject: object) -> LatentModel | None:
    """A model that every function takes: itself, that of a run, or a module or function wrapped; else None."""
    if isinstance(subject, LatentModel):
        return subject
    if callable(subject) or is_scvi_model(subject):
        return wrap(subject)
    held: object = subject.model if isinstance(subject, HasModel) else None
    return held if isinstance(held, LatentModel) else None


def checked_model(subject: object) -> LatentModel:
    """What `model_of` gives, or an error."""
    found = model_of(subject)
    if found is None:
        raise DataError(
            f"The model must be a run, a torch module or a function, got {type(subject).__name__}.{instead_of(subject)}"
        )
    return found


def instead_of(subject: object) -> str:
    """What to pass instead of an object that is no model but belongs to one, as a sentence after a space."""
    if isinstance(subject, Mapping) and any(str(name).endswith((".weight", ".bias")) for name in subject):
        return " These are the weights of a model: load them into it with load_state_dict, and pass the model."
    if isinstance(subject, str | Path) and Path(subject).suffix.lower() in WEIGHT_FILES:
        return " This file holds weights: build the model, load them into it, and pass the model."
    if model_of(subject) is not None:
        return " It holds a model of this library: use it as it is."
    if callable(getattr(subject, "encode", None)):
        return " Pass its methods: vs.wrap(model.encode, decode=model.decode)."
    return ""


def model_name(model: object) -> str:
    """The name of a model or function: its own, or that of its class."""
    if isinstance(model, WrappedModel):
        return model.name
    if isinstance(model, nn.Module):
        model = _inner(model)
    if isinstance(model, torch.jit.ScriptModule):
        return str(model.original_name)
    name = getattr(model, "__name__", type(model).__name__)
    return "function" if name == "<lambda>" else str(name)
