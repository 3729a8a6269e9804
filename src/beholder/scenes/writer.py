"""Writing a demo data set into a folder: pictures, references, exact masks, and the manifest."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from beholder.scenes.demo_set import DemoItem
from beholder.scenes.render import BoolArray, masks

Progress = Callable[[int], None]


def write_demo_set(
    items: Iterable[DemoItem], folder: str | os.PathLike[str], *, size: int = 256, progress: Progress | None = None
) -> Path:
    """Write a demo data set.

    Layout below the folder: ``images/METHOD/PROMPT.png``, ``masks/METHOD/PROMPT/NAME.png``,
    ``references/PROMPT/N.png``, ``reference_masks/PROMPT/N.png`` and ``manifest.jsonl``, whose paths are relative to
    it. Masks are 0 or 255. A row whose picture lacks the concept has no mask of it. The same items give the same bytes
    with the same Pillow.

    Args:
        items: what `demo_set` gave.
        folder: where to write; made if need be. Files of the same names are replaced, each in one move; the manifest is
            written last.
        size: side of the pictures in pixels.
        progress: called with the number of items done, after each.

    Returns:
        The path of the manifest.
    """
    root = Path(folder)
    rows, seen = [], set()
    for done, item in enumerate(items, start=1):
        if item.prompt_id not in seen:
            seen.add(item.prompt_id)
            _write_references(root, item, size)
        rows.append(_write_item(root, item, size))
        if progress is not None:
            progress(done)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    write_file(root / "manifest.jsonl", text.encode())
    return root / "manifest.jsonl"


def _reference_paths(item: DemoItem, kind: str) -> list[str]:
    return [f"{kind}/{item.prompt_id}/{index}.png" for index in range(len(item.references))]


def _write_references(root: Path, item: DemoItem, size: int) -> None:
    pictures = item.reference_images(size)
    for scene, picture, path, mask in zip(
        item.references, pictures, _reference_paths(item, "references"), _reference_paths(item, "reference_masks")
    ):
        write_file(root / path, picture_png(picture))
        write_file(root / mask, mask_png(masks(scene, size)[0]))


def _write_item(root: Path, item: DemoItem, size: int) -> dict[str, Any]:
    """Write one output and its masks; its manifest row."""
    output = f"images/{item.method}/{item.prompt_id}.png"
    write_file(root / output, picture_png(item.image(size)))
    paths = {}
    for name in item.scene.names:
        mask = item.mask_of(name, size)
        if mask is not None:
            paths[name] = f"masks/{item.method}/{item.prompt_id}/{name.replace(' ', '_')}.png"
            write_file(root / paths[name], mask_png(mask))
    return {
        "id": item.id,
        "output": output,
        "prompt": item.prompt,
        "references": _reference_paths(item, "references"),
        "masks": paths or None,
        "reference_masks": _reference_paths(item, "reference_masks"),
        "concept": item.concept,
        "class_name": item.concept,
        "seg_prompt": item.concept,
        "task": item.task,
        "method": item.method,
        "group": item.category,
        "seed": item.seed,
        "prompt_id": item.prompt_id,
        "category": item.category,
        "faults": " ".join(item.faults) or "none",
        "scene": item.scene.to_json(),
    }


def picture_png(image: Image.Image) -> bytes:
    """A picture as the bytes of a PNG file."""
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()


def mask_png(mask: BoolArray) -> bytes:
    """A mask as the bytes of a PNG file with 0 and 255."""
    return picture_png(Image.fromarray(mask.astype(np.uint8) * 255))


def write_file(path: Path, data: bytes) -> None:
    """Write a file in one move; folders are made if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_bytes(data)
    os.replace(part, path)
