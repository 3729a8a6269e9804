"""Writing a subject data set into a folder, as a KnowCusBench-style manifest with its pictures and masks."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from beholder.scenes.render import masks, render
from beholder.scenes.subject_set import SubjectConcept, SubjectItem, SubjectSet
from beholder.scenes.vocabulary import thing
from beholder.scenes.writer import mask_png, picture_png, write_file

Progress = Callable[[int], None]


def write_subject_set(
    drawn: SubjectSet, folder: str | os.PathLike[str], *, size: int = 192, progress: Progress | None = None
) -> Path:
    """Write a subject data set.

    Layout below the folder: ``references/CONCEPT/N.png``, ``generated/METHOD/TASK/CONCEPT/PROMPT_kK_sS.png``, masks of
    both below ``reference_masks`` and ``masks``, and ``manifest.json`` with concepts and items.

    Args:
        drawn: what `subject_set` gave.
        folder: where to write; files of the same names are replaced, the manifest last.
        size: side of the pictures in pixels.
        progress: called with the number of outputs done, after each.

    Returns:
        The path of the manifest.
    """
    root = Path(folder)
    concepts = [_write_concept(root, concept, size) for concept in drawn.concepts]
    items = []
    for done, item in enumerate(drawn.items, start=1):
        items.append(_write_item(root, item, size))
        if progress is not None:
            progress(done)
    content = {"version": 1, "name": "KnowCusBench-shaped scenes", "concepts": concepts, "items": items}
    write_file(root / "manifest.json", json.dumps(content, ensure_ascii=False, indent=1).encode())
    return root / "manifest.json"


def _write_concept(root: Path, concept: SubjectConcept, size: int) -> dict[str, Any]:
    folder = concept.name.replace(" ", "_")
    paths = [f"references/{folder}/{at}.png" for at in range(len(concept.references))]
    hidden = [f"reference_masks/{folder}/{at}.png" for at in range(len(concept.references))]
    for scene, path, mask in zip(concept.references, paths, hidden):
        write_file(root / path, picture_png(render(scene, size)))
        write_file(root / mask, mask_png(np.asarray(masks(scene, size)[-1], dtype=np.bool_)))
    return {
        "concept_id": concept.name,
        "class_name": thing(concept.name).name,
        "references": paths,
        "reference_masks": hidden,
        "knowledge": [{"id": key, "text": text} for key, text in concept.knowledge.items()],
    }


def _write_item(root: Path, item: SubjectItem, size: int) -> dict[str, Any]:
    name = f"{item.prompt_id}_{item.knowledge_id}_s{item.seed}"
    tail = f"{item.method}/{item.task}/{item.concept.replace(' ', '_')}/{name}.png"
    write_file(root / "generated" / tail, picture_png(item.image(size)))
    write_file(root / "masks" / tail, mask_png(item.mask(size)))
    row = {
        "id": tail.removesuffix(".png"),
        "image": f"generated/{tail}",
        "mask": f"masks/{tail}",
        "concept_id": item.concept,
        "task": item.task,
        "method": item.method,
        "knowledge_id": item.knowledge_id,
        "prompt_id": f"{item.prompt_id}_{item.knowledge_id}",
        "prompt": item.prompt,
        "eval_prompt": item.eval_prompt,
        "seed": item.seed,
        "right": item.right,
    }
    return {key: value for key, value in row.items() if value is not None}
