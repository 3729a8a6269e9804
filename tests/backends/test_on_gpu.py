"""Every engine on a GPU that is not there (`fake_cuda.py`): the CPU's numbers in float32, and all dtypes run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.backends.fake_cuda import fake_cuda, parts_off_gpu  # noqa: E402
from tests.backends.gpu_cases import CASES, Found  # noqa: E402

from beholder.backends.pool import load_model, resolve_model  # noqa: E402

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
