"""Engine "umt": Unmasked Teacher's video-text models, B/16 and L/16, pretrained on 25 million pairs.

Li et al. 2023, arXiv 2303.16058. Clips of 4 frames and texts of 32 tokens, as its zero-shot retrieval settings have
them. The published similarity is the mean over frames of each frame's cosine with the text.
"""

from __future__ import annotations

from beholder.backends.video_own import Family, OwnVideoEngine

FAMILY = Family(
    engine="umt",
    network="beholder.backends.umt_network",
    models={
        "b16-25m": ("zhiqiulin/umt_b16_25m", ("umt_b16_25m.pth", "b16_25m.pth")),
        "l16-25m": ("zhiqiulin/umt_l16_25m", ("umt_l16_25m.pth", "l16_25m.pth")),
    },
    frames=4,
    text_length=32,
    by_frame=True,
)

ENCODER = OwnVideoEngine(FAMILY, "VideoTextEncoder")
MATCHER = OwnVideoEngine(FAMILY, "Matcher")
