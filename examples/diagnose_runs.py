"""Open the runs of a folder and say of each which latents are alive and what to do."""

import sys
from pathlib import Path

import vaescope as vs

for run in vs.Store(Path(sys.argv[1] if len(sys.argv) > 1 else "runs")).runs():
    found = vs.diagnose(run)
    print(f"{run.id}: {found.summary()}")
    for card in found.cards:
        print(f"{card.status:>16}  {card.title}. {card.meaning} {card.advice}")
