"""A CUDA GPU that is not there: tensors that are computed on the CPU, and refuse what a real GPU refuses.

A tensor "on the GPU" is an ordinary CPU tensor whose storage is remembered here. Two of torch's modes stand around all
calls. One answers for devices (`x.device`, `.to("cuda")`, `device="cuda"`), and refuses `numpy()` of what lies on the
GPU; the other sees every operation that is really run, refuses tensors of two devices in one, marks what comes out of
marked tensors, and refuses a few things that only the CPU does: norms whose weights have another dtype than their
input, products of whole numbers, antialiased resizing of uint8. Numbers are real, so a backend's results on this GPU
can be held against its results on the CPU.

What it cannot see: rounding of real kernels, memory, streams, and code that asks torch whether there is a GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

GPU = torch.device("cuda:0")
_CPU = torch.device("cpu")

_ANY_DEVICES = {"_to_copy", "copy_", "copy", "set_", "set_data", "to", "_has_compatible_shallow_copy_type"}
"""Operations that go between devices by themselves."""

_CPU_INDEX = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put"}
"""Operations whose indices may lie on the CPU."""

_CPU_NUMBER = {
    "fill", "fill_", "masked_fill", "masked_fill_", "where", "index_put", "index_put_", "_index_put_impl_",
    "index_fill", "index_fill_", "clamp", "clamp_", "pow", "mul", "mul_", "add", "add_", "sub", "sub_", "div", "div_",
}  # fmt: skip
"""Operations that take a single number from the CPU; besides them all that torch tags as pointwise."""

_ONE_DTYPE_NORMS = {"layer_norm", "native_layer_norm", "group_norm", "native_group_norm", "rms_norm"}
_PRODUCTS = {"mm", "bmm", "addmm", "baddbmm", "matmul", "linear", "einsum", "dot", "mv", "addmv"}
_NO_BYTES = {"_upsample_bilinear2d_aa", "_upsample_bicubic2d_aa"}
_ATTENTION = {"scaled_dot_product_attention"}

_STORAGES: dict[int, StorageWeakRef] = {}
"""Storages on the GPU by address. The weak reference keeps an address from being given to another storage. One for all
GPUs of a process: libraries keep small tensors from one call to the next."""


class FakeGpu:
    """The GPU; `with FakeGpu() as gpu:` makes it there."""

    def __init__(self) -> None:
        self._calls: list[Any] = []
        self._quiet = False
        self.operations = 0
        self._modes = (_Devices(self), _Operations(self))

    def __enter__(self) -> FakeGpu:
        self._modes[0].__enter__()
        self._modes[1].__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._modes[1].__exit__(*error)
        self._modes[0].__exit__(*error)

    def holds(self, value: Any) -> bool:
        """Whether a value is a tensor on the GPU."""
        if not isinstance(value, torch.Tensor) or value.is_meta or value.is_sparse:
            return False
        return _plain(value).untyped_storage()._cdata in _STORAGES

    def mark(self, made: Any) -> Any:
        """Puts all tensors of a result on the GPU."""
        for value in tree_leaves(made):
            if isinstance(value, torch.Tensor) and not value.is_meta:
                storage = _plain(value).untyped_storage()
                _STORAGES.setdefault(storage._cdata, StorageWeakRef(storage))
        return made

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """While it lasts, operations are neither checked nor marked: copies between the devices."""
        before, self._quiet = self._quiet, True
        try:
            yield
        finally:
            self._quiet = before

    def _inherits(self) -> bool:
        """Whether a tensor made from nothing lies on the GPU: as the arguments of the functions that make it."""
        return any(self.holds(value) for value in tree_leaves(self._calls))

    # --- every operation

    def operate(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """One operation of torch."""
        if self._quiet:
            return func(*args, **kwargs)
        self.operations += 1
        name = func._schema.name.rpartition("::")[2]
        given = [value for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
        held = [self.holds(value) for value in given]
        if any(held):
            if not all(held):
                self._check_devices(func, name, args, given, held)
            self._check_dtypes(name, given)
        made = _ON_THE_CPU.get(name, _as_it_is)(func, args, kwargs)
        return self.mark(made) if any(held) or (not given and self._inherits()) else made

    def _check_devices(
        self, func: Any, name: str, args: Sequence[Any], given: Sequence[Any], held: Sequence[bool]
    ) -> None:
        if name in _ANY_DEVICES:
            return
        indices = {id(value) for value in tree_leaves(args[1])} if name in _CPU_INDEX else set()
        numbers = name in _CPU_NUMBER or torch.Tag.pointwise in func.tags
        for value, here in zip(given, held):
            if here or value.is_meta or id(value) in indices or (numbers and value.ndim == 0):
                continue
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu! "
                f"({name}: {tuple(value.shape)} {value.dtype} lies on the CPU)"
            )

    def _check_dtypes(self, name: str, given: Sequence[Any]) -> None:
        dtypes = [value.dtype for value in given]
        if "conv" in name and len(set(dtypes)) > 1:
            raise RuntimeError(f"Input type and weight type should be the same; got {dtypes} ({name})")
        if name in _ONE_DTYPE_NORMS and len(set(dtypes)) > 1:
            raise RuntimeError(f"expected scalar type {dtypes[0]} but found {dtypes[1]} ({name} on CUDA)")
        if name in _PRODUCTS and not all(dtype.is_floating_point or dtype.is_complex for dtype in dtypes):
            raise RuntimeError(f'"{name}_cuda" not implemented for {dtypes}')
        if (name in _PRODUCTS or "conv" in name) and torch.float32 in dtypes and rounds_float32():
            raise RuntimeError(f"{name} of float32 would be rounded to TF32: outside of a forward pass?")
        if name in _NO_BYTES and torch.uint8 in dtypes:
            raise RuntimeError(f'"{name}_cuda" not implemented for Byte')
        if name in _ATTENTION and len({dtype for dtype in dtypes if dtype != torch.bool}) > 1:
            raise RuntimeError(f"attention must have one dtype, mask included; got {dtypes}")

    # --- every function

    def call(self, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """One function or method of torch, as Python calls it."""
        answer = _ANSWERS.get(func)
        if answer is not None:
            return answer(self, func, args, kwargs)
        if func is torch.Tensor.new_tensor and "device" not in kwargs:
            kwargs = {**kwargs, "device": GPU if self.holds(args[0]) else _CPU}
        if kwargs.get("pin_memory"):
            raise RuntimeError("no memory can be locked without a real GPU")
        wanted = kwargs.get("device")
        if wanted is None:
            self._calls.append((args, kwargs))
            try:
                return func(*args, **kwargs)
            finally:
                self._calls.pop()
        if not _is_gpu(wanted):
            return func(*args, **kwargs)
        with self.quiet():
            made = func(*args, **{**kwargs, "device": _CPU})
            if any(made is value for value in args):
                made = made.clone()
        return self.mark(made)

    def move(self, tensor: Any, gpu: bool, make: Callable[[Any], Any]) -> Any:
        """A tensor on a device, made anew by `make`, or itself where nothing changes."""
        if self.holds(tensor) == gpu:
            return make(tensor)
        with self.quiet():
            made = make(tensor)
            if made.untyped_storage()._cdata == tensor.untyped_storage()._cdata:
                made = made.clone()
        return self.mark(made) if gpu else made


class _Devices(TorchFunctionMode):
    def __init__(self, gpu: FakeGpu) -> None:
        super().__init__()
        self._gpu = gpu

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._gpu.call(func, args, dict(kwargs or {}))


class _Operations(TorchDispatchMode):
    def __init__(self, gpu: FakeGpu) -> None:
        super().__init__()
        self._gpu = gpu

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return self._gpu.operate(func, args, kwargs or {})


def _as_it_is(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    return func(*args, **kwargs)


def _counted(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """`histc` of whole numbers, which a GPU does and a CPU does not."""
    return func(args[0].double(), *args[1:], **kwargs).to(args[0].dtype)


def _in_float32(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Convolutions of half dtypes, which take a CPU's time."""
    dtype = args[0].dtype
    if dtype not in (torch.bfloat16, torch.float16):
        return func(*args, **kwargs)
    given = [value.float() if isinstance(value, torch.Tensor) else value for value in args]
    return func(*given, **kwargs).to(dtype)


