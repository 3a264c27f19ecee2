"""Open the runs of a folder, say of each which latents are in use and what to do, and write the pages about them."""

import sys
from pathlib import Path

import vaescope as vs

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "runs")
runs = list(vs.Store(folder).runs())
pages = []
for run in runs:
    found = vs.diagnose(run)
    print(f"{run.id}: {found.summary()}")
    for card in found.cards:
        if card.status in ("bad", "warning"):
            print(f"{card.status:>9}  {card.title}. {card.meaning} {card.advice}")
    pages.append(vs.report(run, folder / f"report-{run.id}.html"))
if len(runs) > 1:
    pages.append(vs.report(runs, folder / "comparison.html"))
print("open in a browser:", *pages, sep="\n  ")
