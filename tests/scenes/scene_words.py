"""A reader of captions that shares no code with the writer: it parses a sentence and checks it against the geometry."""

from __future__ import annotations

import re

from beholder.scenes import Scene, SceneObject, things

NUMBERS = {"two": 2, "three": 3}
_WRAPS = (
    r"^a photo of (.*)$",
    r"^This is a photo of (.*)\.$",
    r"^A photo depicts (.*)\.$",
    r"^a picture of (.*)$",
    r"^an image of (.*)$",
    r"^The image shows (.*)\.$",
    r"^(a photo without .*)$",
    r"^(.*)$",
)


def unwrap(text: str) -> str:
    """The sentence without its template."""
    for wrap in _WRAPS:
        if found := re.match(wrap, text):
            return found.group(1)
    raise AssertionError(text)


def true_of(text: str, scene: Scene) -> bool:
    """Whether a caption is true of a scene."""
    body = unwrap(text)
    if found := re.search(r"^(?:a photo |a picture |an image |a scene |This is a photo )?without (.*?)\.?$", body):
        return _absent(found.group(1), scene)
    if found := re.match(r"^(.*) without (.*)$", body):
        if not _absent(found.group(2), scene):
            return False
        body = found.group(1)
    if found := re.match(r"^(?:(.*) on )?an? (?:(\w+) )?(\w+) background$", body):
        objects, texture, color = found.groups()
        if color != scene.background.color or (texture and texture != scene.background.texture):
            return False
        if objects is None:
            return True
        body = objects
    for words, check in _RELATIONS.items():
        if words in body:
            left, right = body.split(words)
            return any(check(a, b) for a in _meant(left, scene) for b in _meant(right, scene) if a is not b)
    return all(_meant(part, scene) for part in re.split(r", | and ", body))


_RELATIONS = {
    " to the left of ": lambda a, b: b.x - a.x >= 0.22,
    " to the right of ": lambda a, b: a.x - b.x >= 0.22,
    " above ": lambda a, b: b.y - a.y >= 0.22,
    " below ": lambda a, b: a.y - b.y >= 0.22,
}


def _absent(words: str, scene: Scene) -> bool:
    name = re.sub(r"^an? ", "", words)
    assert name in things(), name
    return all(item.name != name for item in scene.objects)


def _meant(phrase: str, scene: Scene) -> list[SceneObject]:
    """The objects that a phrase can mean."""
    place = None
    if found := re.match(
        r"^(.*?) (?:(?:on|at|in) the) (top left|top right|bottom left|bottom right|\w+)(?: corner)?$", phrase
    ):
        phrase, place = found.groups()
    words = phrase.split(" ")
    count, size = 1, None
    if words[0] in NUMBERS:
        count, words = NUMBERS[words[0]], words[1:]
    elif words[0] in ("a", "an"):
        words = words[1:]
    if words[0] in ("small", "large"):
        size, words = words[0], words[1:]
    name = " ".join(words)
    known = {(t.plural if count > 1 else t.name): t.name for t in things().values()}
    assert name in known, (phrase, name)
    found_items = [o for o in scene.objects if o.name == known[name]]
    if count > 1 and len(found_items) != count:
        return []
    return [o for o in found_items if _sized(o, size) and _placed(o, place)]


def _sized(item: SceneObject, size: str | None) -> bool:
    return size is None or (item.size <= 0.31 if size == "small" else item.size >= 0.45)


def _placed(item: SceneObject, place: str | None) -> bool:
    if place is None:
        return True
    column = "left" if item.x < 0.4 else "right" if item.x > 0.6 else ""
    row = "top" if item.y < 0.4 else "bottom" if item.y > 0.6 else ""
    if place == "middle":
        return not column and not row
    return all(word in (column, row) for word in place.split())
