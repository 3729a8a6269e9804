"""Cards of the face models: facts only; what is not known for sure is None."""

from __future__ import annotations

from collections.abc import Iterator

from beholder.records import ModelCard

INSIGHTFACE_LICENCE = "InsightFace's model packs: non-commercial research only"
OPENS2V_REPO = "BestWishYsh/OpenS2V-Weight"
RETINAFACE_FILE = "mobilenet0.25_Final.pth"
RETINAFACE_URL = f"https://github.com/elliottzheng/face-detection/releases/download/0.0.1/{RETINAFACE_FILE}"
BACKBONE_FILE = "glint360k_curricular_face_r101_backbone.bin"
DETECTOR_FILE, RECOGNITION_FILE = "det_10g.onnx", "w600k_r50.onnx"
PREDICTOR_FILE = "shape_predictor_5_face_landmarks.dat"
DLIB_FILE = "dlib_face_recognition_resnet_model_v1.dat"

_SCRFD = "Guo et al. 2021, Sample and Computation Redistribution for Efficient Face Detection, arXiv 2105.04714"


def cards() -> Iterator[ModelCard]:
    """The cards, by engine."""
    yield ModelCard(
        id="retinaface:mobilenet0.25",
        engine="retinaface",
        family="retinaface",
        capabilities=("FaceAnalyser",),
        arch="mobilenet0.25",
        weights="mobilenet0.25",
        files=(RETINAFACE_FILE,),
        size_bytes=1_800_000,
        licence="MIT (repository biubug6/Pytorch_Retinaface)",
        paper="Deng et al. 2019, RetinaFace, arXiv 1905.00641",
        aliases=("retinaface",),
        layout_verified="listing",
        notes=(
            "Finds faces and five landmarks; it has no recognition network.",
            f"The file that FaceScore uses: {RETINAFACE_URL}",
            "Trained on WIDER FACE, whose pictures have terms of their own.",
            "The layout was also checked on a released file of the same layout from the same author.",
        ),
    )  # fmt: skip
    yield ModelCard(
        id="curricularface:ir-101",
        engine="curricularface",
        family="curricularface",
        capabilities=("FaceAnalyser",),
        arch="ir-101",
        weights="ir-101",
        source=OPENS2V_REPO,
        files=(BACKBONE_FILE, DETECTOR_FILE),
        size_bytes=278_000_000,
        licence=f"Detector: {INSIGHTFACE_LICENCE}. Recognition: none stated for the weights",
        commercial=False,
        paper="Huang et al. 2020, CurricularFace, arXiv 2004.00288",
        input_size=(112, 112),
        embed_dim=512,
        aliases=("curricularface",),
        layout_verified="listing",
        notes=(
            f"Detector det_10g of InsightFace's pack buffalo_l: {_SCRFD}.",
            "The recognition network was trained on Glint360K.",
            "Needs the extra 'faces' (onnxruntime).",
        ),
    )  # fmt: skip
    yield ModelCard(
        id="insightface:buffalo_l",
        engine="insightface",
        family="arcface",
        capabilities=("FaceAnalyser",),
        arch="w600k_r50",
        weights="buffalo_l",
        source=OPENS2V_REPO,
        files=(DETECTOR_FILE, RECOGNITION_FILE),
        size_bytes=191_000_000,
        licence=INSIGHTFACE_LICENCE,
        commercial=False,
        paper="Deng et al. 2018, ArcFace, arXiv 1801.07698",
        input_size=(112, 112),
        embed_dim=512,
        aliases=("insightface", "buffalo_l"),
        notes=(f"Detector: {_SCRFD}.", "Needs the extra 'faces' (onnxruntime)."),
    )
    yield ModelCard(
        id="dlib:resnet-v1",
        engine="dlib",
        family="dlib",
        capabilities=("FaceAnalyser",),
        arch="resnet-v1",
        weights="resnet-v1",
        files=(PREDICTOR_FILE, DLIB_FILE),
        size_bytes=31_616_555,
        sha256={
            PREDICTOR_FILE: "c4b1e9804792707d3a405c2c16a80a20269e6675021f64a41d30fffafbc41888",
            DLIB_FILE: "55533b28a95800a551ba546ba62fe69625c7e95a7061c338adffead08719da30",
        },
        licence="CC0-1.0 (weights), BSL-1.0 (dlib)",
        commercial=True,
        paper="King 2009, Dlib-ml: A Machine Learning Toolkit, JMLR 10",
        input_size=(150, 150),
        embed_dim=128,
        aliases=("dlib",),
        layout_verified="weights",
        notes=(
            "Made to be compared by Euclidean distance (one person below 0.6); its vectors lie close together, so that"
            " cosines of different persons are around 0.8.",
            "Landmarks: outer and inner corner of both eyes, and the nose's base.",
            "Needs the extra 'dlib': dlib-bin, and face-recognition-models, which brings the files.",
        ),
    )
