"""Kinds of feature: what each is made of, by which capability, and by which method of a backend.

A *visual* is one thing to look at: a still picture, a video's chosen frames, or pictures derived from a picture (face
crops, a masked subject). A kind with `per_picture` looks at each picture by itself: a visual of several pictures then
has one row of features a picture. The other kinds take all pictures of a visual together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from beholder._errors import UnknownNameError


@dataclass(frozen=True)
class Kind:
    """One kind of feature.

    Args:
        name: what slots call it.
        item: what an item of it is: a visual, a text, a pair of both, or another feature of a visual.
        capability: what a backend must be able to do.
        method: the backend's method that makes it (see `backends.base`).
        per_picture: True when each picture of a visual is looked at by itself.
        takes: for kinds of features of features: the column that the method is given a row of for each picture.
    """

    name: str
    item: Literal["visual", "text", "pair", "feature"]
    capability: str
    method: str
    per_picture: bool = True
    takes: str = ""

    @property
    def has_visual(self) -> bool:
        """True when pixels take part."""
        return self.item != "text"


_KINDS = (
    Kind("image_embedding", "visual", "ImageTextEncoder", "encode_images"),
    Kind("video_embedding", "visual", "VideoTextEncoder", "encode_videos", per_picture=False),
    Kind("text_embedding", "text", "ImageTextEncoder", "encode_texts"),
    Kind("match", "pair", "Matcher", "match"),
    Kind("answer", "pair", "AnswerScorer", "answer"),
    Kind("reply", "pair", "Judge", "reply"),
    Kind("image_score", "visual", "ImageScorer", "score_images"),
    Kind("reference_score", "pair", "ReferenceScorer", "score_pairs"),
    Kind("hashes", "visual", "PictureHasher", "hash_pictures"),
    Kind("head_score", "feature", "EmbeddingHead", "score_embeddings", takes="embedding"),
    Kind("faces", "visual", "FaceAnalyser", "analyse"),
    Kind("segments", "pair", "Segmenter", "segment"),
    Kind("detections", "pair", "Detector", "detect"),
    Kind("example_detections", "pair", "ExampleDetector", "detect_examples"),
    Kind("patches", "visual", "PatchEncoder", "encode_patches"),
    Kind("clip_numbers", "visual", "ClipMeter", "measure_clips", per_picture=False),
    Kind("frame_quality", "visual", "FrameScorer", "score_frames", per_picture=False),
)

KINDS = {kind.name: kind for kind in _KINDS}


def kind_of(feature: str) -> Kind:
    """The kind of that name.

    Raises:
        UnknownNameError: there is none.
    """
    if feature not in KINDS:
        raise UnknownNameError("kind of feature", feature, KINDS)
    return KINDS[feature]
