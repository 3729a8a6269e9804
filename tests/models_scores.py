"""Small files in the layouts of HPS, the aesthetic heads and ArtScore, with weights from a seed alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

HEADS = 16
"""Attention heads of HPS's architecture; widths of small towers are multiples of it."""

MAPS = {"layers": (0, 2, 4, 6, 7), "scoring_head": (0, 2, 4, 6, 8)}
DEPTHS = {"resnet50": (3, 4, 6, 3), "resnet101": (3, 4, 23, 3)}


def hps_shapes(
    *,
    width: int = 32,
    embed: int = 16,
    words: int = 516,
    context: int = 77,
    blocks: int = 2,
    patch: int = 6,
    grid: int = 5,
    inner: int = 4,
) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a CLIP in open_clip's layout, both towers of one width."""  # fmt: skip
    shapes: dict[str, tuple[int, ...]] = {
        "positional_embedding": (context, width), "text_projection": (width, embed), "logit_scale": (),
        "token_embedding.weight": (words, width), "visual.class_embedding": (width,),
        "visual.positional_embedding": (grid * grid + 1, width), "visual.proj": (width, embed),
        "visual.conv1.weight": (width, 3, patch, patch),
    }  # fmt: skip
    norms = ["ln_final", "visual.ln_pre", "visual.ln_post"]
    for tower in ("transformer", "visual.transformer"):
        for block in range(blocks):
            name = f"{tower}.resblocks.{block}"
            norms += [f"{name}.ln_1", f"{name}.ln_2"]
            shapes |= {
                f"{name}.attn.in_proj_weight": (3 * width, width), f"{name}.attn.in_proj_bias": (3 * width,),
                f"{name}.attn.out_proj.weight": (width, width), f"{name}.attn.out_proj.bias": (width,),
                f"{name}.mlp.c_fc.weight": (inner * width, width), f"{name}.mlp.c_fc.bias": (inner * width,),
                f"{name}.mlp.c_proj.weight": (width, inner * width), f"{name}.mlp.c_proj.bias": (width,),
            }  # fmt: skip
    return shapes | {f"{name}.{part}": (width,) for name in norms for part in ("weight", "bias")}


def make_tiny_hps(folder: Path, *, name: str = "HPS_v2_compressed.pt", seed: int = 0, **sizes: Any) -> Path:
    """A file {"state_dict": …} in half precision, as published, with a CLIP tokenizer beside it."""
    import torch
    from tests.models import write_clip_tokenizer

    state = random_state(hps_shapes(**sizes), seed)
    state["logit_scale"] = torch.tensor(4.0)
    folder.mkdir(parents=True, exist_ok=True)
    torch.save({"epoch": 1, "state_dict": {key: value.half() for key, value in state.items()}}, folder / name)
    write_clip_tokenizer(folder)
    return folder / name


def head_shapes(width: int, *, layout: str = "layers") -> dict[str, tuple[int, ...]]:
    """Names and shapes of an aesthetic head."""
    sizes = (width, 1024, 128, 64, 16, 1)
    shapes: dict[str, tuple[int, ...]] = {}
    for at, place in enumerate(MAPS[layout]):
        shapes |= {f"{layout}.{place}.weight": (sizes[at + 1], sizes[at]), f"{layout}.{place}.bias": (sizes[at + 1],)}
    return shapes


def make_head(path: Path, width: int = 16, *, layout: str = "layers", seed: int = 0) -> Path:
    """An aesthetic head for embeddings of a width."""
    import torch

    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(random_state(head_shapes(width, layout=layout), seed, spread=0.06), path)
    return path


def artscore_shapes(arch: str = "resnet50", *, dense: bool = True, width: int = 4) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a ResNet in torchvision's layout with one of ArtScore's heads."""
    shapes: dict[str, tuple[int, ...]] = {"conv1.weight": (width, 3, 7, 7), **_norm("bn1", width)}
    before = width
    for stage, depth in enumerate(DEPTHS[arch]):
        inner = width * 2**stage
        for at in range(depth):
            name = f"layer{stage + 1}.{at}"
            for number, (rows, columns, side) in enumerate(
                ((inner, before, 1), (inner, inner, 3), (4 * inner, inner, 1)), start=1
            ):
                shapes[f"{name}.conv{number}.weight"] = (rows, columns, side, side)
                shapes |= _norm(f"{name}.bn{number}", rows)
            if at == 0:
                shapes[f"{name}.downsample.0.weight"] = (4 * inner, before, 1, 1)
                shapes |= _norm(f"{name}.downsample.1", 4 * inner)
            before = 4 * inner
    if not dense:
        return shapes | {"fc.weight": (1, before), "fc.bias": (1,)}
    return shapes | {"fc.0.weight": (1000, before), "fc.0.bias": (1000,), "fc.3.weight": (1, 1000), "fc.3.bias": (1,)}


def _norm(name: str, width: int) -> dict[str, tuple[int, ...]]:
    per_channel = {f"{name}.{part}": (width,) for part in ("weight", "bias", "running_mean", "running_var")}
    return {**per_channel, f"{name}.num_batches_tracked": ()}


def make_artscore(path: Path, arch: str = "resnet50", *, dense: bool = True, width: int = 4, seed: int = 0) -> Path:
    """A checkpoint of ArtScore's layout, narrower than the published one."""
    import torch

    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(random_state(artscore_shapes(arch, dense=dense, width=width), seed), path)
    return path


def random_state(shapes: dict[str, tuple[int, ...]], seed: int, *, spread: float | None = None) -> dict[str, Any]:
    """Tensors of those shapes; variances are positive, counters are whole, matrices keep the size of what goes in."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    state: dict[str, Any] = {}
    for name, shape in shapes.items():
        noise = torch.randn(shape, generator=generator)
        if name.endswith("num_batches_tracked"):
            state[name] = torch.tensor(3)
        elif name.endswith("running_var"):
            state[name] = 0.5 + noise.abs()
        elif len(shape) < 2:
            state[name] = 0.1 * noise + float(name.endswith("weight"))
        else:
            state[name] = noise * (spread or (shape[-1] * shape[-2] * max(1, *shape[1:-2], 1)) ** -0.5)
    return state
