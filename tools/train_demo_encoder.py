"""Train the small image-text encoder that ships as `demo:emoji`, on scenes drawn by `beholder.scenes`.

The model is a dual encoder in the transformers CLIP format. Training is resumable: it writes a checkpoint every few
minutes into the work folder and goes on from there when it is started again. The learning rate follows the share of the
time budget that was spent, so that it ends at zero whatever the speed of the machine; or the share of the steps, where
their number is given.

    python tools/train_demo_encoder.py --work DIR --budget 4800          # train (again: go on)
    python tools/train_demo_encoder.py --work NEW --start DIR/checkpoint.pt --finish --steps 475 --lr 3.5e-4 --seed 22
                                                                         # the last stage
    python tools/train_demo_encoder.py --work NEW --export FOLDER        # write the model in fp16

Losses, all with the shared temperature:
 1. contrastive, images against captions, with near misses of each caption (object, place, colour, count, size …) added
    as further negatives; a caption that is true of another scene of the batch is no negative of it;
 2. the objects that a scene shows against all others, over prompts of one form ("a photo of a cat"); and its background
    colour against the other colours;
 3. "This is a photo of X." against "This is a photo without X.", for objects that are and are not there;
 4. the same on patch tokens (last block with identity attention, so that a patch token sees itself alone), where the
    exact masks say which object or background colour a patch shows;
 5. questions about places, put to pictures and captions through heads that are thrown away afterwards. In the last
    stage (`--finish`) they are put to the prompts themselves: the five words for the place of a lone object against
    each other, half of these objects close to where the word changes (see `demo_training/place_words.py`).
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing as mp
import os
import queue
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from demo_training.batches import FINISH, GROWTH, Course, make_batch
from demo_training.losses import FINISH_WEIGHTS, WEIGHTS, PlaceHead, losses
from demo_training.model import MEAN, SIZE, STD, build_model, load_tokenizer, place_patches
from demo_training.place_words import CentreHead
from demo_training.probe import probe

from beholder import scenes as S
from beholder.scenes import vocabulary


def _produce(seed: int, first: int, size: int, course: Course, out: Any) -> None:
    index = {name: i for i, name in enumerate(S.object_names())}
    torch.set_num_threads(1)
    os.nice(3)
    step = first
    while True:
        out.put((step, make_batch((seed, step), size, index, course)))
        step += 1
        if step % 50 == 0:
            vocabulary.sprite.cache_clear()  # sprites of large pictures fill the memory


def starting_weights(start: Path, work: Path) -> dict[str, torch.Tensor]:
    """The weights of a checkpoint or of an exported folder; its tokenizer goes to the work folder."""
    folder = start if start.is_dir() else start.parent / "tokenizer"
    (work / "tokenizer").mkdir(parents=True, exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(folder / name, work / "tokenizer" / name)
    if not start.is_dir():
        saved: dict[str, torch.Tensor] = torch.load(start, weights_only=True)["model"]
        return saved
    from safetensors.torch import load_file

    return {name: value.float() for name, value in load_file(start / "model.safetensors").items()}


def rate(progress: float, peak: float) -> float:
    """The learning rate at a share of the budget: linear warm-up, then a cosine to zero."""
    if progress < 0.03:
        return peak * max(progress, 1e-4) / 0.03
    return peak * 0.5 * (1 + math.cos(math.pi * min(1.0, (progress - 0.03) / 0.97)))


def train(args: argparse.Namespace) -> None:
    """Train, or go on, until the budget is spent or all steps are done."""
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    args.work.mkdir(parents=True, exist_ok=True)
    path = args.work / "checkpoint.pt"
    weights = starting_weights(args.start, args.work) if args.start and not path.exists() else None
    tokenizer = load_tokenizer(args.work)
    model = build_model(tokenizer)
    depth = model.config.vision_config.num_hidden_layers
    width = model.config.projection_dim
    heads = torch.nn.ModuleList([CentreHead(width)] if args.finish else [PlaceHead(width) for _ in range(depth)])
    course, parts_weigh = (FINISH, FINISH_WEIGHTS) if args.finish else (GROWTH, WEIGHTS)
    drop_until = 0.0 if args.finish else args.drop_until
    decay = [p for n, p in model.named_parameters() if p.ndim > 1 and "embedding" not in n]
    plain = [p for n, p in model.named_parameters() if p.ndim <= 1 or "embedding" in n]
    optimizer = torch.optim.AdamW(
        [
            {"params": decay, "weight_decay": 0.05},
            {"params": plain, "weight_decay": 0.0},
            {"params": list(heads.parameters()), "weight_decay": 0.0},
        ],
        lr=args.lr,
        betas=(0.9, 0.98),
        fused=True,
    )
    state = {"step": 0, "spent": 0.0}
    if path.exists():
        saved = torch.load(path, weights_only=True)
        model.load_state_dict(saved["model"])
        heads.load_state_dict(saved["head"])
        optimizer.load_state_dict(saved["optimizer"])
        state = saved["state"]
    elif weights is not None:
        model.load_state_dict(weights)
    if not path.exists() and not args.finish and args.place_norm > 0:
        place_patches(model, args.place_norm)
    batches: Any = mp.get_context("spawn").Queue(maxsize=6)
    maker = mp.get_context("spawn").Process(
        target=_produce, args=(args.seed, state["step"], args.batch, course, batches), daemon=True
    )
    maker.start()
    log = open(args.work / "log.jsonl", "a", encoding="utf-8")  # noqa: SIM115
    started, before, saved_at = time.monotonic(), state["spent"], time.monotonic()
    mean: dict[str, float] = {}
    while (progress := state["step"] / args.steps if args.steps else state["spent"] / args.budget) < 1:
        for number, group in enumerate(optimizer.param_groups):
            group["lr"] = rate(progress, args.lr if number < 2 else 4e-3)
        waited = time.monotonic()
        try:
            step, batch = batches.get(timeout=120)
        except queue.Empty:
            raise SystemExit("the process that draws scenes stopped") from None
        waited = time.monotonic() - waited
        rng = np.random.default_rng([args.seed, step, 1])
        parts = losses(model, heads, tokenizer, batch, rng, 0.5 if progress < drop_until else 1.0)
        loss = sum(parts_weigh[k] * v for k, v in parts.items())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        with torch.no_grad():
            model.logit_scale.clamp_(max=math.log(100))
        state = {"step": state["step"] + 1, "spent": before + time.monotonic() - started}
        for key, value in {**{k: float(v.detach()) for k, v in parts.items()}, "waited": waited}.items():
            mean[key] = 0.95 * mean.get(key, value) + 0.05 * value
        if state["step"] % 25 == 0:
            line = {
                **state,
                "lr": optimizer.param_groups[0]["lr"],
                "scale": float(model.logit_scale.detach().exp()),
                **mean,
            }
            log.write(json.dumps({k: round(v, 5) for k, v in line.items()}) + "\n")
            log.flush()
        if time.monotonic() - saved_at > 300:
            save(path, model, heads, optimizer, state)
            log.write(json.dumps({**state, **probe(model, tokenizer, 999)}) + "\n")
            log.flush()
            saved_at = time.monotonic()
    save(path, model, heads, optimizer, state)
    log.write(json.dumps({**state, **probe(model, tokenizer, 999), "done": True}) + "\n")
    log.close()
    maker.terminate()


def save(path: Path, model: Any, heads: torch.nn.ModuleList, optimizer: Any, state: dict[str, Any]) -> None:
    """Write the checkpoint in one move."""
    part = path.with_suffix(".part")
    parts = {
        "model": model.state_dict(),
        "head": heads.state_dict(),
        "optimizer": optimizer.state_dict(),
        "state": state,
    }
    torch.save(parts, part)
    os.replace(part, path)


def export(work: Path, folder: Path) -> None:
    """Write the trained model as a transformers folder, weights in fp16."""
    from transformers import CLIPImageProcessorPil

    tokenizer = load_tokenizer(work)
    tokenizer.save_pretrained(folder)
    model = build_model(tokenizer)
    model.load_state_dict(torch.load(work / "checkpoint.pt", weights_only=True)["model"])
    model.half().save_pretrained(folder)
    CLIPImageProcessorPil(
        size={"shortest_edge": SIZE},
        crop_size={"height": SIZE, "width": SIZE},
        image_mean=[MEAN] * 3,
        image_std=[STD] * 3,
    ).save_pretrained(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True, help="folder of the checkpoint and the log")
    parser.add_argument("--export", type=Path, help="write the model of the last checkpoint there, and stop")
    parser.add_argument(
        "--start", type=Path, help="checkpoint or exported folder whose weights a new work folder starts with"
    )
    parser.add_argument("--budget", type=float, default=4800, help="seconds of training, all legs together")
    parser.add_argument("--steps", type=int, help="train so many steps, all legs together, instead of by the time")
    parser.add_argument("--finish", action="store_true", help="the last stage: place words in the prompts themselves")
    parser.add_argument("--batch", type=int, default=192)
    parser.add_argument("--lr", type=float, default=1.2e-3)
    parser.add_argument(
        "--drop-until", type=float, default=0.35, help="share of the budget with half of the patches dropped"
    )
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument(
        "--place-norm", type=float, default=5.0, help="norm of the position embeddings' map of the grid; 0: random ones"
    )
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    if args.export:
        export(args.work, args.export)
    else:
        train(args)


if __name__ == "__main__":
    sys.exit(main())
