"""Engine "internvideo2": InternVideo2 stage 2 with one billion parameters.

Wang et al. 2024, arXiv 2403.15377. Clips of 4 frames and texts of 40 tokens, as its zero-shot retrieval settings have
them.
"""

from __future__ import annotations

from beholder.backends.video_own import Family, OwnVideoEngine

FAMILY = Family(
    engine="internvideo2",
    network="beholder.backends.internvideo2_network",
    models={
        "1b-stage2": (
            "OpenGVLab/InternVideo2-Stage2_1B-224p-f4",
            ("InternVideo2-stage2_1b-224p-f4.pt", "internvideo2_1b_stage2.pth"),
        ),
    },
    frames=4,
    text_length=40,
    by_frame=False,
)

ENCODER = OwnVideoEngine(FAMILY, "VideoTextEncoder")
MATCHER = OwnVideoEngine(FAMILY, "Matcher")
