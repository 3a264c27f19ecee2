"""Models whose codes are no Gaussians, or more than these: refused, or named in a sentence."""

from __future__ import annotations

import re

from torch import nn

from vaescope.errors import ConfigurationError

QUANTISER = re.compile(
    r"vector_?quanti|^_*vq|codebook|residual_?vq|finite_?scalar_?quanti|^_*(?:fsq|lfq|quanti[sz]er?)$", re.IGNORECASE
)
FLOW = re.compile(r"^(?:IAF|MAF|NICE|RealNVP|(?:Planar|Radial)Flow|.*Normali[sz]ingFlow)$")
# Models whose codes lie in a curved space, where latents have no mean and variance of their own.
CURVED_SPACES = re.compile(r"poincar|hyperbol|hyperspher|lorentz|mises", re.IGNORECASE)


def caveats(module: nn.Module | None) -> str:
    """What the mean and variance that a model returns leave out, in sentences that begin with a space."""
    found = ""
    if module is not None and any(FLOW.match(type(one).__name__) for one in module.modules()):
        found += " The posterior before the flow is typed."
    # pythae's Hamiltonian models: n_lf leapfrog steps move the sample, with the decoder's gradient.
    if hasattr(module, "n_lf"):
        found += " The posterior before the Hamiltonian flow is typed."
    if hasattr(module, "encoder_z2_z1"):  # SCANVI of scvi-tools
        found += " The prior given the label is not N(0, 1), against which types and rates are measured."
    if hasattr(module, "pseudo_inputs"):
        found += " The prior is a mixture over pseudo-inputs (VampPrior); types and rates are measured against N(0, 1)."
    return found


def refuse_other_codes(name: str, module: nn.Module | None) -> None:
    """Raise an error for codes that are no distributions over numbers: entries of a table, points of a curved space."""
    kinds = [] if module is None else [type(part).__name__ for part in module.modules()]
    quantisers = [one for one in (*kinds, *_names_of_parts(module)) if QUANTISER.search(one)]
    if quantisers:
        reason = f"quantises its codes ({quantisers[0]}): they are entries of a codebook without mean and variance"
    elif kinds and CURVED_SPACES.search(kinds[0]):
        reason = "has codes in a curved space: single latents have no mean and variance there"
    else:
        return
    raise ConfigurationError(
        f"{name} {reason}, so active, mixed and passive latents are not defined. Pass encode= to vs.wrap to look at "
        "another part of the model."
    )


def _names_of_parts(module: nn.Module | None) -> list[str]:
    """The names of the modules, parameters and buffers within a module, without those of the modules around them."""
    if module is None:
        return []
    tables = (module.named_modules(), module.named_parameters(), module.named_buffers())
    return [name.rpartition(".")[2] for table in tables for name, _ in table]
