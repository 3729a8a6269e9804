"""The independent witness: prompts of each family written out by hand, one stock forward pass for each, no cache."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

Inputs = dict[str, Any]


def _chat(visual: str, question: str, *, start: str = "<s>") -> str:
    return f"{start}<|im_start|>user\n{visual}{question}<|im_end|>\n<|im_start|>assistant\n"


def _llava(question: str, features: int, inputs: Inputs) -> str:
    return "<s>USER: " + "<image>" * features + "\n" + question + " ASSISTANT:"


def _internvl(question: str, features: int, inputs: Inputs) -> str:
    return _chat("<img>" + "<IMG_CONTEXT>" * features + "</img>\n", question)


def _idefics(question: str, features: int, inputs: Inputs) -> str:
    four = "<image>" * 4
    # A picture of 60 × 40 becomes 48 × 48 (whole tiles): two rows, two columns, and the picture as a whole.
    rows = "".join(
        "".join(f"<fake_token_around_image><row_{row}_col_{column}>{four}" for column in (1, 2)) + "\n"
        for row in (1, 2)
    )
    whole = f"\n<fake_token_around_image><global-img>{four}<fake_token_around_image>"
    return f"<s>USER: {rows}{whole}{question} ASSISTANT:"


def _gemma(question: str, features: int, inputs: Inputs) -> str:
    picture = "\n\n<start_of_image>" + "<image_soft_token>" * features + "<end_of_image>\n\n"
    return _chat(picture, question)


def _paligemma(question: str, features: int, inputs: Inputs) -> str:
    return "<image>" * features + f"<s>answer en {question}\n"


def _qwen(question: str, features: int, inputs: Inputs) -> str:
    return _chat("<|vision_start|>" + "<|image_pad|>" * features + "<|vision_end|>", question)


def _aya(question: str, features: int, inputs: Inputs) -> str:
    tiles = len(inputs["pixel_values"])
    marks = [*(f"TILE_{at}" for at in range(1, tiles)), "TILE_GLOBAL"]
    parts = "".join(mark + "<|IMG_PATCH|>" * (features // tiles) for mark in marks)
    return _chat(f"<|START_OF_IMG|>{parts}<|END_OF_IMG|>", question)


PROMPTS: dict[str, Callable[[str, int, Inputs], str]] = {
    "llava": _llava,
    "llava_next": _llava,
    "onevision": lambda question, features, inputs: _chat("<image>" * features, question),
    "internvl": _internvl,
    "idefics3": _idefics,
    "smolvlm": _idefics,
    "gemma3": _gemma,
    "paligemma": _paligemma,
    "qwen2_vl": _qwen,
    "qwen25_vl": _qwen,
    "qwen3_vl": _qwen,
    "qwen3_vl_moe": _qwen,
    "mllama": lambda question, features, inputs: _chat("<|image|>", question),
    "generic": _aya,
}
LEADS = {"llava": " ", "llava_next": " ", "idefics3": " ", "smolvlm": " "}
ENDS = {"llava": ["</s>"]}
_MARKS = ("<image>", "<IMG_CONTEXT>", "<image_soft_token>", "<|image_pad|>", "<|IMG_PATCH|>")


class Plain:
    """A stock model of transformers and a bare tokenizer, used the longest way round."""

    def __init__(self, family: str, folder: Path) -> None:
        import torch
        from tokenizers import Tokenizer
        from transformers import AutoImageProcessor, AutoModelForImageTextToText

        self.family = family
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.network = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
        self.pictures = AutoImageProcessor.from_pretrained(folder, backend="pil")

    def inputs(self, pixels: np.ndarray) -> Inputs:
        """Pixels as the published preprocessing gives them."""
        picture = Image.fromarray(pixels)
        if self.family == "llava":
            side = max(picture.size)
            square = Image.new("RGB", (side, side), tuple(int(255 * mean) for mean in self.pictures.image_mean))
            square.paste(picture, ((side - picture.width) // 2, (side - picture.height) // 2))
            picture = square
        more = {"crop_to_patches": True} if self.family in ("internvl", "generic") else {}
        found = dict(self.pictures([[picture]] if self.family == "mllama" else picture, return_tensors="pt", **more))
        for name in ("num_patches", "num_crops", "batch_num_images", "num_tiles", "rows", "cols"):
            found.pop(name, None)
        return found

    def count(self, inputs: Inputs) -> int:
        """How many features the model's own tower makes of a picture; each takes the place of one token."""
        import torch

        if self.family == "mllama":
            return 1
        with torch.no_grad():
            found = self.network.model.get_image_features(**inputs)
        found = getattr(found, "pooler_output", found)
        parts = found if isinstance(found, (list, tuple)) else [found]
        return sum(int(np.prod(part.shape[:-1])) for part in parts)

    def ids(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False).ids)

    def logits(self, ids: Sequence[int], inputs: Inputs, prompt: int) -> np.ndarray:
        """(length, vocabulary): one pass over the whole sequence, of which `prompt` tokens are the prompt."""
        import torch

        row = torch.tensor([list(ids)])
        marks = {self.tokenizer.token_to_id(mark) for mark in _MARKS} - {None}
        pixel = torch.tensor([[int(token in marks) for token in ids]])
        more: Inputs = {}
        if self.family.startswith("qwen"):
            more["mm_token_type_ids"] = pixel
        elif self.family == "gemma3":
            more["token_type_ids"] = pixel
        elif self.family == "paligemma":
            more["token_type_ids"] = torch.tensor([[0] * prompt + [1] * (len(ids) - prompt)])
        elif self.family == "mllama":
            at = list(ids).index(self.tokenizer.token_to_id("<|image|>"))
            tiles = int(inputs["aspect_ratio_mask"].sum())
            mask = torch.zeros(1, len(ids), 1, 4, dtype=torch.long)
            mask[:, at:, :, :tiles] = 1
            more["cross_attention_mask"] = mask
        with torch.no_grad():
            output = self.network(input_ids=row, attention_mask=torch.ones_like(row), **inputs, **more, use_cache=False)
        return np.asarray(output.logits[0].double())

    def score(self, pixels: np.ndarray, question: str, answer: str = "Yes") -> dict[str, float]:
        """The columns of one pair, by hand."""
        inputs = self.inputs(pixels)
        prompt = PROMPTS[self.family](question, self.count(inputs), inputs)
        before = self.ids(prompt)
        wanted = self.ids(prompt + LEADS.get(self.family, "") + answer)[len(before) :]
        wanted += [self.tokenizer.token_to_id(token) for token in ENDS.get(self.family, [])]
        logits = self.logits([*before, *wanted], inputs, len(before))[len(before) - 1 : -1]
        logs = logits - np.log(np.exp(logits - logits.max(1, keepdims=True)).sum(1, keepdims=True)) - logits.max(
            1, keepdims=True
        )  # fmt: skip
        told = [float(logs[at, token]) for at, token in enumerate(wanted)]
        yes, no = ([self.tokenizer.token_to_id(form) for form in forms] for forms in _FORMS)
        return {
            "first_token": told[0], "sequence": sum(told), "n_answer": len(told),
            "yes": float(np.log(np.exp(logs[0, yes]).sum())), "no": float(np.log(np.exp(logs[0, no]).sum())),
        }  # fmt: skip


_FORMS = (("Yes", "yes", "ĠYes", "Ġyes"), ("No", "no", "ĠNo", "Ġno"))
