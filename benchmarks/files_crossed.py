"""How many of our files run code in `vs.fit`, `vs.fondue`, `vs.diagnose` and `vs.report`.

Module bodies do not count, only functions that are called. Run it with the source of a version on PYTHONPATH.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType

from recorded import add_json, save

import vaescope as vs

ROOT = Path(vs.__file__).parent
NET = {"name": "mlp", "encoder_widths": [8], "decoder_widths": [8]}


def files_of(work: Callable[[], object]) -> list[str]:
    """The files below our package whose functions ran."""
    found: set[str] = set()

    def trace(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name != "<module>":
            found.add(frame.f_code.co_filename)

    threading.setprofile(trace)
    sys.setprofile(trace)
    try:
        work()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return sorted(str(Path(file).relative_to(ROOT)) for file in found if file.startswith(f"{ROOT}/"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_json(parser)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        settings = {"net": NET, "runs": folder, "device": "cpu", "progress": False}
        run = vs.fit("digits", 3, steps=30, seed=9, **settings)
        calls: dict[str, Callable[[int], object]] = {
            "fit": lambda seed: vs.fit("digits", 3, steps=30, seed=seed, **settings),
            "fondue": lambda seed: vs.fondue("digits", seeds=[seed], period=20, max_periods=2, largest=6, **settings),
            "diagnose": lambda seed: vs.diagnose(run, seed=seed),
            "report": lambda seed: vs.report(run, f"{folder}/report.html", seed=seed),
        }
        for call in calls.values():
            call(0)  # imports, which run code of their own, are done
        files = {name: files_of(partial(call, 1)) for name, call in calls.items()}
    rows = [{"call": name, "files": len(found)} for name, found in files.items()]
    print(*rows, sep="\n")
    save(options, __file__, "Files that run code in one call", {"files": rows}, raw=files)


if __name__ == "__main__":
    main()