_ON_THE_CPU: dict[str, Callable[..., Any]] = {
    "histc": _counted, **dict.fromkeys(("convolution", "conv1d", "conv2d", "conv3d"), _in_float32),
}  # fmt: skip
"""How the CPU does what only a GPU does."""


def _plain(value: Any) -> Any:
    """The tensor inside the wrappers of torch's `vmap`."""
    while torch._C._functorch.is_functorch_wrapped_tensor(value):
        value = torch._C._functorch.get_unwrapped(value)
    return value


def _is_gpu(device: Any) -> bool:
    return str(device).startswith("cuda")


def _is_device(value: Any) -> bool:
    return isinstance(value, (str, torch.device))


def _device(gpu: FakeGpu, func: Any, args: Any, kwargs: Any) -> Any:
    return GPU if gpu.holds(args[0]) else func(*args)


def _is_cuda(gpu: FakeGpu, func: Any, args: Any, kwargs: Any) -> bool:
    return gpu.holds(args[0])


def _is_cpu(gpu: FakeGpu, func: Any, args: Any, kwargs: Any) -> bool:
    return not gpu.holds(args[0]) and bool(func(*args))


def _get_device(gpu: FakeGpu, func: Any, args: Any, kwargs: Any) -> int:
    return 0 if gpu.holds(args[0]) else -1


