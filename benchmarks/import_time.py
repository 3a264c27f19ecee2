"""Seconds of a fresh interpreter to import vaescope, to show the command line's help, and to import torch."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

ROUNDS = 5
COMMANDS = {
    "python": ["-c", "pass"],
    "import torch": ["-c", "import torch"],
    "import vaescope": ["-c", "import vaescope"],
    "vaescope --help": ["-m", "vaescope.cli", "--help"],
}


def seconds(arguments: list[str]) -> float:
    """Wall time of one interpreter."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


if __name__ == "__main__":
    for name, arguments in COMMANDS.items():
        times = [seconds(arguments) for _ in range(ROUNDS)]
        print(f"{name}: median {statistics.median(times):.3f} s of {ROUNDS}, fastest {min(times):.3f} s")
