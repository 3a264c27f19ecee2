"""What compared models make of the same items: reconstructions in one row per model, and latents that correspond."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vaescope.diagnosis.compare import Comparison
from vaescope.diagnosis.reconstruction import NotReconstructed, Reconstruction, reconstruction_of
from vaescope.diagnosis.subject import Subject
from vaescope.encoding import Traversal, traversals
from vaescope.markup import Markup, element, join
from vaescope.reporting.model_style import model_style
from vaescope.reporting.pictures import drawn_note, picture, strip
from vaescope.reporting.reconstructions import NotShown, Reconstructions, reconstructions_of
from vaescope.similarity import LatentPair
from vaescope.similarity.matching import MIN_MATCH

SHOWN_ITEMS = 10
MAX_TRAVERSED_MODELS = 4  # with a strip for each latent; the page stays small
MAX_ROWS = 16  # latents of the first model


@dataclass(frozen=True)
class Decoded:
    """What a model makes of the items of the comparison.

    Attributes:
        shown: The items whose reconstructions are shown.
        measured: The errors of more items; None if they cannot be measured.
    """

    shown: Reconstructions
    measured: Reconstruction | None

    @property
    def error(self) -> float | None:
        """The mean squared error per number."""
        return None if self.measured is None else self.measured.error


DecodedModels = Mapping[int, Decoded]
Pairs = Mapping[int, Mapping[int, LatentPair]]  # by the place of the other model and the latent of the first one


def decode_all(loaded: Sequence[Subject], images: bool = True) -> tuple[DecodedModels, dict[str, str]]:
    """The reconstructions of the items of the first model by the place of each model, and why others have none.

    Without `images`, no model has any.
    """
    if not images:
        return {}, {"Reconstructions": "left out with images=False, as all pictures."}
    found: dict[int, Decoded] = {}
    reasons: dict[str, str] = {}
    first = next((one.items for one in loaded if one.items is not None), None)
    for place, one in enumerate(loaded):
        if one.items is not None and one.items is not first:
            reasons[f"Reconstructions of {one.name}"] = "it encodes other items than the first model."
            continue
        try:
            found[place] = Decoded(reconstructions_of(one, count=SHOWN_ITEMS), _measured(one))
        except NotShown as reason:
            reasons[f"Reconstructions of {one.name}"] = str(reason)
    return found, reasons


def side_by_side(loaded: Sequence[Subject], decoded: DecodedModels) -> Markup:
    """The items in the first row, and their reconstructions by each model in the next ones."""
    first = next(iter(decoded.values())).shown
    shape = tuple(first.items.shape[1:])
    originals = [
        picture(one, shape, f"item {place}", limits=first.pixel_range if len(shape) == 3 else first.limits)
        for place, one in zip(first.places.tolist(), first.originals.reshape(first.items.shape), strict=True)
    ]
    rows = [_line(element("span", "original", class_="model"), "", originals)]
    for number, one_model in decoded.items():
        found = one_model.shown
        name = loaded[number].name
        pictures = [
            picture(one, shape, f"item {place} reconstructed by {name}", limits=found.limits)
            for place, one in zip(found.places.tolist(), found.items, strict=True)
        ]
        rows.append(_line(model_style(number).label(name), _error_words(one_model), pictures))
    measured = max((len(one.measured.errors) for one in decoded.values() if one.measured is not None), default=0)
    words = f"The same {len(first.items)} items, each reconstructed from its mean code."
    if measured:
        words += f" Errors are averages over {measured} items."
    notes = {found.shown.range_words for found in decoded.values()} | {drawn_note(shape)}
    return join(
        element("p", " ".join([words, *sorted(filter(None, notes))]), class_="quiet"),
        _scroll(element("div", *rows, class_="side"), "Reconstructions of the same items"),
    )


def matched_latents(found: Comparison, loaded: Sequence[Subject], decoded: DecodedModels) -> Markup | None:
    """The latents of the first model, and the latent of each other model that corresponds; None without matchings."""
    others = [place for place in range(1, len(found.names)) if (0, place) in found.matchings]
    if not others or not any(found.matchings[0, place].pairs for place in others):
        return None
    pairs = {place: {pair.one: pair for pair in found.matchings[0, place].pairs} for place in others}
    latents = sorted(
        {latent for of_model in pairs.values() for latent in of_model},
        key=lambda latent: -max(abs(of[latent].correlation) for of in pairs.values() if latent in of),
    )
    shown = latents[:MAX_ROWS]
    strips = _strips(loaded, decoded, shown, pairs) if len(others) < MAX_TRAVERSED_MODELS else {}
    head = [model_style(place).label(found.names[place]) for place in (0, *others)]
    body = [
        element(
            "tr",
            element("th", f"latent {latent}", strips.get((0, latent)), scope="row"),
            *[_cell(pairs[place].get(latent), strips.get((place, latent))) for place in others],
        )
        for latent in shown
    ]
    table = element(
        "table",
        element("thead", element("tr", *[element("th", name, scope="col") for name in head])),
        element("tbody", *body),
        class_="matches",
    )
    words = element("p", _caption(found, len(latents), bool(strips)), class_="quiet")
    return join(words, _scroll(table, "Matched latents"))


def _caption(found: Comparison, latents: int, pictured: bool) -> str:
    words = [
        f"Each latent in use of {found.names[0]}, and its counterpart in the other model under the best one-to-one "
        f"matching by the correlation of their means (grey: below {MIN_MATCH:g}, so not the same latent).",
        "Strips: the first item decoded while the latent moves over its range; those of negative correlations are "
        "reversed."
        if pictured
        else "",
        f"The {MAX_ROWS} best matched of {latents} latents are shown." if latents > MAX_ROWS else "",
    ]
    return " ".join(filter(None, words))


def _cell(pair: LatentPair | None, drawn: Markup | None) -> Markup:
    if pair is None:
        return element("td", "no counterpart", class_="weak")
    width = f"width:{abs(pair.correlation):.0%}"
    bar = element("span", element("span", style=width), class_="strength", aria_hidden="true")
    number = f"{pair.correlation:.2f}".replace("-", "−")
    return element("td", f"latent {pair.other} ", bar, number, drawn, class_=None if pair.matches else "weak")


def _strips(
    loaded: Sequence[Subject],
    decoded: DecodedModels,
    latents: Sequence[int],
    pairs: Mapping[int, Mapping[int, LatentPair]],
) -> dict[tuple[int, int], Markup]:
    """(Model, latent of the first model) -> the traversal of the latent or of its counterpart."""
    found: dict[tuple[int, int], Markup] = {}
    for place in (0, *pairs):
        one = loaded[place]
        if place not in decoded or one.items is None or not one.items.is_image:
            continue
        own = {latent: LatentPair(latent, latent, 1.0) for latent in latents} if place == 0 else pairs[place]
        chosen = [own[latent] for latent in latents if latent in own]
        if not chosen:
            continue
        moved = traversals(one.model, one.items, one.codes, latents=[pair.other for pair in chosen]).usual
        for pair, traversal in zip(chosen, moved, strict=True):
            found[place, pair.one] = _strip(traversal, pair, one.name, decoded[place].shown.limits)
    return found


def _strip(traversal: Traversal, pair: LatentPair, name: str, limits: tuple[float, float]) -> Markup:
    reverse = pair.correlation < 0
    items = traversal.items.flip(0) if reverse else traversal.items
    order = "from high to low" if reverse else "from low to high"
    alt = f"{len(items)} items decoded by {name} with latent {traversal.latent} {order}"
    return strip(items, items.shape[1:], alt, limits=limits)


def _measured(subject: Subject) -> Reconstruction | None:
    """The errors of many items; None if the items do not allow it, as when all are equal."""
    try:
        return reconstruction_of(subject)
    except NotReconstructed:
        return None


def _error_words(one: Decoded) -> str:
    if one.measured is None:
        return ""
    return f"mean squared error {one.measured.error:.3g} per {one.measured.unit}"


def _line(label: Markup, note: str, pictures: Sequence[Markup]) -> Markup:
    head = element("div", label, element("small", note) if note else None)
    return element("div", head, element("div", *pictures, class_="items"), class_="line")


def _scroll(content: Markup, label: str) -> Markup:
    """A focusable region, so that wide content scrolls by keyboard too."""
    return element("div", content, class_="scroll", tabindex=0, role="region", aria_label=label)