def _numpy(gpu: FakeGpu, func: Any, args: Any, kwargs: Any) -> Any:
    if gpu.holds(args[0]):
        raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first")
    return func(*args, **kwargs)


def _to(gpu: FakeGpu, func: Any, args: Any, kwargs: Any) -> Any:
    tensor, wanted = args[0], kwargs.get("device")
    dtype = kwargs.get("dtype")
    for value in args[1:]:
        if isinstance(value, torch.Tensor):
            wanted, dtype = GPU if gpu.holds(value) else _CPU, value.dtype
        elif isinstance(value, torch.dtype):
            dtype = value
        elif _is_device(value):
            wanted = value
    if wanted is not None and torch.device(wanted).type == "meta":
        return func(*args, **kwargs)
    settings = {name: kwargs[name] for name in ("copy", "memory_format") if kwargs.get(name) is not None}
    on_gpu = gpu.holds(tensor) if wanted is None else _is_gpu(wanted)
    return gpu.move(tensor, on_gpu, lambda value: func(value, dtype or value.dtype, **settings))


def _cuda(gpu: FakeGpu, func: Any, args: Any, kwargs: Any) -> Any:
    return gpu.move(args[0], True, lambda value: value)


def _cpu(gpu: FakeGpu, func: Any, args: Any, kwargs: Any) -> Any:
    return gpu.move(args[0], False, lambda value: value)


def _type_as(gpu: FakeGpu, func: Any, args: Any, kwargs: Any) -> Any:
    return gpu.move(args[0], gpu.holds(args[1]), lambda value: value.to(args[1].dtype))


def _refuse_locking(gpu: FakeGpu, func: Any, args: Any, kwargs: Any) -> Any:
    raise RuntimeError("no memory can be locked without a real GPU")


_ANSWERS: dict[Any, Callable[[FakeGpu, Any, Any, Any], Any]] = {
    torch.Tensor.device.__get__: _device,
    torch.Tensor.is_cuda.__get__: _is_cuda,
    torch.Tensor.is_cpu.__get__: _is_cpu,
    torch.Tensor.get_device: _get_device,
    torch.Tensor.numpy: _numpy,
    torch.Tensor.__array__: _numpy,
    torch.Tensor.to: _to,
    torch.Tensor.cuda: _cuda,
    torch.Tensor.cpu: _cpu,
    torch.Tensor.type_as: _type_as,
    torch.Tensor.pin_memory: _refuse_locking,
}


@contextmanager
def fake_cuda(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGpu]:
    """A machine with a GPU, as far as our own choice of a device goes."""
    from beholder.backends import devices

    with monkeypatch.context() as patch, FakeGpu() as gpu:
        patch.setattr(devices, "_check_cuda", lambda asked, number: None)
        patch.setattr(torch.cuda, "get_device_capability", lambda device=None: (8, 0))
        yield gpu


def rounds_float32() -> bool:
    """Whether torch may round the inputs of float32 products or convolutions on a GPU."""
    if not hasattr(torch.backends.cudnn, "conv"):  # before torch 2.9
        return bool(torch.backends.cudnn.allow_tf32) or torch.get_float32_matmul_precision() != "highest"
    found = (torch.backends.cudnn.conv.fp32_precision, torch.backends.cuda.matmul.fp32_precision)
    return not set(found) <= {"ieee", "none"}


def parts_off_gpu(gpu: FakeGpu, owner: Any) -> Iterable[str]:
    """Names of a loaded model's parameters and buffers that do not lie on the GPU."""
    for attribute, value in vars(owner).items():
        if isinstance(value, torch.nn.Module):
            named = [*value.named_parameters(), *value.named_buffers()]
            yield from (f"{attribute}.{name}" for name, tensor in named if not gpu.holds(tensor))
