"""clip_score of JPEGs, beside what else a user would pick, with one CLIP of ViT-B/32's size and random weights.

Every side begins with the paths and prompts and ends with the mean of the cosines; models are loaded before. Ours is
`beholder.evaluate` with an empty store: it also hashes every file, keeps features, and writes a run folder with values,
intervals and statuses. Each side takes turns with ours; a row is the turn whose ratio is the middle one. The means
must agree. A side that cannot run here stands in the table with its reason.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import beholder
from benchmarks.ideal_loop import prepared
from benchmarks.models import NAME, register_b32
from benchmarks.open_clip_weights import open_clip_state
from benchmarks.pictures import write_pictures
from benchmarks.table import Row, at_least, in_turns, not_runnable

COUNT, SIZE, BATCH, TURNS = 64, 512, 32, 3
_AGREE = 2e-3

Sides = tuple[Sequence[str], Sequence[str]]


def measure(folder: Path) -> list[Row]:
    register_b32(folder / "model")
    files = [str(path) for path in write_pictures(folder / "out", COUNT, SIZE)]
    texts = [f"a photo of scene number {at}" for at in range(COUNT)]
    manifest = folder / "rows.jsonl"
    manifest.write_text("".join(json.dumps({"output": f, "prompt": t}) + "\n" for f, t in zip(files, texts)))
    beholder.score("clip_score", images=files[0], texts=texts[0], model=NAME)
    found: list[float] = []

    def ours() -> None:
        at = len(found)
        run = beholder.evaluate(
            str(manifest),
            metrics="clip_score(variant=raw)",
            model=NAME,
            out=str(folder / f"run{at}"),
            store=str(folder / f"store{at}"),
        )
        found.append(float(np.mean(run.scores.column("clip_score").to_pylist())))

    ours()
    model, tokenizer = _transformers(folder / "model")
    rows = [_bare_row(ours, model, tokenizer, files, texts)]
    sides: dict[str, Callable[[], Callable[[Sequence[str], Sequence[str]], float]]] = {
        f"torchmetrics CLIPScore, batches of {BATCH}": lambda: _torchmetrics(model, folder / "model"),
        f"open_clip by hand, batches of {BATCH}": lambda: _open_clip(model, tokenizer),
        "a loop of pairs in the manner of t2v_metrics": lambda: _pairs(model, tokenizer),
        "one picture after another, in the manner of pyiqa's command line": lambda: _one_by_one(model, tokenizer),
        "t2v_metrics itself": lambda: _package("t2v_metrics", "get_score_model"),
        "pyiqa's clipscore itself": lambda: _package("pyiqa", "create_metric"),
    }
    return rows + [_side_row(name, make, ours, found[0], (files, texts)) for name, make in sides.items()]


def _side_row(name: str, make: Any, ours: Callable[[], None], mean: float, sides: Sides) -> Row:
    what = f"{COUNT} JPEGs of {SIZE} px, clip_score: times as fast as {name}"
    try:
        sys.stderr.write(f"{name}\n")
        score = make()
        got: list[float] = []
        score(sides[0][:2], sides[1][:2])
        took = in_turns({"ours": ours, "other": lambda: got.append(score(*sides))}, times=TURNS)
    except _NotRunnable as error:
        return not_runnable(what, str(error))
    if abs(got[0] - mean) > _AGREE:
        raise RuntimeError(f"{name} gives a mean of {got[0]:.6f}, beholder {mean:.6f}: they do not measure the same")
    return at_least(what, took["ours"], took["other"], 1)


class _NotRunnable(Exception):
    """A side that cannot run here, and why."""


def _need(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise _NotRunnable(f"the package {name} is not installed ({error})") from None


def _package(name: str, maker: str) -> Any:
    """Metrics of packages that fetch their weights from a hub."""
    package = _need(name)
    try:
        getattr(package, maker)("clipscore" if name == "pyiqa" else "openai:ViT-B-32")
    except Exception as error:  # each package raises its own kinds
        raise _NotRunnable(f"its weights are out of reach ({type(error).__name__})") from None
    raise _NotRunnable("it takes no other weights than its own, so it would not measure the same model")


def _transformers(folder: Path) -> tuple[Any, Any]:
    from transformers import AutoTokenizer, CLIPModel

    return CLIPModel.from_pretrained(folder).eval(), AutoTokenizer.from_pretrained(folder)


def _bare_row(ours: Callable[[], None], model: Any, tokenizer: Any, files: Sequence[str], texts: Sequence[str]) -> Row:
    """The limit: forward passes over pictures and texts that were prepared before."""
    import torch

    pixels = torch.from_numpy(np.stack([prepared(name) for name in files]))
    tokens = _tokens(tokenizer, texts)

    def bare() -> None:
        with torch.inference_mode():
            for start in range(0, len(files), BATCH):
                model.get_image_features(pixel_values=pixels[start : start + BATCH])
                model.get_text_features(input_ids=tokens[start : start + BATCH])

    bare()
    what = f"{COUNT} JPEGs of {SIZE} px, clip_score: share of the bare encoder's throughput (decoding outside)"
    took = in_turns({"ours": ours, "bare": bare}, times=TURNS)
    return at_least(what, took["ours"], took["bare"], 0.9)


def _torchmetrics(model: Any, folder: Path) -> Callable[[Sequence[str], Sequence[str]], float]:
    import torch

    multimodal = _need("torchmetrics.multimodal.clip_score")
    from transformers import CLIPImageProcessor, CLIPProcessor, CLIPTokenizerFast

    class Tensors(torch.nn.Module):
        """The model as torchmetrics expects it: transformers 5 gives objects where it expects tensors."""

        def __init__(self) -> None:
            super().__init__()
            self.inner, self.config = model, model.config

        def get_image_features(self, pixels: Any) -> Any:
            return self.inner.get_image_features(pixel_values=pixels).pooler_output

        def get_text_features(self, ids: Any, mask: Any) -> Any:
            return self.inner.get_text_features(input_ids=ids, attention_mask=mask).pooler_output

    processor = CLIPProcessor(
        image_processor=CLIPImageProcessor.from_pretrained(folder), tokenizer=CLIPTokenizerFast.from_pretrained(folder)
    )

    def score(files: Sequence[str], texts: Sequence[str]) -> float:
        metric = multimodal.CLIPScore(model_name_or_path=lambda: (Tensors(), processor))
        with torch.inference_mode():
            for start in range(0, len(files), BATCH):
                images = [_tensor(name) for name in files[start : start + BATCH]]
                metric.update(images, list(texts[start : start + BATCH]))
        metric.compute()  # clamps the mean at 0, where random weights lie below; the sums tell it unclamped
        return float(metric.score / metric.n_samples) / 100

    return score


def _open_clip(model: Any, tokenizer: Any) -> Callable[[Sequence[str], Sequence[str]], float]:
    import torch

    open_clip = _need("open_clip")
    ours = open_clip.create_model("ViT-B-32-quickgelu").eval()
    ours.load_state_dict(open_clip_state(model), strict=True)
    transform = open_clip.image_transform(224, is_train=False)

    def score(files: Sequence[str], texts: Sequence[str]) -> float:
        cosines = []
        with torch.inference_mode():
            for start in range(0, len(files), BATCH):
                images = torch.stack([transform(Image.open(name)) for name in files[start : start + BATCH]])
                one = ours.encode_image(images, normalize=True)
                other = ours.encode_text(_tokens(tokenizer, texts[start : start + BATCH]), normalize=True)
                cosines.append((one * other).sum(-1))
        return float(torch.cat(cosines).mean())

    return score


def _pairs(model: Any, tokenizer: Any) -> Callable[[Sequence[str], Sequence[str]], float]:
    """Reads, prepares and encodes both sides of each pair by itself."""
    import torch

    def score(files: Sequence[str], texts: Sequence[str]) -> float:
        cosines = []
        with torch.inference_mode():
            for name, text in zip(files, texts):
                out = model(input_ids=_tokens(tokenizer, [text]), pixel_values=torch.from_numpy(prepared(name)[None]))
                cosines.append(float((out.image_embeds * out.text_embeds).sum()))
        return float(np.mean(cosines))

    return score


def _one_by_one(model: Any, tokenizer: Any) -> Callable[[Sequence[str], Sequence[str]], float]:
    """Texts at once, then one picture after another, as a command does that takes a folder."""
    import torch

    def score(files: Sequence[str], texts: Sequence[str]) -> float:
        with torch.inference_mode():
            words = model.get_text_features(input_ids=_tokens(tokenizer, texts)).pooler_output
            words = torch.nn.functional.normalize(words)
            cosines = []
            for name, word in zip(files, words):
                one = model.get_image_features(pixel_values=torch.from_numpy(prepared(name)[None])).pooler_output
                cosines.append(float(torch.nn.functional.normalize(one)[0] @ word))
        return float(np.mean(cosines))

    return score


def _tokens(tokenizer: Any, texts: Sequence[str]) -> Any:
    return tokenizer(list(texts), padding="max_length", truncation=True, max_length=77, return_tensors="pt")[
        "input_ids"
    ]


def _tensor(name: str) -> Any:
    import torch

    return torch.from_numpy(np.asarray(Image.open(name).convert("RGB")).copy()).permute(2, 0, 1)
