"""Engine "hf" for `Matcher`: BLIP and BLIP-2 for image-text retrieval, through transformers' stock classes.

blip    `BlipForImageTextRetrieval`: logit = itm_head(text [CLS] after cross-attention), match minus no match
blip-2  `Blip2ForImageTextRetrieval`: the two logits of itm_head at each of 32 query tokens are averaged over the
        queries, then match minus no match. sigmoid of that difference is the softmax of the averaged logits; it is not
        the average of the 32 probabilities.

Both have the head "itc": BLIP the cosine of the projected class token and [CLS], BLIP-2 the largest over its queries.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from beholder._errors import ModelError
from beholder.backends import hub
from beholder.backends.base import LoadOptions, Matcher, ResolvedModel
from beholder.backends.cards import card_of, refuse_planned
from beholder.backends.describing import CardEngine, describe_files, plain_card
from beholder.backends.files import read_json
from beholder.backends.hf_clip import find_files
from beholder.backends.hf_config import image_config
from beholder.backends.matching import MAX_TOKENS, PairMatcher, describe_text
from beholder.backends.names import ModelName, parse_name
from beholder.backends.preprocess import read_preprocessor
from beholder.backends.torch_io import load_transformers
from beholder.records import ModelCard

_SIZES = {"blip": 384, "blip-2": 224}
"""Model types that are served, and the picture side that their configuration may leave out."""


class BlipEngine(CardEngine):
    """BLIP and BLIP-2 in transformers' layout: from the hub or from a folder."""

    name = "hf"

    def resolve(self, name: str, *, dtype: str, options: LoadOptions) -> ResolvedModel:
        parsed = parse_name(name)
        card = card_of(parsed.id)
        refuse_planned(parsed.asked, card)
        found, _ = find_files(parsed, card, options)
        return _describe(parsed, card, found, dtype)

    def load(self, model: ResolvedModel, *, device: str) -> Matcher:
        wrap = _NETWORKS[str(model.details["model_type"])]
        return PairMatcher(model, wrap(model), device=device)


HF_BLIP = BlipEngine()


def _describe(parsed: ModelName, card: ModelCard | None, found: hub.Found, dtype: str) -> ResolvedModel:
    config = read_json(found.folder / "config.json")
    kind = str(config.get("model_type"))
    classes = [str(item) for item in config.get("architectures") or ()]
    if kind not in _SIZES or (classes and not any("ImageTextRetrieval" in item for item in classes)):
        raise ModelError(
            "a matcher of transformers must be a BLIP or BLIP-2 for image-text retrieval",
            got=f"model_type {kind!r}" + (f" ({', '.join(classes)})" if classes else "") + f" in {parsed.asked}",
            fix="For example hf:Salesforce/blip2-itm-vit-g",
        )
    side = int((config.get("vision_config") or {}).get("image_size", _SIZES[kind]))
    pixels = read_preprocessor(
        {"size": {"height": side, "width": side}, "do_center_crop": False, **image_config(found.folder)},
        model_type=kind,
        image_size=side,
    )
    if pixels.input_size != (side, side):
        raise ModelError(
            f"{parsed.asked} takes pictures of {side}×{side} pixels (config.json)",
            got=f"{pixels.input_size[0]}×{pixels.input_size[1]} from its preprocessing configuration",
            fix="The two files must belong together",
        )
    preprocessing = {**pixels.as_json(), "text": describe_text(MAX_TOKENS)}
    card = card or plain_card(parsed, engine="hf", family=kind)
    return describe_files(
        parsed,
        dataclasses.replace(card, input_size=pixels.input_size, context_length=MAX_TOKENS),
        found,
        capability="Matcher",
        dtype=dtype,
        preprocessing=preprocessing,
        details={"model_type": kind},
    )


class _Stock:
    """A stock network and what both kinds have in common."""

    heads = ("itm", "itc")

    def __init__(self, network: Any, words: Any) -> None:
        self.network, self.dtype = network, network.dtype
        self.vocabulary = int(words.num_embeddings)

    def to(self, device: Any) -> _Stock:
        self.network = self.network.to(device)
        return self

    def look(self, pixels: Any) -> Any:
        return self.network.vision_model(pixel_values=pixels).last_hidden_state


class _Blip(_Stock):
    def __init__(self, model: ResolvedModel) -> None:
        network = load_transformers(model, "BlipForImageTextRetrieval")
        super().__init__(network, network.text_encoder.embeddings.word_embeddings)

    def logits(self, image: Any, ids: Any, mask: Any) -> Any:
        first = self.network.text_encoder(
            input_ids=ids,
            attention_mask=mask.long(),
            encoder_hidden_states=image,
            encoder_attention_mask=mask.new_ones(image.shape[:2]).long(),
        ).last_hidden_state[:, 0]
        return _difference(self.network.itm_head(first))

    def image_vectors(self, image: Any) -> Any:
        return self.network.vision_proj(image[:, :1])

    def text_vectors(self, ids: Any, mask: Any) -> Any:
        first = self.network.text_encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state[:, 0]
        return self.network.text_proj(first)


class _Blip2(_Stock):
    def __init__(self, model: ResolvedModel) -> None:
        network = load_transformers(model, "Blip2ForImageTextRetrieval")
        super().__init__(network, network.embeddings.word_embeddings)

    def logits(self, image: Any, ids: Any, mask: Any) -> Any:
        queries = self._queries(len(image))
        count = queries.shape[1]
        seen = mask.new_ones((len(image), count + mask.shape[1]))
        seen[:, count:] = mask
        states = self._qformer(
            self.network.embeddings(input_ids=ids, query_embeds=queries), image, count, attention_mask=seen.long()
        )
        head = self.network.itm_head
        return _difference(head(states[:, :count].to(head.weight.dtype)).mean(dim=1))

    def image_vectors(self, image: Any) -> Any:
        queries = self._queries(len(image))
        states = self._qformer(queries, image, queries.shape[1])
        return self.network.vision_projection(states.to(self.network.vision_projection.weight.dtype))

    def text_vectors(self, ids: Any, mask: Any) -> Any:
        states = self.network.qformer(
            query_embeds=self.network.embeddings(input_ids=ids), query_length=0, attention_mask=mask.long()
        ).last_hidden_state[:, 0]
        return self.network.text_projection(states.to(self.network.text_projection.weight.dtype))

    def _queries(self, count: int) -> Any:
        return self.network.query_tokens.expand(count, -1, -1)

    def _qformer(self, embeddings: Any, image: Any, queries: int, **extra: Any) -> Any:
        return self.network.qformer(
            query_embeds=embeddings,
            query_length=queries,
            encoder_hidden_states=image,
            encoder_attention_mask=image.new_ones(image.shape[:2]).long(),
            **extra,
        ).last_hidden_state


_NETWORKS: dict[str, Callable[[ResolvedModel], _Stock]] = {"blip": _Blip, "blip-2": _Blip2}


def _difference(logits: Any) -> Any:
    """(n, 2) logits of no match and match to their difference, (n,) float32."""
    wide = logits.float()
    return wide[:, 1] - wide[:, 0]
