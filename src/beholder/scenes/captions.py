"""What can truly be said of a scene: claims, their truth, their words, and their near misses."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from beholder._errors import OptionError, UnknownNameError
from beholder.scenes.scene import APART, Scene, SceneObject
from beholder.scenes.vocabulary import COLORS, TEXTURES, object_names, thing

TEMPLATES: dict[str, str] = {
    "bare": "{}",
    "photo": "a photo of {}",
    "this": "This is a photo of {}.",
    "depicts": "A photo depicts {}.",
    "picture": "a picture of {}",
    "image": "an image of {}",
    "shows": "The image shows {}.",
}
"""Caption templates by name; the braces take what the claim says."""

WITHOUT_TEMPLATES: dict[str, str] = {
    "bare": "a photo without {}",
    "photo": "a photo without {}",
    "this": "This is a photo without {}.",
    "depicts": "A photo depicts a scene without {}.",
    "picture": "a picture without {}",
    "image": "an image without {}",
    "shows": "The image shows a scene without {}.",
}
"""Templates for a claim that only says what is absent."""

COUNT_WORDS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine"}
PLACES: dict[str, str] = {
    "left": "on the left", "right": "on the right", "top": "at the top", "bottom": "at the bottom",
    "middle": "in the middle",
    "top left": "in the top left corner", "top right": "in the top right corner",
    "bottom left": "in the bottom left corner", "bottom right": "in the bottom right corner",
}  # fmt: skip
"""Places by name, in the words of captions."""
RELATIONS: dict[str, str] = {
    "left of": "to the left of",
    "right of": "to the right of",
    "above": "above",
    "below": "below",
}
OPPOSITE = {
    "left": "right", "right": "left", "top": "bottom", "bottom": "top", "left of": "right of", "right of": "left of",
    "above": "below", "below": "above", "small": "large", "large": "small",
    "top left": "bottom right", "bottom right": "top left", "top right": "bottom left", "bottom left": "top right",
}  # fmt: skip


@dataclass(frozen=True)
class Mention:
    """One object phrase of a claim.

    Args:
        name: a thing's name.
        count: 1 says "at least one"; 2 to 9 says "exactly so many".
        size: "small", "large" or None.
        place: a name of PLACES or None.
        article: whether the words carry "a" or "an" (only for count 1).
    """

    name: str
    count: int = 1
    size: str | None = None
    place: str | None = None
    article: bool = True

    def words(self) -> str:
        """The phrase: "a small cat on the left", "two cats"."""
        entry = thing(self.name)
        if self.count > 1:
            phrase = f"{COUNT_WORDS[self.count]} {self.size + ' ' if self.size else ''}{entry.plural}"
        elif self.size:
            phrase = f"a {self.size} {entry.name}" if self.article else f"{self.size} {entry.name}"
        else:
            phrase = f"{entry.article} {entry.name}" if self.article else entry.name
        return f"{phrase} {PLACES[self.place]}" if self.place else phrase

    def matches(self, scene: Scene) -> list[SceneObject]:
        """The scene's objects that this phrase can mean; empty when it is false of the scene."""
        found = [o for o in scene.objects if o.name == self.name]
        if self.count > 1 and len(found) != self.count:
            return []
        if self.size:
            found = [o for o in found if o.size_word == self.size]
        if self.place:
            found = [o for o in found if self.place in places_of(o)]
        return [] if self.count > 1 and len(found) != self.count else found


