"""How a picture is sent: format, quality and size, pinned to Pillow and part of a model's identity."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import Any

from beholder.media.base import Picture


@dataclass(frozen=True)
class Encoding:
    """How pictures become the bytes of a request.

    Args:
        image: "jpeg" or "png".
        quality: quality of JPEG, 1 to 100. Colours are not subsampled at 90 and above.
        side: pixels of the longer side, at most (the picture is never enlarged); 0 for any size.
        detail: the field `detail` of OpenAI's dialect ("low", "high", "auto"), "" for leaving it out.
    """

    image: str = "jpeg"
    quality: int = 95
    side: int = 1024
    detail: str = ""

    @property
    def mime(self) -> str:
        return f"image/{self.image}"

    def as_json(self) -> dict[str, Any]:
        """All of it, JSON-ready, with the library that does the work."""
        facts: dict[str, Any] = {"library": "pillow", "format": self.image, "max_side": self.side or None}
        if self.side:
            facts["interpolation"] = "lanczos"
        if self.image == "jpeg":
            facts |= {"quality": self.quality, "subsampling": _subsampling(self.quality)}
        if self.detail:
            facts["detail"] = self.detail
        return facts

    def encode(self, picture: Picture) -> str:
        """A picture's file in base64."""
        from PIL import Image

        image = Image.fromarray(picture.pixels)
        longer = max(image.size)
        if self.side and longer > self.side:
            size = [max(1, round(length * self.side / longer)) for length in image.size]
            image = image.resize((size[0], size[1]), resample=Image.Resampling.LANCZOS)
        buffer = io.BytesIO()
        if self.image == "png":
            image.save(buffer, "PNG", compress_level=6)
        else:
            image.save(buffer, "JPEG", quality=self.quality, subsampling=_subsampling(self.quality))
        return base64.b64encode(buffer.getvalue()).decode("ascii")


def _subsampling(quality: int) -> str:
    return "4:4:4" if quality >= 90 else "4:2:0"
