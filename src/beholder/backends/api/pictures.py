"""How a picture is sent: format, quality and size, pinned to Pillow and part of a model's identity."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
from typing import Any

from beholder.functional.area_resize import fit_longer_side, resize_area
from beholder.media.base import Picture


@dataclass(frozen=True)
class Encoding:
    """How pictures become the bytes of a request.

    Args:
        image: "jpeg" or "png".
        quality: quality of JPEG, 1 to 100. Colours are not subsampled at 90 and above.
        side: pixels of the longer side, at most (the picture is never enlarged); 0 for any size.
        detail: the field `detail` of OpenAI's dialect ("low", "high", "auto"), "" for leaving it out.
        resize: "lanczos", or "area": the longer side becomes `side`, up or down, by OpenCV's area filter, and JPEG is
            written as OpenCV writes it (colours subsampled at any quality). Needs a side.
    """

    image: str = "jpeg"
    quality: int = 95
    side: int = 1024
    detail: str = ""
    resize: str = "lanczos"

    @property
    def mime(self) -> str:
        return f"image/{self.image}"

    def as_json(self) -> dict[str, Any]:
        """All of it, JSON-ready, with the library that does the work."""
        facts: dict[str, Any] = {"library": "pillow", "format": self.image, "max_side": self.side or None}
        if self.side:
            facts["interpolation"] = self.resize
        if self.image == "jpeg":
            facts |= {"quality": self.quality, "subsampling": self._subsampling}
        if self.detail:
            facts["detail"] = self.detail
        return facts

    def encode(self, picture: Picture) -> str:
        """A picture's file in base64."""
        from PIL import Image

        image = Image.fromarray(picture.pixels)
        longer = max(image.size)
        if self.resize == "area" and self.side:
            image = Image.fromarray(resize_area(picture.pixels, fit_longer_side(*image.size, self.side)))
        elif self.side and longer > self.side:
            size = [max(1, round(length * self.side / longer)) for length in image.size]
            image = image.resize((size[0], size[1]), resample=Image.Resampling.LANCZOS)
        buffer = io.BytesIO()
        if self.image == "png":
            image.save(buffer, "PNG", compress_level=6)
        else:
            image.save(buffer, "JPEG", quality=self.quality, subsampling=self._subsampling)
        return base64.b64encode(buffer.getvalue()).decode("ascii")

    @property
    def _subsampling(self) -> str:
        return "4:4:4" if self.quality >= 90 and self.resize != "area" else "4:2:0"
