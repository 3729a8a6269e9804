"""Sizes of weights: the parameters of open_clip's architectures, counted without weights, at four bytes each.

The published files are float32 with a header of a few kilobytes, so their downloads have these sizes to a megabyte.
"""

from __future__ import annotations

FLOAT32_BYTES = {
    "ViT-B-16-SigLIP": 813_000_000,
    "ViT-B-16-SigLIP-256": 813_000_000,
    "ViT-B-16-SigLIP-384": 814_000_000,
    "ViT-B-16-SigLIP-512": 815_000_000,
    "ViT-L-16-SigLIP-256": 2_609_000_000,
    "ViT-L-16-SigLIP-384": 2_610_000_000,
    "ViT-SO400M-14-SigLIP-384": 3_512_000_000,
    "ViT-B-16-SigLIP2": 1_501_000_000,
    "ViT-B-16-SigLIP2-256": 1_501_000_000,
    "ViT-B-16-SigLIP2-384": 1_502_000_000,
    "ViT-B-16-SigLIP2-512": 1_503_000_000,
    "ViT-B-32-SigLIP2-256": 1_507_000_000,
    "ViT-L-16-SigLIP2-256": 3_526_000_000,
    "ViT-L-16-SigLIP2-384": 3_527_000_000,
    "ViT-L-16-SigLIP2-512": 3_529_000_000,
    "ViT-SO400M-14-SigLIP2": 4_542_000_000,
    "ViT-SO400M-14-SigLIP2-378": 4_544_000_000,
    "ViT-SO400M-16-SigLIP2-256": 4_543_000_000,
    "ViT-SO400M-16-SigLIP2-384": 4_544_000_000,
    "ViT-SO400M-16-SigLIP2-512": 4_546_000_000,
    "ViT-B-32": 605_000_000,
    "ViT-B-32-256": 605_000_000,
    "ViT-B-16": 598_000_000,
    "ViT-L-14": 1_710_000_000,
    "ViT-H-14": 3_944_000_000,
    "ViT-g-14": 5_467_000_000,
    "ViT-bigG-14": 10_158_000_000,
    "ViT-B-16-quickgelu": 598_000_000,
    "ViT-L-14-quickgelu": 1_710_000_000,
    "ViT-H-14-quickgelu": 3_944_000_000,
    "RN50-quickgelu": 408_000_000,
    "RN101-quickgelu": 479_000_000,
    "RN50x4-quickgelu": 713_000_000,
    "RN50x16-quickgelu": 1_164_000_000,
    "RN50x64-quickgelu": 2_493_000_000,
    "ViT-B-32-quickgelu": 605_000_000,
    "ViT-L-14-336-quickgelu": 1_712_000_000,
}
"""Architecture as open_clip names it → bytes."""
