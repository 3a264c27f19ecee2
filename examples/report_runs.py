"""Open the runs of a folder, say of each which latents are alive and what to do, and write the pages about them."""

import sys
from pathlib import Path

import vaescope as vs

folder = Path(sys.argv[1] if len(sys.argv) > 1 else "runs")
runs = list(vs.Store(folder).runs())
for run in runs:
    found = vs.diagnose(run)
    print(f"{run.id}: {found.summary()}")
    for card in found.cards:
        print(f"{card.status:>16}  {card.title}. {card.meaning} {card.advice}")
pages = [vs.report(run, folder / f"report-{run.id}.html") for run in runs]
if len(runs) > 1:
    pages.append(vs.report(runs, folder / "comparison.html"))
print("open in a browser:", *pages, sep="\n  ")
