"""Every engine on a GPU that is not there (`fake_cuda.py`): the CPU's numbers in float32, and all dtypes run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.backends.fake_cuda import fake_cuda, parts_off_gpu  # noqa: E402
from tests.backends.gpu_cases import CASES, PICTURES, Found  # noqa: E402
from tests.models_faces import random_state  # noqa: E402
from tests.models_pyiqa import install  # noqa: E402

from beholder.backends.pool import load_model, resolve_model  # noqa: E402
from beholder.functional.faces import ARCFACE_TEMPLATE  # noqa: E402
from beholder.media.base import DecodeOptions  # noqa: E402
from beholder.media.sources import as_medium  # noqa: E402
from beholder.runs.batching import checked  # noqa: E402

HALF = [(engine, "float16") for engine in CASES] + [(engine, "bfloat16") for engine in ("clip", "siglip", "metaclip2")]
"""float16 is for GPUs alone; bfloat16 takes a path of its own in these families (`half_products.py`)."""

Named = Callable[[str], str]


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Named]:
    """The name of an engine's tiny model; made once."""
    made: dict[str, str] = {}

    def name(engine: str) -> str:
        if engine not in made:
            made[engine] = CASES[engine].make(tmp_path_factory.mktemp("gpu"), patch)
        return made[engine]

    with pytest.MonkeyPatch.context() as patch:
        yield name


def run(engine: str, name: str, dtype: str, device: str) -> Found:
    case = CASES[engine]
    model = load_model(resolve_model(name, capability=case.capability, dtype=dtype), device=device)
    try:
        return case.run(model)
    finally:
        model.close()


def run_on_gpu(engine: str, name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> Found:
    case = CASES[engine]
    with fake_cuda(monkeypatch) as gpu:
        model = load_model(resolve_model(name, capability=case.capability, dtype=dtype), device="cuda")
        assert not list(parts_off_gpu(gpu, model))
        found = case.run(model)
        model.close()
        assert gpu.operations
    return found


@pytest.mark.parametrize("engine", list(CASES))
def test_float32_gives_the_cpus_numbers(engine: str, named: Named, monkeypatch: pytest.MonkeyPatch) -> None:
    name = named(engine)
    wanted, found = run(engine, name, "float32", "cpu"), run_on_gpu(engine, name, "float32", monkeypatch)
    assert list(found) == list(wanted)
    for column, values in found.items():
        assert (values.dtype, values.shape) == (wanted[column].dtype, wanted[column].shape), column
        for one, other in zip(values, wanted[column]) if values.dtype == object else [(values, wanted[column])]:
            if isinstance(one, str):
                assert one == other
            else:
                np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5, err_msg=column)


@pytest.mark.parametrize(("engine", "dtype"), HALF)
def test_half_dtypes_run(engine: str, dtype: str, named: Named, monkeypatch: pytest.MonkeyPatch) -> None:
    for column, values in run_on_gpu(engine, named(engine), dtype, monkeypatch).items():
        if values.dtype != object and values.dtype.kind == "f" and not column.endswith("rest"):
            assert np.isfinite(values).all(), column


@pytest.mark.parametrize(("name", "capability"), [("sharp", "ImageScorer"), ("loss", "ReferenceScorer")])
def test_metrics_of_pyiqa(name: str, capability: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, tmp_path)

    def score(device: str) -> np.ndarray:
        model = load_model(resolve_model(f"pyiqa:{name}", capability=capability), device=device)
        visuals = [model.prepare([picture]) for picture in PICTURES]
        if capability == "ImageScorer":
            return model.score_images([*visuals, *visuals]).columns["score"]
        pairs = [(0, model.prepare_example(PICTURES[0])), (1, visuals[1])]
        return model.score_pairs(visuals, pairs).columns["score"]

    wanted = score("cpu")
    with fake_cuda(monkeypatch):
        np.testing.assert_allclose(score("cuda"), wanted, rtol=1e-6)


def test_curricularfaces_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from beholder.backends.faces import ir101, scrfd_models

    small = ir101.build(((8, 2), (12, 3), (16, 2), (20, 2)), 112, 6)
    state = random_state({key: tuple(value.shape) for key, value in small.state_dict().items()})
    torch.save(state, tmp_path / "backbone.bin")
    build = ir101.build
    monkeypatch.setattr(ir101, "build", lambda: build(((8, 2), (12, 3), (16, 2), (20, 2)), 112, 6))
    monkeypatch.setattr(scrfd_models, "Scrfd", lambda *args, **settings: None)
    places = {"recognition": str(tmp_path / "backbone.bin"), "detector": ""}
    model = SimpleNamespace(asked="curricularface", dtype="float32", locations=places)
    crop, points = np.random.default_rng(0).integers(0, 256, (200, 200, 3), np.uint8), np.asarray(ARCFACE_TEMPLATE)

    def embed(device: str) -> np.ndarray:
        return scrfd_models.CurricularFaceAnalyser(model, device=device).embed(crop, points.astype(np.float32))

    wanted = embed("cpu")
    with fake_cuda(monkeypatch) as gpu:
        np.testing.assert_allclose(embed("cuda"), wanted, rtol=1e-5, atol=1e-6)
        assert gpu.operations


def test_tensors_of_programs_around_us_may_lie_on_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 8, 9), np.uint8)
    with fake_cuda(monkeypatch):
        shown = as_medium(torch.from_numpy(pixels).to("cuda")).decode(DecodeOptions())
        made = checked({"embedding": torch.ones(2, 3, device="cuda", dtype=torch.bfloat16)}, 2)
    np.testing.assert_array_equal(shown.pixels, pixels.transpose(1, 2, 0))
    np.testing.assert_array_equal(made.columns["embedding"], np.ones((2, 3), np.float32))
