"""Attack vaescope with mutated files, kills and full disks: `python tests/attack --cases 10000`.

Exit codes: 0 without faults, 1 with any. `--case KIND:SEED` runs one case again and shows where it fails.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time

from campaign import Report, attack, spread
from cases import Case, run
from corpus import memory
from kinds import KINDS

from vaescope.cli.output import print_rows
from vaescope.progress import progress_bar


def main() -> int:
    parser = argparse.ArgumentParser(prog="attack", description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--cases", type=int, default=10_000, help="number of cases over all kinds (default: 10000)")
    parser.add_argument("--seconds", type=float, default=math.inf, help="time limit (default: none)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first case of each kind (default: 0)")
    parser.add_argument("--kind", action="append", choices=list(KINDS), help="only this kind; repeatable")
    parser.add_argument("--case", type=Case.parse, metavar="KIND:SEED", help="run one case again")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (default: one per core)")
    parser.add_argument("--json", action="store_true", help="output JSON")
    asked = parser.parse_args()
    if asked.case is not None:
        return repeat(asked.case)
    cases = spread(asked.kind or list(KINDS), asked.cases, asked.seed)
    outcomes, start = [], time.monotonic()
    with progress_bar("attack", len(cases)) as report:
        for outcome in attack(cases, asked.workers, asked.seconds):
            outcomes.append(outcome)
            faults = sum(one.fault is not None for one in outcomes)
            report(len(outcomes), f"{faults} faults")
    found = Report(tuple(outcomes))
    if asked.json:
        whole = {"cases": len(outcomes), "first_seed": asked.seed, "seconds": round(time.monotonic() - start)}
        print(json.dumps({**whole, "kinds": found.rows(), "faults": found.distinct()}, indent=1))
    else:
        print_rows(found.rows(), title="cases")
        print_rows(found.distinct(), title="faults")
        print(f"{len(outcomes)} cases, {len(found.faults)} faults")
    return 1 if found.faults else 0


def repeat(case: Case) -> int:
    """Run one case in a new folder; an error is shown in full."""
    with tempfile.TemporaryDirectory(dir=memory()) as folder:
        os.chdir(folder)
        content, _ = case.content()
        print(f"{case}: {len(content)} bytes, {content[:2000]!r}")
        outcome = run(case, show=True)
        os.chdir("/")
    print("refused in a sentence" if outcome.refused else outcome.fault or "accepted", outcome.words)
    return 1 if outcome.fault else 0


if __name__ == "__main__":
    sys.exit(main())
