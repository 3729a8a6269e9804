"""What a metric may ask of a model, and what an engine must give: capabilities, features, resolved models.

A *resolved* model is known by its files alone: card, weights hash, preprocessing, dtype. That is enough to look
features up in the store, so a run whose features are all stored never loads a model. A *backend* is the loaded model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from beholder._errors import NoValue
from beholder._hashing import hash_json
from beholder.media.base import Picture
from beholder.records import ModelCard

if TYPE_CHECKING:
    import numpy as np

    from beholder.backends.api.options import ApiOptions

Columns = Mapping[str, "np.ndarray"]
"""One feature of n items as arrays by name, each with leading dimension n.

An array of dtype object holds one thing a row: arrays of one dtype and one width that differ in length (the boxes of a
picture: (k, 4)), or texts. The feature store keeps both.
"""


@dataclass(frozen=True)
class Made:
    """What a backend made of n items.

    Args:
        columns: features by name, n rows each. Rows of failed items are there too and are never read.
        failures: row → why it has no feature ("no_face", "refused" …). An exception instead fails the whole batch,
            whose items are then tried one by one.
    """

    columns: Columns
    failures: Mapping[int, NoValue] = field(default_factory=dict)


@dataclass(frozen=True)
class ResolvedModel:
    """A model that was found, not yet loaded.

    Args:
        asked: the name that was asked for.
        id: canonical id, `engine:arch/weights`.
        card: its card, completed from the files (input size, context length, embedding width).
        location: folder or file that holds the weights; "" for models made in memory. Never printed into run files.
        weights_sha256: hash over all weight files (and tokenizer and preprocessing files, since they move numbers).
        preprocessing: the pinned preprocessing, JSON-ready.
        dtype: dtype of the forward pass ("float32", "bfloat16", "float16").
        details: what the engine needs for loading, JSON-ready, free of paths.
        locations: further folders by role (a tokenizer that stands elsewhere). Never printed into run files.
        constants: numbers that belong to the checkpoint ("logit_scale": exp of the stored parameter), known before
            loading, so that a run whose features are all stored has them too.
        capability: what the loaded model can do (see `kinds.py`). A file may serve several: BLIP-2 encodes and matches.
    """

    asked: str
    id: str
    card: ModelCard
    location: str
    weights_sha256: str
    preprocessing: Mapping[str, Any]
    dtype: str
    details: Mapping[str, Any] = field(default_factory=dict)
    locations: Mapping[str, str] = field(default_factory=dict)
    constants: Mapping[str, float] = field(default_factory=dict)
    capability: str = "ImageTextEncoder"

    @property
    def key(self) -> str:
        """Hash of everything about the model that a feature depends on; no path, no device."""
        facts: dict[str, Any] = {
            "weights": self.weights_sha256,
            "engine": self.id.partition(":")[0],
            "arch": self.card.arch,
            "preprocessing": dict(self.preprocessing),
            "dtype": self.dtype,
        }
        if self.capability != "ImageTextEncoder":
            facts["capability"] = self.capability
        return hash_json(facts)


class Engine(Protocol):
    """A family of backends behind one name ("hf", "open_clip", "demo", "fake")."""

    name: str

    def cards(self) -> Sequence[ModelCard]:
        """Cards of the models it knows by name; imports nothing heavy."""
        ...

    def resolve(self, name: str, *, dtype: str, options: LoadOptions) -> ResolvedModel:
        """Finds a model's files (fetching them when allowed) and hashes them. Imports no torch where it can be helped.

        Raises:
            UnknownNameError: the engine has no such model.
            WeightsMissingError: nowhere to be found; the message names every place looked in, size, licence, commands.
            WeightsMismatchError: a file's hash is not the card's.
        """
        ...

    def load(self, model: ResolvedModel, *, device: str) -> Any:
        """Loads the model completely, as its `capability`, or raises `WeightsMismatchError`."""
        ...


@dataclass(frozen=True)
class LoadOptions:
    """Where weights may come from.

    Args:
        cache_dir: a folder to look in first, or None.
        offline: True forbids every fetch; None follows HF_HUB_OFFLINE.
        api: settings for models behind an HTTP interface (key, base URL, budget …); None takes the environment's.
    """

    cache_dir: str | None = None
    offline: bool | None = None
    api: ApiOptions | None = None


class ImageEncoder(Protocol):
    """Images alone to a space: DINO and its kin. An `ImageTextEncoder` is one too, so `image_embedding` takes both.

    The contract is that of `ImageTextEncoder` for pictures.
    """

    model: ResolvedModel
    constants: Mapping[str, float]
    image_batch: int

    def prepare_image(self, picture: Picture) -> np.ndarray: ...

    def encode_images(self, batch: np.ndarray) -> np.ndarray: ...

    def close(self) -> None: ...


@runtime_checkable
class ImageTextEncoder(Protocol):
    """Images and texts to one space: CLIP and its kin.

    `constants` holds numbers that belong to the checkpoint ("logit_scale": exp of the stored parameter).
    `encode_images` takes a stack of prepared images, (n, …), and gives *projected, unnormalised* float32 embeddings
    (n, d); n is always `image_batch` or less, and the engine pads short batches by repeating rows so that n is fixed.
    `encode_texts` gives columns "embedding" (n, d) float32, "n_tokens" (n,) int32 (tokens before truncation, start
    and end included), "truncated" (n,) bool. Every text is padded to one fixed length, or to one that depends on the
    text alone, so that a row's numbers don't depend on its neighbours. An encoder of the second kind has a method
    `text_lengths(texts)` that tells those lengths: the engine then gives it batches of one length.
    """

    model: ResolvedModel
    constants: Mapping[str, float]
    image_batch: int
    text_batch: int

    def prepare_image(self, picture: Picture) -> np.ndarray:
        """One decoded picture to the model's input; runs in decode threads, so it must be thread-safe."""
        ...

    def encode_images(self, batch: np.ndarray) -> np.ndarray: ...

    def encode_texts(self, texts: Sequence[str]) -> Columns: ...

    def close(self) -> None: ...


