"""Cards of models that metrics of whole sets are defined on: facts only; what is not known is None."""

from __future__ import annotations

from collections.abc import Iterator

from beholder.records import ModelCard

INCEPTION_FILE = "weights-inception-2015-12-05-6726825d.pth"
INCEPTION_MIRROR = "pt_inception-2015-12-05-6726825d.pth"
INCEPTION_SHA256 = "6726825d"
"""How the file's sha256 begins, as its name tells."""
INCEPTION_URL = f"https://github.com/toshas/torch-fidelity/releases/download/v0.2.0/{INCEPTION_FILE}"


def cards() -> Iterator[ModelCard]:
    """The cards, by engine."""
    yield ModelCard(
        id="inception:fid", engine="inception", family="inception", arch="Inception-v3", weights="fid",
        files=(INCEPTION_FILE,), licence="Apache-2.0 (of the repositories that hold the file and of its origin, "
        "TensorFlow's model of 2015-12-05)", commercial=True,
        paper="Szegedy et al. 2015, Rethinking the Inception Architecture, arXiv 1512.00567",
        input_size=(299, 299), embed_dim=2048, capabilities=("ImageEncoder",), layout_verified="listing",
        notes=(
            "The features behind FID and KID: 2048 numbers before the classifier. Another Inception-v3 (torchvision's) "
            "gives other numbers.",
            f"pytorch-fid passes the same file on as {INCEPTION_MIRROR}; both are found in torch's hub cache.",
        ),
    )  # fmt: skip
