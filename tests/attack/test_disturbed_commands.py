"""Commands that are killed, or run out of space, lose nothing; the same command then ends with the same numbers."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest
from kills import COMMANDS, check_disturbed

# The first seeds of each command; `make attack` has more.
TIMES = {"fit": 2, "fondue": 2, "report": 2, "prune": 2, "runs": 3, "sweep": 1, "export": 0, "reproduce": 0}


@pytest.fixture(scope="module", autouse=True)
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("kills"))
        yield


@pytest.mark.parametrize(("command", "seed"), [(name, seed) for name in COMMANDS for seed in range(TIMES[name])])
def test_a_disturbed_command_loses_nothing_and_ends_equally_when_repeated(command: str, seed: int) -> None:
    assert check_disturbed(command, Random(f"disturbed-{command}:{seed}")) is None