class PatchEncoder(ImageTextEncoder, Protocol):
    """An encoder that also gives the tokens of an image's patches, in the same pass as its embedding.

    `encode_patches` takes what `encode_images` takes and gives columns:
    "embedding" (n, d) float32: what `encode_images` gives, to rounding (1e-5 of its length);
    "embedding_bypassed" (n, d) float32: the global token with the last block's attention bypassed;
    "patches" (n, P, d) float16: projected patch tokens with the last block's attention bypassed, of length 1 (or of
    any length that float16 holds), row by row over the grid;
    "attention" (n, P, P) float16: attention among patches, mean over heads and all blocks but the last, rows not
    renormalised;
    "grid" (n, 2) int32: rows and columns of patches.

    It is no model of its own: resolved for this capability, a model is the same `ImageTextEncoder` with the same key.
    An engine says by `patch_fault(model)` why one of its models cannot do it (None where it can).
    """

    def encode_patches(self, batch: np.ndarray) -> Columns: ...


class VisualModel(Protocol):
    """What all models of visuals but `ImageTextEncoder` have in common.

    Their method (see `kinds.py`) takes prepared visuals and gives `Made`. For kinds of pairs it also takes
    `pairs`, a list of (number of the visual in `visuals`, text): a visual's own work is done once for all its texts.
    The slot's parameters come as keywords (to `prepare` those that a model names in an attribute `prepare_with`, since
    they move pixels). Numbers of a row must not depend on its neighbours.

    `batch` is how many visuals come at once; the engine fills a short batch up with copies where the kind is not one
    of pairs. `pair_batch` is how many pairs come at once, at most. `takes_video` is True when several pictures make
    one visual (`prepare` is then given all of them, in order); else `prepare` is given one picture.
    """

    model: ResolvedModel
    constants: Mapping[str, float]
    batch: int
    takes_video: bool

    def prepare(self, pictures: Sequence[Picture]) -> Any:
        """The model's input for one visual; runs in decode threads, so it must be thread-safe."""
        ...

    def close(self) -> None: ...


