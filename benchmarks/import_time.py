"""Seconds of a fresh interpreter to import vaescope, to show the command line's help, and to import torch."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

from recorded import add_json, save

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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_json(parser)
    options = parser.parse_args()
    rows = []
    for name, arguments in COMMANDS.items():
        times = [seconds(arguments) for _ in range(ROUNDS)]
        rows.append({"what": name, "median seconds": statistics.median(times), "fastest": min(times)})
        print(rows[-1], flush=True)
    save(options, __file__, "Importing vaescope in a fresh interpreter", {"seconds": rows}, settings={"rounds": ROUNDS})


if __name__ == "__main__":
    main()
