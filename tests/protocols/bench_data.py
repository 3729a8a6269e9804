"""Small data sets in the published forms of benchmarks, drawn here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

MODELS = ("DALLE_3", "SDXL_Base")
PROMPTS = {
    "00001": "two cats on a mat",
    "00002": "a red ball",
    "00003": "a dog left of a tree",
    "00004": "a room without chairs",
}
SKILLS = {
    "attribute": [2], "spatial relation": [3], "basic": [2, 3], "counting": [1], "negation": [4], "advanced": [1, 4],
}  # fmt: skip
RATINGS = {
    "DALLE_3": {"00001": [5, 4, 5], "00002": [5, 5, 5], "00003": [3, 4, 2], "00004": [2, 1, 2]},
    "SDXL_Base": {"00001": [2, 1, 1], "00002": [4, 4, 5], "00003": [1, 2, 2], "00004": [1, 1, 1]},
}


def picture(path: Path, seed: int, size: tuple[int, int] = (16, 16)) -> Path:
    """A file of random pixels."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return path


def genai_folder(folder: Path, *, own: bool = False) -> Path:
    """GenAI-Bench's folder: two rated models, four prompts; with `own` also a model without ratings."""
    folder.mkdir(parents=True, exist_ok=True)
    rated = {
        key: {"id": key, "prompt": text, "models": {model: RATINGS[model][key] for model in MODELS}}
        for key, text in PROMPTS.items()
    }
    (folder / "genai_image.json").write_text(json.dumps(rated))
    (folder / "genai_skills.json").write_text(json.dumps(SKILLS))
    for at, model in enumerate(MODELS):
        for number, key in enumerate(PROMPTS):
            picture(folder / model / f"{key}.jpeg", 10 * at + number)
    if own:
        for number, key in enumerate(list(PROMPTS)[:3]):
            picture(folder / "mine" / f"{key}.PNG", 100 + number)
    return folder


def rows_of(path: Path) -> list[dict[str, Any]]:
    """A JSON Lines file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


DSG_CSV = """item_id,text,keywords,proposition_id,dependency,category_broad,category_detailed,tuple,\
question_natural_language
countbench_1,two red hats,hats,1,0,entity,whole,entity - whole (hats),Are there hats?
countbench_1,two red hats,"hats, red",2,1,attribute,color,"attribute - color (hats, red)",Are the hats red?
countbench_1,two red hats,"hats, ==2",3,"1,2",other,count,"other - count (hats, ==2)",Are there two hats?
vrd_5,a photo of a cat,photo,1,0,global,-,global - - (photo),Is this a photo?
vrd_5,a photo of a cat,cat,2,0,entity,whole,entity - whole (cat),Is there a cat?
"""

TIFA_QUESTIONS = [
    {
        "id": "coco_1", "caption": "three cats", "question": "are there cats?", "choices": ["yes", "no"],
        "answer": "yes", "element_type": "animal/human",
    },
    {
        "id": "coco_1", "caption": "three cats", "question": "how many cats are there?", "choices": ["2", "3", "4"],
        "answer": "3", "element_type": "counting",
    },
    {
        "id": "drawbench_2", "caption": "a red car", "question": "is the car red?", "answer": "yes",
        "answer_type": "color",
    },
]  # fmt: skip
