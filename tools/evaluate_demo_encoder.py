"""Recompute the held-out figures of the demo encoder from its folder, through transformers alone.

    python tools/evaluate_demo_encoder.py                                  # the shipped folder; prints JSON
    python tools/evaluate_demo_encoder.py --glyphs DIR                     # also a second glyph style, one PNG an emoji
    python tools/evaluate_demo_encoder.py --glyphs DIR --write-card STAGES # and write card.json there

Scenes are drawn from seeds that training never uses, at 256 pixels, and go through the folder's own image processor.
The second glyph style of the card is Twemoji, 64 pixels, as in the npm package emoji-datasource-twitter 16.0.0
(`npm pack` it, DIR is package/img/twitter/64).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from beholder import scenes as S
from beholder.scenes import vocabulary
from beholder.scenes.captions import places_of, relations_of
from beholder.scenes.scene import LEFT, RIGHT

FOLDER = Path(__file__).parents[1] / "src" / "beholder" / "assets" / "demo_emoji"
SEED = 770_000
MARGIN = 0.02  # 1.3 of the encoder's 64 pixels
ONE = S.SceneOptions(counts=(1,), count_weights=())


class Encoder:
    """The folder's model, tokenizer and image processor."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoTokenizer, CLIPImageProcessorPil, CLIPModel

        self.model, info = CLIPModel.from_pretrained(folder, output_loading_info=True, dtype=torch.float32)
        wrong = {k: v for k, v in info.items() if v}
        if wrong:
            raise SystemExit(f"the weights must load completely, but: {wrong}")
        self.model.eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.processor = CLIPImageProcessorPil.from_pretrained(folder)
        self._texts: dict[str, np.ndarray] = {}

    def _pixels(self, images: Sequence[Image.Image]) -> torch.Tensor:
        return self.processor(list(images), return_tensors="pt")["pixel_values"]

    @torch.inference_mode()
    def images(self, images: Sequence[Image.Image]) -> np.ndarray:
        """(n, d) unit image embeddings."""
        out = [self.model.get_image_features(pixel_values=self._pixels(part)).pooler_output for part in chunks(images)]
        return _unit(torch.cat(out)).numpy()

    @torch.inference_mode()
    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """(n, d) unit text embeddings; each distinct text is encoded once."""
        fresh = sorted(set(texts) - set(self._texts), key=len)
        for part in chunks(fresh):
            ids = self.tokenizer(part, padding=True, truncation=True, return_tensors="pt")
            for text, row in zip(part, _unit(self.model.get_text_features(**ids).pooler_output).numpy()):
                self._texts[text] = row
        return np.stack([self._texts[text] for text in texts])

    @torch.inference_mode()
    def patches(self, images: Sequence[Image.Image]) -> np.ndarray:
        """(n, patches, d) unit patch embeddings, the last block's attention being the identity for patches."""
        out = []
        for part in chunks(images):
            hidden = self.model.vision_model(self._pixels(part), output_hidden_states=True).hidden_states[-2]
            count = hidden.shape[1]
            mask = torch.full((count, count), -torch.inf)
            mask.fill_diagonal_(0)
            mask[0] = 0
            done = self.model.vision_model.encoder.layers[-1](hidden, mask[None, None])
            done = done[0] if isinstance(done, tuple) else done
            out.append(_unit(self.model.visual_projection(self.model.vision_model.post_layernorm(done)))[:, 1:])
        return torch.cat(out).numpy()

    @property
    def scale(self) -> float:
        """The temperature's inverse."""
        return float(self.model.logit_scale.exp())