@dataclass(frozen=True)
class Claim:
    """Something that a caption says of a scene.

    Args:
        mentions: object phrases, all of which must hold.
        relation: of the first mention to the second (a name of RELATIONS), or None.
        color: the background's colour name, or None.
        texture: the background's texture name, or None; needs a colour.
        absent: a name that must not be in the scene, or None.
        absent_article: whether the absent name is written with its article.
    """

    mentions: tuple[Mention, ...] = ()
    relation: str | None = None
    color: str | None = None
    texture: str | None = None
    absent: str | None = None
    absent_article: bool = True

    def holds(self, scene: Scene) -> bool:
        """Whether everything that the claim says is true of the scene."""
        if self.color is not None and self.color != scene.background.color:
            return False
        if self.texture is not None and self.texture != scene.background.texture:
            return False
        if self.absent is not None and scene.count(self.absent):
            return False
        found = [mention.matches(scene) for mention in self.mentions]
        if not all(found):
            return False
        if self.relation is None:
            return True
        return any(self.relation in relations_of(a, b) for a in found[0] for b in found[1] if a is not b)

    def text(self, template: str = "bare") -> str:
        """The claim in words.

        Args:
            template: a name of TEMPLATES.

        Raises:
            UnknownNameError: for another template.
            OptionError: when the claim says nothing.
        """
        if template not in TEMPLATES:
            raise UnknownNameError("caption template", template, TEMPLATES)
        absent = None
        if self.absent is not None:
            absent = f"{thing(self.absent).article} {self.absent}" if self.absent_article else self.absent
        back = None
        if self.color is not None:
            look = f"{self.texture} {self.color}" if self.texture else self.color
            back = f"{'an' if look[0] in 'aeiou' else 'a'} {look} background"
        if not self.mentions:
            if back is None and absent is None:
                raise OptionError("a claim must say something", got="no mention, colour or absent object")
            if back is None:
                return WITHOUT_TEMPLATES[template].format(absent)
            return TEMPLATES[template].format(f"{back} without {absent}" if absent else back)
        body = self._objects()
        if back is not None:
            body += f" on {back}"
        if absent is not None:
            body += f" without {absent}"
        return TEMPLATES[template].format(body)

    def _objects(self) -> str:
        phrases = [mention.words() for mention in self.mentions]
        if self.relation is not None:
            return f"{phrases[0]} {RELATIONS[self.relation]} {phrases[1]}"
        return phrases[0] if len(phrases) == 1 else f"{', '.join(phrases[:-1])} and {phrases[-1]}"


def places_of(item: SceneObject) -> tuple[str, ...]:
    """All names of PLACES that are true of an object."""
    column, row = item.column, item.row
    if column == row == "middle":
        return ("middle",)
    if "middle" in (column, row):
        return (row if column == "middle" else column,)
    return (column, row, f"{row} {column}")


def relations_of(a: SceneObject, b: SceneObject) -> tuple[str, ...]:
    """The relations of one object to another: along an axis where the centres differ by at least APART."""
    out = []
    if abs(a.x - b.x) >= APART:
        out.append("left of" if a.x < b.x else "right of")
    if abs(a.y - b.y) >= APART:
        out.append("above" if a.y < b.y else "below")
    return tuple(out)


def describe(scene: Scene, seed: int | np.random.Generator, *, detail: float = 0.5) -> Claim:
    """Draw something true to say of a scene.

    Args:
        scene: the scene.
        seed: a seed, or a numpy generator to draw from.
        detail: chance of each optional detail (size, place, relation, background, an absent object), in [0, 1].

    Returns:
        A claim that holds of the scene. All objects are mentioned, with their counts; a scene without objects gives
        its background.
    """
    rng = np.random.default_rng(seed) if isinstance(seed, int) else seed
    draw = rng.random(8)
    color = scene.background.color if draw[0] < detail or not scene.objects else None
    texture = scene.background.texture if color and draw[1] < 0.4 and scene.background.texture != "plain" else None
    absent = None
    if draw[2] < detail * 0.15:
        pool = object_names()
        while absent is None or absent in scene.names:
            absent = pool[int(rng.integers(len(pool)))]
    order = [scene.names[int(i)] for i in rng.permutation(len(scene.names))]
    lone = len(order) == 1 and scene.count(order[0]) == 1
    mentions = []
    for name in order:
        count = scene.count(name)
        extra = rng.random(2)
        size = place = None
        if count == 1:
            item = next(o for o in scene.objects if o.name == name)
            size = item.size_word if extra[0] < detail * 0.5 else None
            if extra[1] < detail * (1.0 if lone else 0.5):
                options = places_of(item)
                place = options[int(rng.integers(len(options)))]
        mentions.append(Mention(name, count, size, place, article=bool(draw[3] >= 0.1 or size or place or not lone)))
    relation = None
    if len(order) == 2 and draw[4] < detail * 1.3 and all(scene.count(n) == 1 for n in order):
        a, b = (next(o for o in scene.objects if o.name == n) for n in order)
        if held := relations_of(a, b):
            relation = held[int(rng.integers(len(held)))]
            mentions = [replace(m, place=None) for m in mentions]
    return Claim(tuple(mentions), relation, color, texture, absent, absent_article=bool(draw[5] >= 0.3))


def caption(scene: Scene, seed: int | np.random.Generator, *, template: str | None = None, detail: float = 0.5) -> str:
    """Draw a true caption of a scene: `describe` in the words of a template (a drawn one by default)."""
    rng = np.random.default_rng(seed) if isinstance(seed, int) else seed
    claim = describe(scene, rng, detail=detail)
    names = tuple(TEMPLATES)
    return claim.text(template if template is not None else names[int(rng.integers(len(names)))])


CONTRADICTIONS: tuple[str, ...] = ("object", "place", "color", "count", "size", "absent", "texture")
"""The kinds of near miss that `contradict` makes."""