class VideoTextEncoder(VisualModel, Protocol):
    """Videos and texts to one space: X-CLIP, VideoPrism, UMT, InternVideo2. A still picture is a clip of equal frames.

    `frames` is how many frames a clip has (a policy `uniform:frames` is the default for it). `encode_videos` gives the
    column "embedding" (n, d); `encode_texts` is that of `ImageTextEncoder`.
    """

    frames: int
    text_batch: int

    def encode_videos(self, visuals: Sequence[Any]) -> Made: ...

    def encode_texts(self, texts: Sequence[str]) -> Columns: ...


class Matcher(VisualModel, Protocol):
    """Visual and text to one matching value: BLIP, BLIP-2, ImageReward.

    `match` gives the column "logit" (n,) float32: for a head of two classes the difference of the match and no-match
    logits, so that sigmoid(logit) is the softmax's probability; for a reward model its reward. It may add
    "n_tokens" and "truncated" of the text.
    """

    pair_batch: int

    def match(self, visuals: Sequence[Any], pairs: Sequence[tuple[int, str]]) -> Made: ...


class AnswerScorer(VisualModel, Protocol):
    """Visual and question to how likely an answer is: vision-language models, local ones and APIs.

    `answer` gives columns of log probabilities (n,) float64 (-inf where a probability is 0):
    "first_token": of the first token of `answer` at the first answer position, over the whole vocabulary;
    "sequence": of all tokens of `answer` (and the end token where the family's published rule counts it);
    "n_answer" (n,) int32: how many tokens that were; "yes", "no": of all forms of yes and of no at that position;
    "rest": of what the model did not tell (APIs return the top tokens only), -inf for local models.
    A model that cannot give a column leaves it out. The question is the rendered prompt's text; chat markup and where
    the picture goes are the family's own matter, and are stated in `model.preprocessing["prompt"]`.
    """

    pair_batch: int

    def answer(self, visuals: Sequence[Any], pairs: Sequence[tuple[int, str]], *, answer: str = "Yes") -> Made: ...


class Judge(VisualModel, Protocol):
    """Visual and instruction to a written reply.

    `reply` gives the column "text" (object: str): the raw reply. Refusals, time-outs and empty replies are failures.
    """

    pair_batch: int

    def reply(self, visuals: Sequence[Any], pairs: Sequence[tuple[int, str]], **settings: Any) -> Made: ...


class ImageScorer(VisualModel, Protocol):
    """One number a picture, without a text: aesthetics, artness. `score_images` gives the column "score" (n,)."""

    def score_images(self, visuals: Sequence[Any]) -> Made: ...


class ReferenceScorer(VisualModel, Protocol):
    """One number for a picture and a reference picture: PSNR, SSIM, LPIPS.

    `score_pairs` takes pairs of (number of the visual, what `prepare_example` gave of the reference) and gives the
    column "score" (n,) float64.
    """

    pair_batch: int

    def prepare_example(self, picture: Picture) -> Any:
        """The model's form of a reference; called once for each reference in a batch of pairs."""
        ...

    def score_pairs(self, visuals: Sequence[Any], pairs: Sequence[tuple[int, Any]]) -> Made: ...


class PictureHasher(VisualModel, Protocol):
    """Hashes by which copies are known. `hash_pictures` gives "pixels" (n, 32) uint8: sha256 over the decoded pixels
    and their shape; "hash" and "mirrored" (n,) uint64: perceptual hashes of the picture and of its mirror image.
    """

    def hash_pictures(self, visuals: Sequence[Any]) -> Made: ...


