"""`vaescope.report`: everything about one model, or several models compared, in one HTML file."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vaescope.data import DataLike
from vaescope.data.sources import flags_of
from vaescope.diagnosis.cards import model_card
from vaescope.diagnosis.compare import compare_subjects
from vaescope.diagnosis.compared import MAX_COMPARED_ITEMS, encode_same_items, load_compared
from vaescope.diagnosis.diagnose import Diagnosis, GroupedDiagnosis, diagnose_groups, diagnose_subject
from vaescope.diagnosis.headline import Headline
from vaescope.diagnosis.subject import Subject, load_subjects
from vaescope.encoding import WrappedModel, traversals
from vaescope.errors import ConfigurationError
from vaescope.files import check_page
from vaescope.markup import Markup, element, join, prose
from vaescope.numerics.polarised import ALPHA
from vaescope.progress import progress_bar
from vaescope.reporting import page
from vaescope.reporting.comparison import SPLITS, comparison_page
from vaescope.reporting.decoder import NotExported
from vaescope.reporting.drawing import chosen_metrics, plots_of, saved_searches
from vaescope.reporting.frames import frames_section
from vaescope.reporting.latent_strip import latent_strip
from vaescope.reporting.latent_table import LatentRow, latent_rows, latent_table, pictured_latents
from vaescope.reporting.live import live_section
from vaescope.reporting.paths import without_folders
from vaescope.reporting.pictures import drawn_note
from vaescope.reporting.reconstructions import NotShown, Reconstructions, reconstruction_section, reconstructions_of
from vaescope.runs import Run, summary
from vaescope.runs.probes import latent_rates, no_latent_rates
from vaescope.runs.rows import drop_constant_settings
from vaescope.runs.store import MAX_ITEMS, subject_name
from vaescope.sizing import Fondue
from vaescope.sizing.axes import LATENTS
from vaescope.tables import table

DEFAULT_PATH = "report.html"
PICTURES = "Reconstructions, traversals and sliders"
DEFAULT_METRICS = ("mig", "dci")  # quick and well known
# Columns of a run's row that its page shows elsewhere.
SHOWN_ELSEWHERE = ("id", "status", "steps", "active", "mixed", "passive")
CHANNELS_NOTE = (
    "Of each channel, histograms count all positions, and extreme items have the least and greatest average over the "
    "positions{}."
)
CHANNELS_TRAVERSAL = "; a traversal sets this average by adding one number at every position"


def report(
    subject: object,
    path: str | Path = DEFAULT_PATH,
    data: DataLike | None = None,
    *,
    metrics: str | Sequence[str] | None = None,
    alpha: float = ALPHA,
    items: int = MAX_ITEMS,
    layers: bool = True,
    images: bool = True,
    seed: int = 0,
    runs: str | Path | None = None,
    progress: bool | None = None,
) -> Path:
    """Write a self-contained HTML report: verdict, findings, latents, sliders that decode, and plots.

    A model with several groups of latents has a section for each. The page says which parts are missing, and why.

    Args:
        subject: A model in any form that `diagnose` accepts; a list of several models is compared.
        path: The .html file to write.
        data: The items to encode; default: the data that the run was trained on.
        metrics: Names from `vaescope.metrics.METRICS`, or 'all'; default: MIG and DCI if the data have factors.
        alpha: The threshold of the variable types.
        items: The maximum number of items to encode.
        layers: Whether to compare the layers of the network.
        images: Whether to embed items, what the model decodes, and the decoder; False leaves them all out.
        seed: The random seed for sampling and item selection.
        runs: The folder that contains the runs; default: 'runs'.
        progress: Whether to show progress: a bar on a terminal, lines in a log. Default: True.

    Returns:
        The path of the file.
    """
    check_page(Path(path))
    subjects = list(subject) if isinstance(subject, list) else [subject]
    if not subjects:
        raise ConfigurationError("report needs a run or codes, got an empty list. Pass at least one.")
    with progress_bar("report", None, progress) as advance:
        if len(subjects) > 1:
            advance(0, "encoding")
            compared = load_compared(subjects, data, items=min(items, MAX_COMPARED_ITEMS), seed=seed, runs=runs)
            advance(1, "comparing")
            both = layers and all(one.run is not None for one in compared[:2]) and encode_same_items(compared[:2])
            found = compare_subjects(compared, layers=both)
            advance(2, "drawing")
            text = comparison_page(found, compared, images=images)
            return page.write_page(path, without_folders(text, [one.run for one in compared]))
        advance(0, "encoding")
        loaded = load_subjects(subjects[0], data, items=items, seed=seed, runs=runs)
        advance(1, "diagnosing")
        diagnoses = {
            group: diagnose_subject(one, alpha=alpha, metrics=chosen_metrics(one, metrics), seed=seed)
            for group, one in loaded.items()
        }
        advance(2, "drawing")
        if list(loaded) == [""]:
            whole = run_page(loaded[""], diagnoses[""], layers=layers, images=images, seed=seed)
            return page.write_page(path, without_folders(whole, [loaded[""].run]))
        grouped = diagnose_groups(subject_name(subjects[0]), loaded, diagnoses)
        return page.write_page(path, groups_page(loaded, grouped, images=images))


def run_page(subject: Subject, diagnosis: Diagnosis, *, layers: bool = True, images: bool = True, seed: int = 0) -> str:
    """The whole page.

    Args:
        subject: The model.
        diagnosis: Its diagnosis.
        layers: Whether to compare the layers of the network.
        images: Whether to embed items, what the model decodes, and the decoder.
        seed: The random seed of the codes drawn from the prior.
    """
    searches = [] if subject.run is None else saved_searches(subject.run)
    rows = latent_rows(diagnosis, subject.codes)
    plots = [plot for plot in plots_of(subject, diagnosis, searches, layers) if plot is not None]
    missing, decoded = dict(subject.missing), None
    try:
        decoded = _reconstructions(subject, diagnosis, images)
    except NotShown as reason:
        missing[PICTURES] = str(reason)
    decoding = None
    if decoded is not None:
        try:
            decoding = _decoding(subject, rows, decoded, seed)
        except NotShown as reason:
            missing["Sliders"] = str(reason)
            decoding = reconstruction_section(decoded)
    parts = [
        ("cards", "Findings", page.cards(diagnosis.cards)),
        ("latents", "Latents", _latents(subject, rows, decoded, images)),
        ("plots", "Plots", page.plots(plots)),
    ]
    return page.page(
        f"{subject.name}: {diagnosis.types.summary()}",
        element("h1", _title(subject)),
        _verdict(diagnosis.headline, _suggestion(subject, searches)),
        latent_strip(rows),
        decoding,
        None if subject.run is None else _settings(subject.run, subject),
        parts=parts,
        missing=missing | _missing(subject, diagnosis, searches),
        embedded=embedded_words(subject.items is not None and images),
    )


def _title(subject: Subject) -> str:
    return f"vaescope report for {'' if subject.run is None else 'run '}{subject.name}"


def _reconstructions(subject: Subject, diagnosis: Diagnosis, images: bool) -> Reconstructions:
    if not images and not subject.no_decoder:
        raise NotShown("left out with images=False, as all pictures.")
    return reconstructions_of(subject, diagnosis.reconstruction)


def groups_page(subjects: Mapping[str, Subject], found: GroupedDiagnosis, *, images: bool = True) -> str:
    """The whole page of a model with several groups of latents, with a section for each group.

    Args:
        subjects: The codes of each group by its name.
        found: Their diagnoses.
        images: Whether to embed items.
    """
    first, *_ = subjects.values()
    shared = [model_card(first.model.summary())] if isinstance(first.model, WrappedModel) else []
    groups: list[dict[str, Any]] = [dict(row) for row in found.card.rows]
    numbers = [name for name in groups[0] if name != "group"]
    total = {"group": "sum", **{name: sum(row[name] for row in groups) for name in numbers}}
    caption = "One row per group: its rate in nats for an item, and its latents by type"
    parts = [
        ("cards", "Findings", page.cards([found.card, *shared])),
        ("groups", "Groups", table([*groups, total], caption)),
    ]
    for number, (name, subject) in enumerate(subjects.items(), 1):
        diagnosis = found.groups[name]
        rows = latent_rows(diagnosis, subject.codes)
        plots = [plot for plot in plots_of(subject, diagnosis, (), layers=False) if plot is not None]
        content = join(
            _verdict(diagnosis.headline),
            page.cards([card for card in diagnosis.cards if card not in shared]),
            latent_strip(rows),
            _latents(subject, rows, None, images, f"latent-rows-{number}"),
            page.plots(plots, f"{number}-"),
        )
        parts.append((f"group-{number}", f"Latents of {name}", content))
    missing = dict(first.missing) | {PICTURES: first.no_decoder}
    return page.page(
        f"{found.name}: {len(subjects)} groups of latents",
        element("h1", f"vaescope report for {found.name}"),
        _verdict(found.headline),
        parts=parts,
        missing=missing | _missing(first, found.groups[next(iter(subjects))], ()),
        embedded=embedded_words(first.items is not None and images),
    )


def embedded_words(with_items: bool) -> str:
    """What the page contains of the data, for readers who share it."""
    if not with_items:
        return "It contains no items of the data and no decoder."
    return "It contains items of the data and what the model decodes; use `images=False` to leave them out."


def _decoding(subject: Subject, rows: Sequence[LatentRow], decoded: Reconstructions, seed: int) -> Markup:
    """Sliders: the decoder runs in the page if it can, and else the page holds frames."""
    try:
        return live_section(subject, rows, decoded, seed)
    except NotExported as reason:
        return frames_section(subject, rows, decoded, str(reason))


def _verdict(headline: Headline, suggestion: str = "") -> Markup:
    """The headline and, below it, what to do about it, with the size that FONDUE suggests."""
    advice = f"{headline.advice} {suggestion}".strip()
    # What is wrong comes before a colon; without a problem, the first sentence leads.
    problem = headline.state not in ("fine", "codes only") and ": " in headline.sentence
    lead, _, rest = headline.sentence.partition(": " if problem else ". ")
    lead, rest = lead.rstrip("."), f"{rest[:1].upper()}{rest[1:]}"
    return join(
        element("p", f"{lead}.", class_=f"verdict {headline.state.replace(' ', '-')}"),
        element("p", rest, class_="next") if rest else None,
        element("p", prose(advice), class_="next") if advice else None,
    )


def _suggestion(subject: Subject, searches: Sequence[Fondue]) -> str:
    """The size that FONDUE suggests, if it searched with this model and objective."""
    if subject.run is None:
        return ""
    table = subject.run.configuration.plain()
    settings = {**table["architecture"], "objective": table["member"]["objective"]}
    sizes = {
        search.latents
        for search in searches
        if search.over == LATENTS and all(search.settings.get(name) == value for name, value in settings.items())
    }
    return f"FONDUE suggests {' or '.join(map(str, sorted(sizes)))} latents." if sizes else ""


def _settings(run: Run, subject: Subject) -> Markup:
    """The settings and results of a run, folded."""
    return element("details", element("summary", "Settings"), page.facts(_facts(run, subject)), class_="settings")


def _facts(run: Run, subject: Subject) -> dict[str, object]:
    """The most important settings and results of a run."""
    configuration, encoded = run.configuration, len(subject.codes)
    if not subject.history:
        names = {"data": configuration.data["name"], "model": configuration.architecture.model}
        return {**names, "latents": configuration.member.latents, "encoded": encoded}
    (row,) = drop_constant_settings([summary(run)])
    known = {name: value for name, value in row.items() if name not in SHOWN_ELSEWHERE and not name.startswith(SPLITS)}
    return {**known, "test_loss": row.get("test_loss"), "encoded": encoded}


def _missing(subject: Subject, diagnosis: Diagnosis, searches: Sequence[Fondue]) -> dict[str, str]:
    """Part -> why the page does not contain it."""
    reasons = {}
    if diagnosis.meaning is None:
        reasons["Factors"] = "the data have no factors, so the page cannot say what a latent encodes."
    if subject.history and latent_rates(subject.history) is None:
        reasons["Rate of each latent over training"] = no_latent_rates(subject.history)
    if subject.items is None:
        reasons["Pictures"] = "only codes were given, not the items they belong to."
    if subject.run is not None and not searches:
        source = subject.run.provenance.source
        # The name from the run: a path may contain bytes that HTML cannot represent.
        words = ["vaescope", "fondue", subject.run.configuration.data["name"], *flags_of(source)]
        command = "vs.fondue(data)" if source is None else shlex.join(words)
        reasons["FONDUE"] = f"this folder has no search on these data; `{command}` runs one."
    return reasons


def _latents(
    subject: Subject,
    rows: Sequence[LatentRow],
    decoded: Reconstructions | None,
    images: bool,
    name: str = "latent-rows",
) -> Markup:
    """The table of latents, with traversals if there is a decoder."""
    found, limits, notes = None, None, []
    if subject.codes.positions is not None:
        notes.append(CHANNELS_NOTE.format("" if decoded is None else CHANNELS_TRAVERSAL))
    if decoded is not None and subject.items is not None:
        found = traversals(subject.model, subject.items, subject.codes, latents=pictured_latents(rows))
        limits = decoded.limits if subject.items.is_image else None
        notes += filter(None, (decoded.range_words, drawn_note(decoded.items.shape[1:])))
    items, note = subject.items if images else None, " ".join(notes)
    return latent_table(rows, traversals=found, items=items, name=name, limits=limits, note=note)
