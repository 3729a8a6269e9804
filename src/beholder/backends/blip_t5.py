"""BLIP-2 and InstructBLIP with Flan-T5, through transformers' stock classes.

Both put 32 visual tokens in front of the text; the Q-Former makes them of the picture. BLIP-2's Q-Former sees the
picture alone. InstructBLIP's reads the question too, so only the vision tower's work is shared by a picture's texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from beholder._errors import ModelError
from beholder.backends.encoder_decoder import PromptTokenizer, Row, T5AnswerScorer, check_head
from beholder.backends.files import SUBFOLDERS, Choice, choose_hf, choose_tokenizer, read_json
from beholder.backends.hf_config import image_config
from beholder.backends.preprocess import read_preprocessor
from beholder.backends.torch_io import fill_network, read_states

QFORMER_FOLDER = SUBFOLDERS[0]
BLIP2_PROMPT = "Question: {question} Answer:"
"""How BLIP-2 was prompted for questions by its authors (arXiv 2301.12597, section 4.1)."""
BLIP2_TOKENS, INSTRUCT_TOKENS = 512, 128
"""Tokens that a question may have. InstructBLIP's limit is that of its published evaluation; its Q-Former could take
512, which is also what BLIP-2's texts are held to."""


def choose_instructblip(names: Iterable[str]) -> Choice:
    """The files of an InstructBLIP: transformers' usual set, and the Q-Former's tokenizer in its own folder."""
    have = list(names)
    choice = choose_hf(have)
    prefix = f"{QFORMER_FOLDER}/"
    inner = choose_tokenizer(name.removeprefix(prefix) for name in have if name.startswith(prefix))
    return replace(
        choice,
        others=choice.others + tuple(prefix + name for name in inner.others),
        missing=choice.missing + tuple(prefix + name for name in inner.missing),
    )


class Blip2T5(T5AnswerScorer):
    """BLIP-2 with Flan-T5 as an `AnswerScorer`: vision tower, Q-Former and projection run once a picture."""

    model_class = "Blip2ForConditionalGeneration"
    prompt = BLIP2_PROMPT
    max_tokens = BLIP2_TOKENS
    shared = "vision tower, Q-Former and projection"

    @classmethod
    def describe(cls, raw: Mapping[str, Any], folder: Path) -> dict[str, Any]:
        """The preprocessing, JSON-ready, from the files alone.

        Raises:
            ModelError: a decoder-only language model (OPT, Vicuna), or sizes that do not fit together.
        """
        kind = str((raw.get("text_config") or {}).get("model_type"))
        if kind != "t5":
            raise ModelError(
                "BLIP-2 and InstructBLIP are served with a T5 language model (text_config)",
                got=f"model_type {kind!r}",
                fix="For example hf:Salesforce/instructblip-flan-t5-xl",
            )
        side = int((raw.get("vision_config") or {}).get("image_size", 224))
        # BLIP squashes to a square; like SigLIP it does not crop unless its file says so.
        pixels = read_preprocessor(
            {"do_center_crop": False, "size": {"height": side, "width": side}, **image_config(folder)},
            model_type="blip",
            image_size=side,
        )
        if pixels.input_size != (side, side):
            raise ModelError(
                f"the vision tower takes pictures of {side}×{side} pixels",
                got=f"{pixels.input_size[0]}×{pixels.input_size[1]} from the preprocessing configuration",
            )
        queries = int(raw.get("num_query_tokens", 32))
        return {
            **pixels.as_json(),
            "visual_tokens": queries,
            "text": {"max_tokens": cls.max_tokens},
            "prompt": f"<image>{cls.prompt}",
            "answer_end_token": True,
            "shared_by_texts": cls.shared,
        }

    def _build(self) -> None:
        import transformers

        folder = Path(self.model.location)
        network_class = getattr(transformers, self.model_class)
        config = network_class.config_class.from_pretrained(str(folder), local_files_only=True)
        self._check_scale(config.text_config, read_json(folder / "config.json")["text_config"])
        state = read_states(folder / str(name) for name in self.model.details["weights"])
        network = fill_network(network_class, config, state, name=self.model.asked, dtype=self.model.dtype)
        check_head(network.language_model, state, prefix="language_model.", name=self.model.asked)
        self._network: Any = network.to(self._device)
        self._language = self._network.language_model

    @staticmethod
    def _check_scale(config: Any, raw: Mapping[str, Any]) -> None:
        """Flan-T5 does not scale its decoder's outputs; the file says so by untied embeddings, or outright."""
        stated = raw.get("scale_decoder_outputs", raw.get("tie_word_embeddings", True))
        config.scale_decoder_outputs = stated is not False

    def _drop(self) -> None:
        self._network = None

    def _see(self, pixels: Any) -> Any:
        return self._network.get_image_features(pixels, return_dict=True).pooler_output

    def _rows(self, asked: Sequence[tuple[Any, str]]) -> list[Row]:
        import torch

        rows = []
        before, _, behind = self.prompt.partition("{question}")
        for seen, question in asked:
            text = self._tokenizer(before + question, tail=behind, limit=self.max_tokens)
            embedded = self._embed(text.ids)
            rows.append(Row(torch.cat([seen.to(embedded.dtype), embedded]), text.n_tokens, text.truncated))
        return rows


class InstructBlipT5(Blip2T5):
    """InstructBLIP with Flan-T5 as an `AnswerScorer`: only the vision tower runs once a picture.

    Its Q-Former is conditioned on the question and runs for every pair, as does T5.
    """

    model_class = "InstructBlipForConditionalGeneration"
    prompt = "{question}"
    max_tokens = INSTRUCT_TOKENS
    shared = "vision tower"

    def _build(self) -> None:
        super()._build()
        self._reader = PromptTokenizer(self.folder / QFORMER_FOLDER)

    def _see(self, pixels: Any) -> Any:
        return self._network.vision_model(pixel_values=pixels).last_hidden_state

    def _rows(self, asked: Sequence[tuple[Any, str]]) -> list[Row]:
        images, questions = zip(*asked)
        return super()._rows(list(zip(self._ask(images, questions), questions)))

    def _ask(self, images: Sequence[Any], questions: Sequence[str]) -> Any:
        """The Q-Former's visual tokens, (n, queries, width of T5), for every picture with its question."""
        import torch
        from torch.nn.utils.rnn import pad_sequence

        network = self._network
        read = [self._reader(question, limit=self.max_tokens).ids for question in questions]
        ids = pad_sequence([torch.tensor(row, device=self._device) for row in read], batch_first=True)
        lengths = torch.tensor([len(row) for row in read], device=self._device)
        queries = network.query_tokens.expand(len(read), -1, -1)
        places = torch.arange(ids.shape[1], device=self._device)[None, :] < lengths[:, None]
        mask = torch.cat([places.new_ones(queries.shape[:2]), places], dim=1).long()
        states = network.qformer(
            input_ids=ids, attention_mask=mask, query_embeds=queries, encoder_hidden_states=torch.stack(list(images))
        ).last_hidden_state
        return network.language_projection(states[:, : queries.shape[1]])