class EmbeddingHead(Protocol):
    """A small network on an encoder's embedding of a picture: no pixels, no encoder of its own.

    `score_embeddings` takes embeddings (d,) float32 as the encoder gives them, unnormalised, and gives the column
    "score" (n,) float64. An embedding of another width than the head was trained on is a `ModelError`; one without
    direction is a failure. `constants` may hold "low" and "high", the least and the largest value that can come out.
    """

    model: ResolvedModel
    constants: Mapping[str, float]
    batch: int

    def score_embeddings(self, embeddings: Sequence[np.ndarray]) -> Made: ...

    def close(self) -> None: ...


class FaceAnalyser(VisualModel, Protocol):
    """The faces of a picture. `analyse` gives object columns with one row a face, by falling score:

    "boxes" (k, 4) float32, x0 y0 x1 y1 in pixels of the decoded picture, clamped to it; "scores" (k,) float32;
    "landmarks" (k, p, 2) float32; "embedding" (k, d) float32, where the backend has a recognition model. It may add
    "areas" (k,) float64, of the boxes before they were clamped. A picture without a face has k = 0: that is a result,
    not a failure.
    """

    def analyse(self, visuals: Sequence[Any], **settings: Any) -> Made: ...


class Segmenter(VisualModel, Protocol):
    """Picture and short phrase to instances.

    `segment` gives object columns with one row an instance, by falling score: "scores" (k,) float32, "boxes" (k, 4)
    float32 (x0 y0 x1 y1 in pixels of the decoded picture), "counts" uint32: the run lengths of all k masks one
    behind the other (column by column, background first, as in COCO), "lengths" (k,) int32: how many counts each mask
    has; and the plain columns "size" (n, 2) int32: height and width of the masks, which are those of the decoded
    picture, and "phrase" (n,) int32: which phrase was used. No instance is k = 0: a result, not a failure.

    The text holds one phrase a line: the first that finds an instance is used; where none does, "phrase" is that of
    the last. `threshold` and `mask_threshold` (probabilities) are always given; a value must be larger to count.
    A visual of joined media (`metrics.base.Joined`) is a picture and its mask, for the segmenter of given masks.
    """

    pair_batch: int

    def segment(self, visuals: Sequence[Any], pairs: Sequence[tuple[int, str]], **settings: Any) -> Made: ...


class Detector(VisualModel, Protocol):
    """Picture and phrase to boxes: the columns "scores" and "boxes" of `Segmenter`."""

    pair_batch: int

    def detect(self, visuals: Sequence[Any], pairs: Sequence[tuple[int, str]], **settings: Any) -> Made: ...


class ExampleDetector(VisualModel, Protocol):
    """Picture and example picture to boxes of what looks like the example.

    `detect_examples` takes pairs of (number of the visual, what `prepare_example` gave) and gives the columns "scores"
    and "boxes" of `Segmenter`, and "size" (n, 2) int32: height and width of the decoded picture. No box is k = 0.
    """

    pair_batch: int

    def prepare_example(self, picture: Picture) -> Any:
        """The model's form of an example; called once for each example in a batch of pairs."""
        ...

    def detect_examples(self, visuals: Sequence[Any], pairs: Sequence[tuple[int, Any]], **settings: Any) -> Made: ...


class ClipMeter(VisualModel, Protocol):
    """Numbers of a clip that need its frames one after another, without a network: motion, flicker.

    `streams` is True: `prepare` is given an iterator of the frames, and holds few of them. `measure_clips` gives plain
    columns of numbers (n,) float64, and "n_frames" (n,) int32.
    """

    streams: bool

    def measure_clips(self, visuals: Sequence[Any]) -> Made: ...


class FrameScorer(VisualModel, Protocol):
    """A quality of each frame of a clip, seen among its neighbours. It may stream as a `ClipMeter` does.

    `score_frames` gives the object column "scores": (frames,) float64 of each clip.
    """

    def score_frames(self, visuals: Sequence[Any]) -> Made: ...