def contradict(claim: Claim, scene: Scene, seed: int | np.random.Generator, *, kind: str | None = None) -> Claim | None:
    """A claim that differs from a true one in one thing and is false of the scene.

    Args:
        claim: a claim that holds of the scene.
        scene: the scene.
        seed: a seed, or a numpy generator to draw from.
        kind: one of CONTRADICTIONS: another object; a swapped or opposite place or relation; another background
            colour; another count; the opposite size; an absent object that is present; another texture.
            None draws among those that the claim allows.

    Returns:
        The false claim, or None when the claim has nothing of that kind to change.
    """
    rng = np.random.default_rng(seed) if isinstance(seed, int) else seed
    if kind is not None and kind not in CONTRADICTIONS:
        raise UnknownNameError("contradiction", kind, CONTRADICTIONS)
    kinds = [CONTRADICTIONS[int(i)] for i in rng.permutation(len(CONTRADICTIONS))] if kind is None else [kind]
    for chosen in kinds:
        changed = _CHANGES[chosen](claim, scene, rng)
        if changed is not None and not changed.holds(scene):
            return changed
    return None


def _set(claim: Claim, index: int, mention: Mention) -> Claim:
    return replace(claim, mentions=(*claim.mentions[:index], mention, *claim.mentions[index + 1 :]))


def _pick(rng: np.random.Generator, pool: list[int]) -> int | None:
    return pool[int(rng.integers(len(pool)))] if pool else None


def _other(rng: np.random.Generator, pool: tuple[str, ...], used: tuple[str | None, ...]) -> str:
    while True:
        name = pool[int(rng.integers(len(pool)))]
        if name not in used:
            return name


def _change_object(claim: Claim, scene: Scene, rng: np.random.Generator) -> Claim | None:
    index = _pick(rng, list(range(len(claim.mentions))))
    if index is None:
        return None
    name = _other(rng, object_names(), (*scene.names, claim.absent))
    return _set(claim, index, replace(claim.mentions[index], name=name))


def _change_place(claim: Claim, scene: Scene, rng: np.random.Generator) -> Claim | None:
    if claim.relation is not None:
        if rng.random() < 0.5:
            return replace(claim, relation=OPPOSITE[claim.relation])
        return replace(claim, mentions=claim.mentions[::-1])
    placed = [i for i, m in enumerate(claim.mentions) if m.place]
    if len(placed) == 2 and rng.random() < 0.5:
        a, b = (claim.mentions[i] for i in placed)
        return _set(_set(claim, placed[0], replace(a, place=b.place)), placed[1], replace(b, place=a.place))
    index = _pick(rng, placed)
    if index is None:
        return None
    place = claim.mentions[index].place
    return _set(
        claim,
        index,
        replace(
            claim.mentions[index],
            place=OPPOSITE.get(place or "") or _other(rng, ("left", "right", "top", "bottom"), ()),
        ),
    )


def _change_color(claim: Claim, scene: Scene, rng: np.random.Generator) -> Claim | None:
    return replace(claim, color=_other(rng, tuple(COLORS), (claim.color,))) if claim.color else None


def _change_texture(claim: Claim, scene: Scene, rng: np.random.Generator) -> Claim | None:
    return replace(claim, texture=_other(rng, TEXTURES, (claim.texture,))) if claim.texture else None


def _change_count(claim: Claim, scene: Scene, rng: np.random.Generator) -> Claim | None:
    index = _pick(rng, [i for i, m in enumerate(claim.mentions) if m.size is None and m.place is None])
    if index is None or claim.relation is not None:
        return None
    count = claim.mentions[index].count
    return _set(
        claim, index, replace(claim.mentions[index], count={1: 2, 2: 3, 3: 2}.get(count, count - 1), article=True)
    )


def _change_size(claim: Claim, scene: Scene, rng: np.random.Generator) -> Claim | None:
    index = _pick(rng, [i for i, m in enumerate(claim.mentions) if m.size])
    if index is None:
        return None
    mention = claim.mentions[index]
    return _set(claim, index, replace(mention, size=OPPOSITE[mention.size or "small"]))


def _change_absent(claim: Claim, scene: Scene, rng: np.random.Generator) -> Claim | None:
    if claim.absent is None or not scene.names:
        return None
    return replace(claim, absent=scene.names[int(rng.integers(len(scene.names)))])


_CHANGES = {
    "object": _change_object,
    "place": _change_place,
    "color": _change_color,
    "count": _change_count,
    "size": _change_size,
    "absent": _change_absent,
    "texture": _change_texture,
}
