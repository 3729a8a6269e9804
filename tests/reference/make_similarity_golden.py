"""Makes `similarity.json`: cosines and scores in 50-digit decimal arithmetic, from embeddings of whole numbers.

Independent of the library: nothing but `decimal` and the formulas of the papers. Run it by hand:

    python tests/reference/make_similarity_golden.py > tests/reference/similarity.json
"""

from __future__ import annotations

import json
import sys
from decimal import Decimal, getcontext

getcontext().prec = 50
WIDTH = 512
TEMPERATURE = Decimal("4.6052")


def embedding(number: int) -> list[int]:
    """Embedding of item `number`: whole numbers from -48 to 48, so every float type from float16 holds it exactly."""
    return [((number * 37 + j * 101 + number * j * 7) % 97) - 48 for j in range(WIDTH)]


def lean(towards: list[int], own: list[int], pull: int) -> list[int]:
    return [pull * x + y for x, y in zip(towards, own)]


def cosine(a: list[int], b: list[int]) -> Decimal:
    dot = Decimal(sum(x * y for x, y in zip(a, b)))
    return dot / (Decimal(sum(x * x for x in a)).sqrt() * Decimal(sum(y * y for y in b)).sqrt())


def main() -> None:
    images = [embedding(i) for i in (1, 2, 3, 4)]
    # Texts lean towards their images, so that positive cosines occur; the last one leans away.
    texts = [lean(image, embedding(20 + i), pull) for i, (image, pull) in enumerate(zip(images, (2, 1, 0, -1)))]
    references = [lean(images[0], embedding(i), 1) for i in (50, 51, 52)]
    pairs = [cosine(a, b) for a, b in zip(images, texts)]
    matrix = [[cosine(g, r) for r in references] for g in images]
    hessel = [Decimal("2.5") * max(c, Decimal(0)) for c in pairs]
    captions = [max(max(cosine(t, r) for r in references), Decimal(0)) for t in texts]
    ref_hessel = [2 * a * b / (a + b) if a > 0 and b > 0 else Decimal(0) for a, b in zip(hessel, captions)]
    scale = TEMPERATURE.exp()
    pick = [scale * c for c in pairs]
    powers = [p.exp() for p in pick]
    golden = {
        "provenance": "tests/reference/make_similarity_golden.py, 50-digit decimal arithmetic",
        "width": WIDTH,
        "scale": scale,
        "cosine": pairs,
        "matrix": matrix,
        "hessel": hessel,
        "ref_hessel": ref_hessel,
        "clip_i_mean": [sum(row) / len(row) for row in matrix],
        "clip_i_max": [max(row) for row in matrix],
        "pick_score": pick,
        "win": [p / sum(powers) for p in powers],
    }
    json.dump(golden, sys.stdout, indent=1, default=lambda number: float(number))
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
