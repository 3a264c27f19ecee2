"""A store of thousands of finished runs: processor seconds that `vaescope runs` and SQL over all histories take."""

from __future__ import annotations

import argparse
import copy
import csv
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from recorded import add_json, save

import vaescope as vs
from vaescope.runs import Run
from vaescope.runs.record import identity_of
from vaescope.runs.rows import kept_row, read_row
from vaescope.runs.sealed import sealed

NET = {"name": "mlp", "encoder_widths": [6], "decoder_widths": [6]}
STEPS, LOG_EVERY, EVALUATE_EVERY = 600, 12, 72  # 50 rows of training, 9 of held-out items, 2 looks at the latents
SQL = (
    "SELECT split, count(*) AS number, avg(loss) AS loss, max(step) AS step FROM history GROUP BY split ORDER BY split"
)


def one_run(folder: Path) -> Run:
    return vs.fit(
        "dsprites-small",
        latents=4,
        steps=STEPS,
        batch=16,
        net=NET,
        log_every=LOG_EVERY,
        evaluate_every=EVALUATE_EVERY,
        monitor_every=STEPS // 2,
        runs=folder,
        device="cpu",
        progress=False,
    )


def write_runs(run: Run, number: int, folder: Path, kept: bool = True) -> None:
    """Copies of a run as if trained with other seeds, three in four of them measured."""
    history, row = (run.path / "history.jsonl").read_bytes(), read_row(run.path)
    for seed in range(number):
        record: dict[str, Any] = copy.deepcopy(run.record.table())
        record["configuration"]["member"]["seed"] = seed
        record["id"] = identity_of(record["configuration"])
        path = folder / record["id"]
        path.mkdir(parents=True)
        (path / "run.json").write_text(json.dumps(sealed(record), indent=2))
        (path / "history.jsonl").write_bytes(history)
        if kept:
            own = {**row, "id": record["id"], "seed": seed, "test_loss": row["test_loss"] + seed % 97}
            (path / "summary.json").write_text(json.dumps(sealed(kept_row(own))))
        if seed % 4:
            (path / "results.json").write_text(json.dumps(sealed({"mig": {"values": {"mig": seed % 10 / 10}}})))


def damage_runs(folder: Path, number: int) -> None:
    """Change the record, the measurements or the history of some runs, as far apart as possible."""
    paths = sorted(path for path in folder.iterdir() if (path / "results.json").is_file())
    for place in range(number):
        path = paths[place * len(paths) // number]
        file = path / ("run.json", "results.json", "history.jsonl")[place % 3]
        content = file.read_bytes()
        file.write_bytes(content[: len(content) // 2])
        past = time.time() - 3600  # nobody is writing it now
        os.utime(path / "summary.json", (past - 1, past - 1))
        for changed in (file, path):
            os.utime(changed, (past, past))


def processor_seconds() -> float:
    """The processor time of all commands so far."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def seconds(arguments: list[str], repeats: int, damaged: int = 0) -> tuple[list[float], str]:
    """The processor time that the command takes, which other processes do not change much, and what it prints."""
    times = []
    for _ in range(repeats):
        began = processor_seconds()
        done = subprocess.run(
            [sys.executable, "-m", "vaescope.cli", *arguments], capture_output=True, text=True, env=os.environ
        )
        times.append(processor_seconds() - began)
        named = done.stderr.count("warning: ")
        if done.returncode != (1 if damaged else 0) or named != damaged:
            sys.exit(f"{named} warnings, exit code {done.returncode}: {done.stderr}")
    return times, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5000, help="How many runs.")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--without-summaries", action="store_true", help="As before summaries were kept.")
    parser.add_argument("--damaged", type=int, default=0, help="How many of the runs are damaged, and left out.")
    add_json(parser)
    parser.add_argument("--keep", help="Folder to write the runs into and leave them in.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(options.keep or temporary) / "runs"
        run = one_run(Path(temporary) / "one")
        began = time.perf_counter()
        write_runs(run, options.runs, folder, not options.without_summaries)
        print(f"{options.runs} runs with {len(run.history)} rows each, in {time.perf_counter() - began:.1f} s")
        damage_runs(folder, options.damaged)
        where, found = ["--runs", str(folder)], {}
        questions = {
            "vaescope runs": ["runs", *where],
            "... --where --sort --limit": ["runs", *where, "--where", "mig=0.3,0.5", "--sort", "-test_loss"],
            "... --csv": ["runs", *where, "--csv", str(Path(temporary) / "all.csv")],
            "... --parquet": ["runs", *where, "--parquet", str(Path(temporary) / "all.parquet")],
            "runs sql, over runs": ["runs", "sql", "SELECT avg(test_loss) FROM runs", *where],
            "runs sql, over all histories": ["runs", "sql", SQL, *where],
        }
        for name, arguments in questions.items():
            times, printed = seconds(arguments, options.repeats, options.damaged)
            found[name] = times
            print(f"{name}: median {statistics.median(times):.2f} s, most {max(times):.2f} s")
        print(printed)
        with (Path(temporary) / "all.csv").open(newline="") as file:
            shown = sum(1 for _ in csv.DictReader(file))
        print(f"{shown} of {options.runs} runs shown, {options.damaged} named")
    rows = [{"command": name, "median": statistics.median(times), "most": max(times)} for name, times in found.items()]
    title = f"Commands over {options.runs:,} runs, {options.damaged or 'none'} of them damaged"
    notes = [f"{shown} of {options.runs} runs are shown; each damaged one is named in a warning."]
    save(options, __file__, title, {"processor seconds": rows}, notes=notes, raw=found)


if __name__ == "__main__":
    main()