def _unit(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.normalize(x.float(), dim=-1)


def chunks(items: Sequence[Any], size: int = 100) -> Iterator[list[Any]]:
    """Consecutive parts of a sequence."""
    for start in range(0, len(items), size):
        yield list(items[start : start + size])


def phrase(name: str) -> str:
    """The name with its article."""
    return f"{S.thing(name).article} {name}"


def colored(color: str) -> str:
    """The background's phrase."""
    return f"{'an' if color[0] in 'aeiou' else 'a'} {color} background"


def draw(
    part: int, count: int, options: S.SceneOptions | None = None, keep: Callable[[S.Scene], bool] | None = None
) -> list[S.Scene]:
    """Held-out scenes of one part of the evaluation."""
    rng = np.random.default_rng([SEED, part])
    out: list[S.Scene] = []
    while len(out) < count:
        scene = S.sample_scene(rng, options or S.SceneOptions())
        if keep is None or keep(scene):
            out.append(scene)
    return out


def choice(
    enc: Encoder, scenes: Sequence[S.Scene], options: Sequence[Sequence[str]], truth: Sequence[int]
) -> np.ndarray:
    """For each scene, whether the true one of its texts scores highest."""
    images = enc.images([S.render(scene) for scene in scenes])
    sims = [enc.texts(list(texts)) @ image for image, texts in zip(images, options)]
    return np.array([int(np.argmax(row)) == right for row, right in zip(sims, truth)])


def share(right: np.ndarray) -> dict[str, Any]:
    """A figure with its n."""
    return {"value": round(float(np.mean(right)), 4), "n": len(right)}


def recognition(enc: Encoder, count: int, spoiled: bool = False) -> dict[str, Any]:
    """Top-1 among all objects on scenes with one object, prompts "a photo of a …"."""
    names = list(S.object_names())
    scenes = draw(1, count, ONE)
    images = [S.render(scene) for scene in scenes]
    if spoiled:
        images = [S.spoil(image, blur=0.014, noise=35, seed=i) for i, image in enumerate(images)]
    sims = enc.images(images) @ enc.texts([f"a photo of {phrase(n)}" for n in names]).T
    truth = np.array([names.index(scene.objects[0].name) for scene in scenes])
    order = np.argsort(-sims, axis=1)
    return {"top1": share(order[:, 0] == truth), "top5": share((order[:, :5] == truth[:, None]).any(axis=1))}


def retrieval(enc: Encoder, rounds: int, size: int = 100) -> dict[str, Any]:
    """Retrieval both ways among `size` scenes and captions, averaged over rounds."""
    scenes = draw(2, rounds * size)
    rng = np.random.default_rng([SEED, 3])
    texts = enc.texts([S.caption(scene, rng, detail=1.0) for scene in scenes])
    images = enc.images([S.render(scene) for scene in scenes])
    to_text, to_image = [], []
    for start in range(0, len(scenes), size):
        sims = images[start : start + size] @ texts[start : start + size].T
        to_text.append(sims.argmax(axis=1) == np.arange(size))
        to_image.append(sims.argmax(axis=0) == np.arange(size))
    return {"image_to_text": share(np.concatenate(to_text)), "text_to_image": share(np.concatenate(to_image))}


def positions(enc: Encoder, count: int) -> dict[str, Any]:
    """Places of lone objects of which exactly one of five place words is true.

    "position": the true side against its opposite (left or right, top or bottom), objects in the middle left out.
    "position_of_five": the true word against the four others; much of it is decided close to a boundary.
    "position_of_five_off_boundary": the same without objects whose centre is within MARGIN of where a word changes.
    """
    places = ("left", "right", "top", "bottom", "middle")
    scenes = draw(4, count, ONE, lambda scene: sum(p in places for p in places_of(scene.objects[0])) == 1)
    side, five, clear = [], [], []
    for scene, image in zip(scenes, enc.images([S.render(scene) for scene in scenes])):
        item = scene.objects[0]
        sims = enc.texts([f"a photo of {phrase(item.name)} {S.PLACES[p]}" for p in places]) @ image
        truth = next(places.index(p) for p in places_of(item) if p in places)
        five.append(int(np.argmax(sims)) == truth)
        clear.append(min(abs(v - edge) for v in (item.x, item.y) for edge in (LEFT, RIGHT)) >= MARGIN)
        if truth < 4:
            side.append(sims[truth] > sims[truth ^ 1])
    return {
        "position": share(np.array(side)),
        "position_of_five": share(np.array(five)),
        "position_of_five_off_boundary": share(np.array(five)[np.array(clear)]),
    }


def attributes(enc: Encoder, count: int) -> dict[str, Any]:
    """Place, relation, background colour, texture, count and size, each as a choice among its words."""
    out: dict[str, Any] = {}
    out |= positions(enc, count)
    pairs = S.SceneOptions(counts=(2,), count_weights=(), repeat=0.0)
    scenes = draw(5, count, pairs, lambda s: bool(_relations(s)))
    relations = [_relations(s)[0] for s in scenes]
    texts = [
        [f"a photo of {phrase(a)} {S.RELATIONS[r]} {phrase(b)}" for a, b in (s.names, s.names[::-1])]
        for s, r in zip(scenes, relations)
    ]
    out["relation"] = share(choice(enc, scenes, texts, [0] * len(scenes)))
    colors = tuple(S.COLORS)
    scenes = draw(6, count, ONE)
    texts = [[f"a photo of {phrase(s.objects[0].name)} on {colored(c)}" for c in colors] for s in scenes]
    out["background_color"] = share(choice(enc, scenes, texts, [colors.index(s.background.color) for s in scenes]))
    named = S.TEXTURES[1:]  # captions never call a background plain
    scenes = draw(17, count, ONE, lambda s: s.background.texture in named)
    texts = [
        [f"a photo of {phrase(s.objects[0].name)} on a {t} {s.background.color} background" for t in named]
        for s in scenes
    ]
    out["background_texture"] = share(choice(enc, scenes, texts, [named.index(s.background.texture) for s in scenes]))
    # "a cat" is true of two cats as well, so the choice is between two and three
    scenes = draw(7, count, S.SceneOptions(counts=(2, 3), count_weights=(), repeat=1.0))
    texts = [[f"a photo of {w} {S.thing(s.names[0]).plural}" for w in ("two", "three")] for s in scenes]
    out["count"] = share(choice(enc, scenes, texts, [len(s.objects) - 2 for s in scenes]))
    scenes = draw(8, count, ONE, lambda s: s.objects[0].size_word is not None)
    texts = [[f"a photo of a {w} {s.objects[0].name}" for w in ("small", "large")] for s in scenes]
    out["size"] = share(
        choice(enc, scenes, texts, [("small", "large").index(s.objects[0].size_word or "") for s in scenes])
    )
    return out


def _relations(scene: S.Scene) -> tuple[str, ...]:
    return relations_of(*scene.objects) if len(scene.names) == 2 == len(scene.objects) else ()


def near_misses(enc: Encoder, count: int) -> dict[str, Any]:
    """How often a true caption scores above the same caption with one thing made false, by kind."""
    scenes = draw(9, count)
    images = enc.images([S.render(scene) for scene in scenes])
    out = {}
    for number, kind in enumerate(S.CONTRADICTIONS):
        rng = np.random.default_rng([SEED, 10, number])
        right = []
        for scene, image in zip(scenes, images):
            claim = S.describe(scene, rng, detail=1.0)
            wrong = S.contradict(claim, scene, rng, kind=kind)
            if wrong is not None:
                good, bad = enc.texts([claim.text("photo"), wrong.text("photo")]) @ image
                right.append(good > bad)
        out[kind] = share(np.array(right))
    return out


def without(enc: Encoder, count: int) -> dict[str, Any]:
    """Share right of "This is a photo of X." against "… without X.", where X is there and where it is not."""
    scenes = draw(11, count)
    images = enc.images([S.render(scene) for scene in scenes])
    rng = np.random.default_rng([SEED, 12])
    names = S.object_names()
    there, missing = [], []
    for scene, image in zip(scenes, images):
        other = next(n for n in (names[int(i)] for i in rng.permutation(len(names))) if n not in scene.names)
        for name, out in ((scene.names[0], there), (other, missing)):
            yes, no = (
                enc.texts([f"This is a photo of {phrase(name)}.", f"This is a photo without {phrase(name)}."]) @ image
            )
            out.append((yes > no) == (name in scene.names))
    return {"present": share(np.array(there)), "absent": share(np.array(missing))}


def auc(scores: np.ndarray, truth: np.ndarray) -> float:
    """Area under the ROC curve, ties counted half."""
    pos, neg = scores[truth], scores[~truth]
    return float((pos[:, None] > neg[None]).mean() + 0.5 * (pos[:, None] == neg[None]).mean())


def patches(enc: Encoder, count: int) -> dict[str, Any]:
    """How well patch tokens find the named object: AUC against the mask, and pointing (the best patch lies on it).

    A patch is the object's when half of it shows the object, and not when none of it does; others are left out.
    "prompt" scores with the cosine to "This is a photo of X."; "dual" with the softmax against "… without X.".
    """
    scenes = draw(13, count)
    tokens = enc.patches([S.render(scene) for scene in scenes])
    side = int(tokens.shape[1] ** 0.5)
    figures: dict[str, list[float]] = {"prompt_auc": [], "prompt_pointing": [], "dual_auc": [], "dual_pointing": []}
    for scene, token in zip(scenes, tokens):
        cover = S.masks(scene, 256).reshape(len(scene.objects), side, 256 // side, side, 256 // side).mean(axis=(2, 4))
        for name in scene.names:
            mine = sum(c for c, o in zip(cover, scene.objects) if o.name == name).ravel()
            clear = (mine >= 0.5) | (mine == 0)
            if not (mine >= 0.5).any():
                continue
            yes, no = enc.texts([f"This is a photo of {phrase(name)}.", f"This is a photo without {phrase(name)}."])
            for key, score in (("prompt", token @ yes), ("dual", enc.scale * (token @ yes - token @ no))):
                figures[f"{key}_auc"].append(auc(score[clear], mine[clear] >= 0.5))
                figures[f"{key}_pointing"].append(float(mine[np.argmax(score)] >= 0.25))
    return {key: {"value": round(float(np.mean(rows)), 4), "n": len(rows)} for key, rows in figures.items()}


def ranking(enc: Encoder) -> dict[str, Any]:
    """Mean 100 × cosine of prompt and output by generator of the demo set."""
    items = S.demo_set(0)
    sims = (enc.images([i.image() for i in items]) * enc.texts([i.prompt for i in items])).sum(axis=1) * 100
    out: dict[str, Any] = {}
    for name in S.GENERATORS:
        rows = sims[[i.method == name for i in items]]
        out[name] = {"value": round(float(rows.mean()), 2), "sd": round(float(rows.std(ddof=1)), 2), "n": len(rows)}
    return out


@contextmanager
def glyph_style(folder: Path) -> Iterator[set[str]]:
    """Draw scenes with other glyphs: PNG files named by code point ("1f408.png"). Yields the names that have one."""
    own = vocabulary._cell

    def other(name: str) -> Image.Image:
        image = Image.open(paths[name]).convert("RGBA")
        image = image.crop(image.getchannel("A").getbbox())
        side = max(image.size)
        cell = Image.new("RGBA", (side, side))
        cell.paste(image, ((side - image.width) // 2, (side - image.height) // 2))
        return cell.resize((128, 128), Image.Resampling.LANCZOS)

    paths: dict[str, Path] = {}
    for name in S.object_names():
        code = f"{ord(S.thing(name).character):x}"
        for candidate in (folder / f"{code}.png", folder / f"{code}-fe0f.png"):
            if candidate.exists():
                paths[name] = candidate
    vocabulary.sprite.cache_clear()
    vocabulary._cell = other  # type: ignore[assignment]
    try:
        yield set(paths)
    finally:
        vocabulary._cell = own
        vocabulary.sprite.cache_clear()


def second_style(enc: Encoder, folder: Path, count: int) -> dict[str, Any]:
    """Top-1 and retrieval with glyphs that training never saw."""
    with glyph_style(folder) as known:
        names = tuple(n for n in S.object_names() if n in known)
        options = S.SceneOptions(names=names, counts=(1,), count_weights=())
        scenes = draw(14, count, options)
        all_names = list(S.object_names())
        sims = enc.images([S.render(s) for s in scenes]) @ enc.texts([f"a photo of {phrase(n)}" for n in all_names]).T
        truth = np.array([all_names.index(s.objects[0].name) for s in scenes])
        top = share(sims.argmax(axis=1) == truth)
        many = draw(15, 500, S.SceneOptions(names=names))
        rng = np.random.default_rng([SEED, 16])
        texts = enc.texts([S.caption(s, rng, detail=1.0) for s in many])
        images = enc.images([S.render(s) for s in many])
    right = [
        [(images[i : i + 100] @ texts[i : i + 100].T).argmax(axis=a) == np.arange(100) for i in range(0, 500, 100)]
        for a in (1, 0)
    ]
    return {
        "objects_with_a_glyph": len(names),
        "top1": top,
        "image_to_text": share(np.concatenate(right[0])),
        "text_to_image": share(np.concatenate(right[1])),
    }


def evaluate(folder: Path, glyphs: Path | None, count: int) -> dict[str, Any]:
    """All figures."""
    enc = Encoder(folder)
    out: dict[str, Any] = {
        "recognition": recognition(enc, count),
        "recognition_of_blurred_noisy": recognition(enc, count // 2, spoiled=True),
        "retrieval_among_100": retrieval(enc, max(1, count // 100)),
        "attributes": attributes(enc, count // 2),
        "near_misses": near_misses(enc, count // 2),
        "without": without(enc, count // 2),
        "patches": patches(enc, count // 2),
        "demo_set_100_cosine": ranking(enc),
    }
    if glyphs is not None:
        out["second_glyph_style"] = second_style(enc, glyphs, count // 2)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--glyphs", type=Path, help="folder of another glyph style, one PNG a code point")
    parser.add_argument("--glyphs-name", default="Twemoji")
    parser.add_argument("--count", type=int, default=2000, help="scenes for recognition; other parts take their share")
    parser.add_argument("--write-card", type=Path, metavar="STAGES", help="JSON lines on the stages of training")
    args = parser.parse_args()
    figures = evaluate(args.folder, args.glyphs, args.count)
    if "second_glyph_style" in figures:
        figures["second_glyph_style"]["style"] = args.glyphs_name
    sys.stdout.write(json.dumps(figures, indent=2) + "\n")
    if args.write_card:
        write_card(args.folder, args.write_card, figures)


def write_card(folder: Path, log: Path, figures: dict[str, Any]) -> None:
    """Write card.json: what the model is, how it was made, what was measured, and what it is not."""
    from safetensors.torch import load_file

    weights = load_file(folder / "model.safetensors")
    stages = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    card = {
        "name": "demo:emoji",
        "format": "transformers CLIPModel, float16 safetensors, CLIP tokenizer, PIL image processor",
        "what_it_is": "A small image-text encoder for trying things out and for tests, trained from scratch on "
        f"drawn scenes of {len(S.object_names())} emoji.",
        "what_it_is_not": "It knows scenes composed of these emoji and captions of the forms it was trained on, "
        "nothing else: no photographs, no other words, no art. Its scores say nothing about real images and must "
        "not be reported as CLIPScore.",
        "data": {
            "scenes": "drawn by beholder.scenes: one to three objects on plain or textured grounds, new every step",
            "objects": len(S.object_names()),
            "background_colors": list(S.COLORS),
            "caption_templates": list(S.TEMPLATES.values()),
            "glyphs": "Noto Color Emoji, SIL Open Font License 1.1",
            "names": "Unicode CLDR English annotations, in part renamed",
        },
        "architecture": {
            "image": "ViT, width 192, 6 blocks, 6 heads, 64 x 64 pixels, patches of 8, 65 tokens",
            "text": "causal transformer, width 128, 4 blocks, 4 heads, 40 tokens at most",
            "embedding": 192,
            "parameters": int(sum(v.numel() for v in weights.values())),
        },
        "recipe": {
            "script": "tools/train_demo_encoder.py",
            "seed": "20, in stage 6 21, in stage 7 22",
            "batch": 192,
            "stages": stages,
            "steps": sum(int(stage["steps"]) for stage in stages),
            "seconds": sum(int(stage["seconds"]) for stage in stages),
            "machine": "2 shared CPU cores, bfloat16 autocast",
            "optimizer": "AdamW, warm-up and cosine over each stage's time budget, weight decay 0.05",
            "losses": "contrastive with near misses; objects; colours; with/without; the same on patch tokens; "
            "places, by heads and last by the five words themselves",
        },
        "weights_sha256": hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest(),
        "arch": "ViT-emoji-8-64",
        "licence": "Apache-2.0",
        "commercial": True,
        "glyph_licence": "OFL-1.1 (the glyphs that scenes are drawn with: assets/scenes)",
        "notes": ["Trained on drawn emoji scenes and template captions; see docs/demo_encoder.md."],
        "held_out": figures,
        "measured_by": "tools/evaluate_demo_encoder.py; scenes at 256 pixels from seeds that training never used",
    }
    (folder / "card.json").write_text(json.dumps(card, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
