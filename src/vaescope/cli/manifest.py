"""`python -m vaescope.cli.manifest`: write the list of variants that help texts and documentation are made from.

The registries hold every variant but load torch. This command copies their content into `manifest.json`, the tables of
the documentation and the page of data sets; with `--check` it only reports whether these are up to date.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from vaescope.cli.datasets_page import datasets_page
from vaescope.cli.variants import MANIFEST_FILE, KindTable, VariantRow
from vaescope.files import write_text
from vaescope.registry import Registry, Variant
from vaescope.terminal import print_line

ROOT = Path(__file__).parents[3]
DATASETS_PAGE = ROOT / "docs" / "datasets.md"
DOCUMENTS = (ROOT / "README.md", ROOT / "docs" / "family.md")
# <!-- parts: model, net --> ... <!-- end of parts -->: a table of these kinds, with their options after `with options`.
TABLE = re.compile(r"(<!-- parts: ([a-z, ]+?)( with options)? -->\n).*?(<!-- end of parts -->)", re.DOTALL)

Manifest = dict[str, KindTable]


def build() -> Manifest:
    """The content of the registries: by kind, the entry-point group of its plug-ins, and a row for each variant."""
    from vaescope.data import DATASETS
    from vaescope.likelihoods import LIKELIHOODS
    from vaescope.metrics import METRICS
    from vaescope.models import MODELS
    from vaescope.nets import INITIALISATIONS, NETS
    from vaescope.objectives import OBJECTIVES
    from vaescope.posteriors import POSTERIORS
    from vaescope.priors import PRIORS
    from vaescope.runs import TRACKERS
    from vaescope.sizing import GAPS
    from vaescope.training import OPTIMISERS, PRECISIONS

    return {
        **_of(MODELS),
        **_of(NETS),
        **_of(OBJECTIVES),
        **_of(POSTERIORS),
        **_of(PRIORS),
        **_of(LIKELIHOODS),
        **_of(OPTIMISERS),
        **_of(GAPS),
        **_of(METRICS),
        **_of(TRACKERS),
        "initialisation": {"group": "", "variants": {name: _row() for name in INITIALISATIONS}},
        "precision": {"group": "", "variants": {name: _row() for name in PRECISIONS}},
        "data": {"group": "", "variants": {name: _row(DATASETS[name].summary) for name in sorted(DATASETS)}},
    }


def with_tables(text: str, manifest: Manifest) -> str:
    """A document with its tables of parts written from the manifest."""

    def table(found: re.Match[str]) -> str:
        kinds, options = found[2].split(", "), bool(found[3])
        head = ["part", "name", "what it is", *(["options"] if options else []), "source"]
        lines = [head, ["---"] * len(head)]
        for kind in kinds:
            for name, row in manifest[kind]["variants"].items():
                shown = [", ".join(f"`{key}={json.dumps(value)}`" for key, value in row["options"].items())]
                lines.append([kind, f"`{name}`", row["summary"], *(shown if options else []), row["source"]])
        escaped = [[cell.replace("|", "\\|") for cell in line] for line in lines]
        return "".join([found[1], *(f"| {' | '.join(line)} |\n" for line in escaped), found[4]])

    return TABLE.sub(table, text)


def stale(manifest: Manifest, *, write: bool) -> list[Path]:
    """The files that differ from the registries; with `write` they are updated."""
    wanted = {MANIFEST_FILE: json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"}
    wanted |= {DATASETS_PAGE: datasets_page()} if DATASETS_PAGE.parent.is_dir() else {}
    wanted |= {file: with_tables(file.read_text(encoding="utf-8"), manifest) for file in DOCUMENTS if file.is_file()}
    found = [file for file, text in wanted.items() if not file.is_file() or file.read_text(encoding="utf-8") != text]
    for file in found if write else ():
        write_text(file, wanted[file])
    return found


def main(arguments: list[str]) -> int:
    """Write the files, or with `--check` return 1 if any is out of date."""
    check = arguments == ["--check"]
    if arguments and not check:
        print_line(f"the only option is --check, got {' '.join(arguments)}", sys.stderr)
        return 2
    found = stale(build(), write=not check)
    for file in found:
        print_line(f"{file}: {'out of date; run `python -m vaescope.cli.manifest`' if check else 'written'}")
    return int(check and bool(found))


def _of(registry: Registry[Variant]) -> Manifest:
    """The kind of a registry, with a row for each variant that vaescope itself registers."""
    entries = [registry.entry(name) for name in registry if registry.distribution(name) is None]
    rows = {entry.name: _row(entry.summary, entry.source, _options(entry.variant)) for entry in entries}
    return {registry.kind: {"group": registry.group, "variants": rows}}


def _row(summary: str = "", source: str = "", options: Mapping[str, object] | None = None) -> VariantRow:
    return {"summary": summary, "source": source, "options": dict(options or {})}


def _options(variant: object) -> dict[str, object]:
    """Default values of the options of a class; functions have none."""
    if not isinstance(variant, type):
        return {}
    keywords = inspect.signature(variant).parameters.values()
    # The width of a condition comes from the data.
    return {one.name: one.default for one in keywords if one.default is not one.empty and one.name != "condition"}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
