"""Video-text networks over checked weights: what UMT and InternVideo2 have in common, and how their files are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from beholder._errors import WeightsMismatchError
from beholder.backends.bert_fusion import FusionBert, Shapes
from beholder.backends.torch_io import check_keys, read_state

V = TypeVar("V")


class Seen(NamedTuple):
    """What a network saw in n clips.

    Args:
        tokens: (n, tokens, width), what the text side looks at.
        projected: (n, parts, embed), projected and unnormalised: a part for each frame, or one for the clip.
    """

    tokens: Any
    projected: Any


class Sizes(Protocol):
    """Sizes of a network, told by the shapes of its state dict."""

    def layout(self) -> Shapes: ...


class VideoNetwork:
    """A vision side (`see`, of the subclass), a fusion BERT, a shared space and a head for matching.

    Args:
        weights: tensors by name.
        bert: the text side.
    """

    def __init__(self, weights: Mapping[str, Any], bert: FusionBert) -> None:
        self._weights, self._bert = weights, bert
        self.vocabulary = len(weights["text_encoder.embeddings.word_embeddings.weight"])

    def see(self, clips: Any) -> Seen:
        """(n, 3, frames, h, w), normalised, to what was seen."""
        raise NotImplementedError("a subclass sees")

    def read(self, ids: Any, mask: Any) -> Any:
        """(n, t) token ids and mask to hidden states (n, t, width) of the text alone."""
        return self._bert.read(ids, mask)

    def project_text(self, hidden: Any) -> Any:
        """Hidden states from `read` to (n, embed), projected and unnormalised: that of the first token."""
        return self._linear("text_proj", hidden[:, 0])

    def match(self, hidden: Any, mask: Any, tokens: Any) -> Any:
        """Hidden states from `read` with the tokens of as many clips to (n, 2) logits: no match, match."""
        return self._linear("itm_head", self._bert.fuse(hidden, mask, tokens)[:, 0])

    def _pair(self, name: str) -> tuple[Any, Any]:
        return self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]

    def _linear(self, name: str, values: Any) -> Any:
        import torch.nn.functional as F

        return F.linear(values, *self._pair(name))

    def _norm(self, name: str, values: Any, eps: float) -> Any:
        import torch.nn.functional as F

        return F.layer_norm(values, (values.shape[-1],), *self._pair(name), eps)


def without_prefix(items: Mapping[str, V], prefix: str) -> dict[str, V]:
    """The items whose names begin with `prefix`, by the rest of their names."""
    return {name.removeprefix(prefix): value for name, value in items.items() if name.startswith(prefix)}


def fit_state(
    state: Mapping[str, Any],
    sizes_of: Callable[[Mapping[str, tuple[int, ...]]], Any],
    *,
    rename: Callable[[str], str],
    extras: Iterable[re.Pattern[str]],
    name: str,
) -> tuple[dict[str, Any], Any]:
    """The tensors that a network needs, out of a checkpoint, and the sizes that they tell.

    Args:
        state: tensors by the checkpoint's names.
        sizes_of: from shapes by name to the sizes.
        rename: from the checkpoint's names to the network's.
        extras: names (after renaming) that may be there and are not needed.
        name: what messages call the model.

    Raises:
        WeightsMismatchError: a name is missing, or is neither needed nor a known extra, or has another shape.
    """
    allowed = tuple(extras)
    kept = {
        new: tensor
        for new, tensor in ((rename(old), tensor) for old, tensor in state.items())
        if not any(pattern.search(new) for pattern in allowed)
    }
    shapes = {key: tuple(int(side) for side in tensor.shape) for key, tensor in kept.items()}
    try:
        sizes = sizes_of(shapes)
    except (KeyError, ValueError, IndexError) as error:
        what = error.args[0] if error.args else type(error).__name__
        raise WeightsMismatchError(
            f"the weights of {name} must be a checkpoint of its kind", got=f"one without {what}"
        ) from error
    wanted = sizes.layout()
    both = wanted.keys() & shapes.keys()
    check_keys(
        name,
        missing=wanted.keys() - shapes.keys(),
        unexpected=shapes.keys() - wanted.keys(),
        mismatched=[(key, shapes[key], wanted[key]) for key in both if shapes[key] != wanted[key]],
    )
    return kept, sizes


def read_scale(path: Path) -> dict[str, float]:
    """The constant `logit_scale` of a checkpoint: 1 / `temp`."""
    state = read_state(path)
    return {"logit_scale": 1.0 / float(state["temp"].float())} if "temp" in state else {}
