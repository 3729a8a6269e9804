"""Engine "hps": HPS v2.0 and v2.1, OpenCLIP's ViT-H-14 trained on human preferences, through transformers' CLIP.

    hps:v2.0, hpsv2        HPS_v2_compressed.pt of the hub repository xswu/HPSv2
    hps:v2.1, hpsv2.1      HPS_v2.1_compressed.pt
    hps:/path/to/file.pt   a file in the same layout

The files are in open_clip's layout. It is that of CLIP under other names, so the base install serves them; the package
open_clip reads the same files as open_clip:ViT-H-14//path/to/file.pt, and both give the same embeddings.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from beholder._errors import UnknownNameError, WeightsMismatchError, WeightsMissingError
from beholder.backends import hub
from beholder.backends.base import ImageTextEncoder, LoadOptions, ResolvedModel
from beholder.backends.cards import PICKSCORE_PROCESSOR, card_of
from beholder.backends.cards_scores import HPS_FILES, HPS_REPO
from beholder.backends.describing import CardEngine, describe_files, local_folder, paths_of, whole_files
from beholder.backends.files import Choice, choose_tokenizer, list_files
from beholder.backends.hashes import combined_sha256, remembered_constants
from beholder.backends.hf_clip import HFClipEncoder
from beholder.backends.names import BUILT_IN, ModelName, parse_name
from beholder.backends.preprocess import OPENAI_MEAN, OPENAI_STD, Preprocessing
from beholder.backends.torch_io import check_keys, fill_network, read_constants, read_state, read_states
from beholder.records import ModelCard

HEADS = 16
"""Attention heads of both towers of ViT-H-14, which no tensor tells."""

CONTEXT = 77


class HpsEngine(CardEngine):
    """The two published versions, and local files of their layout."""

    name = "hps"

    def wanted(self, parsed: ModelName) -> list[hub.Wanted]:
        """The sets of hub files that a model needs; none for a local one."""
        return [] if parsed.path is not None else [self._wanted(parsed), _tokenizer(parsed.asked)]

    def local(self, parsed: ModelName) -> hub.Found:
        """The file of a local model."""
        path, folder = parsed.path or Path(), local_folder(parsed)
        held = [name for name in HPS_FILES.values() if (folder / name).is_file()]
        files = [path.name] if path.is_file() else held
        if len(files) != 1:
            raise WeightsMissingError(
                f"{parsed.asked} must be one file in the layout of {' or '.join(HPS_FILES.values())}",
                got=f"{path} with {' and '.join(files) or 'neither'}",
            )
        return whole_files(folder, Choice((files[0],), (), ()), must=f"{parsed.asked} must be a whole file")

    def resolve(self, name: str, *, dtype: str, options: LoadOptions) -> ResolvedModel:
        parsed = parse_name(name, engines=(*BUILT_IN, self.name))
        found = self.local(parsed) if parsed.path is not None else hub.find(self._wanted(parsed), options)
        beside = choose_tokenizer(list_files(found.folder)) if parsed.path is not None else None
        tokenizer = hub.Found(found.folder, beside) if beside is not None and not beside.missing else None
        return self._describe(parsed, found, tokenizer or hub.find(_tokenizer(parsed.asked), options), dtype)

    def load(self, model: ResolvedModel, *, device: str) -> ImageTextEncoder:
        return HpsEncoder(model, device=device)

    def _wanted(self, parsed: ModelName) -> hub.Wanted:
        if parsed.weights not in HPS_FILES:
            raise UnknownNameError("version of HPS", parsed.asked, [card.id for card in self.cards()])
        file = HPS_FILES[parsed.weights]

        def choose(names: Iterable[str]) -> Choice:
            return Choice((file,), (), ()) if file in set(names) else Choice((), (), (file,))

        return hub.Wanted(parsed.asked, HPS_REPO, None, choose, card_of(parsed.id))

    def _describe(self, parsed: ModelName, found: hub.Found, tokenizer: hub.Found, dtype: str) -> ResolvedModel:
        file = found.folder / found.files.weights[0]
        side = _side_of(file)
        pixels = Preprocessing("longest", (side, side), (side, side), "even", "bicubic", 1 / 255, OPENAI_MEAN,
                               OPENAI_STD)  # fmt: skip
        preprocessing = {
            **pixels.as_json(),
            "text": {"context_length": CONTEXT, "padding": "max_length", "lowercase": False},
        }
        plain = ModelCard(id=parsed.id, engine=self.name, family="hps", arch="ViT-H-14", weights=f"./{parsed.weights}")
        return describe_files(
            parsed,
            dataclasses.replace(card_of(parsed.id) or plain, input_size=(side, side), context_length=CONTEXT),
            found,
            capability="ImageTextEncoder",
            dtype=dtype,
            preprocessing=preprocessing,
            paths={"weights": file, **paths_of(tokenizer, "tokenizer")},
            details={"model_type": "clip"},
            locations={"processor": str(tokenizer.folder)},
            constants=read_constants([file]),
        )


HPS = HpsEngine()


def _tokenizer(asked: str) -> hub.Wanted:
    return hub.Wanted(asked, PICKSCORE_PROCESSOR, None, choose_tokenizer, what=hub.PROCESSOR)


def _side_of(file: Path) -> int:
    """The input side of a file's vision tower: its grid of patches times their side; remembered by the file's hash."""
    key = combined_sha256({"input side": file})
    return int(remembered_constants(key, lambda: {"side": float(_read_side(file))})["side"])


def _read_side(file: Path) -> int:
    state = read_state(file)  # mapped: only what is looked at is read
    try:
        patches = state["visual.positional_embedding"].shape[0] - 1
        return int(patches**0.5 + 0.5) * int(state["visual.conv1.weight"].shape[-1])
    except KeyError as error:
        raise WeightsMismatchError(
            f"{file.name} must be a CLIP in open_clip's layout", got=f"a file without {error}"
        ) from error


class HpsEncoder(HFClipEncoder):
    """A loaded HPS model; an `ImageTextEncoder`."""

    def _load(self, model: ResolvedModel) -> Any:
        from transformers import CLIPModel

        state = read_states(Path(model.location) / str(name) for name in model.details["weights"])
        return fill_network(
            CLIPModel,
            clip_config(state, name=model.asked),
            to_transformers(state, name=model.asked),
            name=model.asked,
            dtype=model.dtype,
        )


def clip_config(state: Mapping[str, Any], *, name: str, heads: int = HEADS) -> Any:
    """transformers' configuration of a CLIP in open_clip's layout with plain GELU.

    Raises:
        WeightsMismatchError: tensors from which the sizes cannot be read.
    """
    from transformers import CLIPConfig

    try:
        words, width = state["token_embedding.weight"].shape
        vision_width, _, patch, _ = state["visual.conv1.weight"].shape
        grid = round((state["visual.positional_embedding"].shape[0] - 1) ** 0.5)
        text = {
            "hidden_size": width, "vocab_size": words,
            "max_position_embeddings": state["positional_embedding"].shape[0],
            "intermediate_size": state["transformer.resblocks.0.mlp.c_fc.weight"].shape[0],
            # The pooled token is the one with the highest id, as in open_clip: that is what this old value asks for.
            "eos_token_id": 2,
            "bos_token_id": words - 2,
        }  # fmt: skip
        vision = {
            "hidden_size": vision_width, "patch_size": patch, "image_size": grid * patch,
            "intermediate_size": state["visual.transformer.resblocks.0.mlp.c_fc.weight"].shape[0],
        }  # fmt: skip
        embed = state["text_projection"].shape[1]
    except (KeyError, IndexError, ValueError) as error:
        raise WeightsMismatchError(
            f"the weights of {name} must be a CLIP in open_clip's layout", got=f"a file without {error}"
        ) from error
    common = {"num_attention_heads": heads, "hidden_act": "gelu", "layer_norm_eps": 1e-5}
    return CLIPConfig(
        text_config={**text, **common, "num_hidden_layers": _depth(state, "transformer")},
        vision_config={**vision, **common, "num_hidden_layers": _depth(state, "visual.transformer")},
        projection_dim=embed,
    )


def _depth(state: Mapping[str, Any], tower: str) -> int:
    found = re.compile(rf"{re.escape(tower)}\.resblocks\.(\d+)\.")
    return 1 + max((int(match.group(1)) for key in state if (match := found.match(key))), default=-1)


_SINGLE = {
    "logit_scale": "logit_scale",
    "token_embedding.weight": "text_model.embeddings.token_embedding.weight",
    "positional_embedding": "text_model.embeddings.position_embedding.weight",
    "text_projection": "text_projection.weight",
    "visual.class_embedding": "vision_model.embeddings.class_embedding",
    "visual.positional_embedding": "vision_model.embeddings.position_embedding.weight",
    "visual.conv1.weight": "vision_model.embeddings.patch_embedding.weight",
    "visual.proj": "visual_projection.weight",
    **{
        f"{old}.{part}": f"{new}.{part}"
        for old, new in (
            ("ln_final", "text_model.final_layer_norm"),
            ("visual.ln_pre", "vision_model.pre_layrnorm"),
            ("visual.ln_post", "vision_model.post_layernorm"),
        )
        for part in ("weight", "bias")
    },
}
_TURNED = ("text_projection", "visual.proj")
"""Matrices that open_clip multiplies from the right and transformers from the left."""

_IN_BLOCK = {
    "ln_1": "layer_norm1", "ln_2": "layer_norm2", "attn.out_proj": "self_attn.out_proj", "mlp.c_fc": "mlp.fc1",
    "mlp.c_proj": "mlp.fc2",
}  # fmt: skip
_TOWERS = {"transformer": "text_model.encoder", "visual.transformer": "vision_model.encoder"}


def layout(state: Mapping[str, Any]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Every name that a file with as many blocks must hold, and what transformers calls it (q, k, v: three names)."""
    for old, new in _SINGLE.items():
        yield old, (new,)
    for tower, encoder in _TOWERS.items():
        for block in range(_depth(state, tower)):
            old, new = f"{tower}.resblocks.{block}", f"{encoder}.layers.{block}"
            for part in ("weight", "bias"):
                yield f"{old}.attn.in_proj_{part}", tuple(f"{new}.self_attn.{key}_proj.{part}" for key in "qkv")
                for inside, outside in _IN_BLOCK.items():
                    yield f"{old}.{inside}.{part}", (f"{new}.{outside}.{part}",)


def to_transformers(state: Mapping[str, Any], *, name: str) -> dict[str, Any]:
    """The tensors of a CLIP in open_clip's layout under transformers' names.

    Raises:
        WeightsMismatchError: names that are missing or not known, as the file has them.
    """
    names = dict(layout(state))
    check_keys(name, missing=set(names) - set(state), unexpected=set(state) - set(names), mismatched=())
    result: dict[str, Any] = {}
    for old, new in names.items():
        tensor = state[old].T.contiguous() if old in _TURNED else state[old]
        parts = tensor.chunk(3) if len(new) == 3 else (tensor,)
        result.update({key: part.clone() for key, part in zip(new, parts, strict=True)})
    return result
