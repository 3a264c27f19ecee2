"""The settings of a run as flat columns, by the names that a sweep's grid has for them, and which a listing shows.

Nothing here loads torch: listings of thousands of runs are made of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

Row = dict[str, Any]

PARTS = ("net", "posterior", "prior", "likelihood")
# Of the plan, beside the batch and the steps, which every row has.
PLANNED = ("precision", "log_every", "evaluate_every", "evaluation_items", "monitor_every", "monitor_items")
SCHEDULES = ("warm_up", "free_bits")
NAMED = ("posterior", "prior", "optimiser")  # the parts whose names are no columns of every row
STEPS = "steps"  # of training, in a row; an objective may have its own
# What a fit has that says nothing of it, and the options of parts by the name of the part and of its variant. As in the
# packages of the parts and in `Settings`, which load torch; a test compares them.
USUAL: Row = {
    "posterior": "diagonal",
    "prior": "standard",
    "initialisation": "glorot",
    "optimiser": "adam",
    "precision": "float32",
    "evaluation_items": 2048,
    "monitor_items": 512,
    "held_out": 0.1,
    "split_seed": 0,
}
OF_MODELS: dict[str, Row] = {
    "autoencoder": {"posterior": "deterministic"},
    "identifiable": {"prior": "conditional"},
    "vgon": {"initialisation": "torch"},
}
CROSS = [[0.0, 1.0], [0.0, -1.0], [1.0, 0.0], [-1.0, 0.0]]
MOMENTS = {"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}
OF_PARTS: dict[tuple[str, str], Row] = {
    ("net", "conv"): {"kernels": [4, 4, 2, 2], "channels": [32, 32, 64, 64], "hidden": 256},
    ("net", "fully_connected"): {"decoder_widths": [1200, 1200, 1200]},
    ("net", "mlp"): {
        **{"encoder_widths": [400, 400], "decoder_widths": [400, 400]},
        **{"encoder_activation": "relu", "decoder_activation": "relu"},
    },
    ("prior", "anisotropic"): {"kind": "learned", "scale": 1.0},
    ("prior", "conditional"): {"learned_mean": False, "widths": [50, 50, 50]},
    ("prior", "mixture"): {"means": CROSS, "variances": 0.03},
    ("prior", "sparse"): {"gamma": 0.8, "variance": 0.05},
    ("prior", "student_t"): {"degrees": 5.0},
    # As it is chosen for vectors; asked for by its name alone, it learns no variance.
    ("likelihood", "gaussian"): {"variance": 1.0, "learned": True},
    ("likelihood", "laplace"): {"scale": 0.1},
    ("optimiser", "adagrad"): {"epsilon": 1e-10},
    ("optimiser", "adam"): MOMENTS,
    ("optimiser", "amsgrad"): MOMENTS,
    ("objective", "annealed"): {"steps": 100_000.0},
    ("objective", "beta_tc"): {"estimator": "weighted"},
    ("objective", "decomposition"): {"divergence": "mmd"},
    ("objective", "factor"): {"critic_widths": [1000] * 6},
}


def settings_of(record: Mapping[str, Any]) -> Row:
    """Every setting of a run, from the content of its run.json, that no other column of its row has."""
    configuration = record["configuration"]
    architecture, plan, split = (configuration[name] for name in ("architecture", "plan", "split"))
    objective = configuration["member"]["objective"]
    strengths = strengths_of(objective)
    parts = {
        "data": record.get("source"),
        **{name: architecture[name] for name in ("model", *PARTS)},
        "optimiser": plan["optimiser"],
        "objective": {name: value for name, value in objective.items() if name not in (*strengths, *SCHEDULES)},
    }
    found = {
        **{name: name_in(parts[name]) for name in NAMED},
        "initialisation": architecture["initialisation"],
        **{name: plan[name] for name in PLANNED},
        "held_out": split["held_out"],
        "split_seed": split["seed"],
        **{f"{part}.{option}": _cell(value) for part, table in parts.items() for option, value in _options(table)},
    }
    return {name: value for name, value in found.items() if value is not None}


def strengths_of(objective: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of an objective that are columns, without the schedules that are off, the others last."""
    names = sorted(objective, key=lambda name: name in SCHEDULES)
    numbers = {name: objective[name] for name in names if type(objective[name]) in (int, float) and name != STEPS}
    return {name: value for name, value in numbers.items() if value or name not in SCHEDULES}


def name_in(part: Any) -> Any:
    """The name of a part, which is a name itself, or a table of it and of options."""
    return part["name"] if isinstance(part, Mapping) else part


def listed(rows: Sequence[Row]) -> list[Row]:
    """The rows without the settings that are usual in all of them."""
    quiet = {name for row in rows for name in row if _is_setting(name)}.difference(*map(_unusual, rows))
    return [{name: value for name, value in row.items() if name not in quiet} for row in rows]


def _unusual(row: Row) -> Iterator[str]:
    """The settings of a run that it would not have if nothing had been said of them."""
    usual = _usual(row)
    return (name for name, value in row.items() if _is_setting(name) and value != usual.get(name))


def _usual(row: Row) -> Row:
    """What a run like this has of all that may be left open; the longer it trains, the fewer rows its history has."""
    usual = {**USUAL, **OF_MODELS.get(row.get("model", ""), {})}
    for part in (*PARTS, "optimiser", "objective"):
        usual |= OPTIONS.get((part, row.get(part, "")), {})
    if "log_every" in row:
        steps, log_every = row[STEPS], row["log_every"]
        usual["log_every"] = min(50, max(1, steps // 50))
        usual["evaluate_every"] = log_every * max(1, round(steps / 10 / log_every))
        usual["monitor_every"] = log_every * int(-(-max(200, steps / 300) // log_every))
    return usual


def _is_setting(name: str) -> bool:
    return name in USUAL or name in PLANNED or "." in name


def _options(part: Any) -> Iterator[tuple[str, Any]]:
    return ((name, value) for name, value in part.items() if name != "name") if isinstance(part, Mapping) else iter(())


def _cell(value: Any) -> Any:
    """Lists as the text that a file has for them."""
    return json.dumps(value) if isinstance(value, list | tuple | dict) else value


OPTIONS = {
    (part, variant): {f"{part}.{option}": _cell(value) for option, value in options.items()}
    for (part, variant), options in OF_PARTS.items()
}
