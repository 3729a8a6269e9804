"""Weights from files into networks: every key must match, pickles are never trusted."""

from __future__ import annotations

import contextlib
import math
import pickle
import re
import warnings
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from beholder._errors import ModelError, WeightsMismatchError
from beholder.backends.base import ResolvedModel
from beholder.backends.files import file_fault, read_scalar
from beholder.backends.hashes import combined_sha256, remembered_constants

MAY_BE_EXTRA = (re.compile(r"(^|\.)position_ids$"), re.compile(r"(^|\.)embeddings\.token_type_ids$"))
"""Buffers that older versions of transformers stored and newer ones compute."""

_SHOWN = 12


def read_constants(weights: Sequence[Path]) -> dict[str, float]:
    """Constants of a checkpoint: `logit_scale` (exp of the stored parameter), and `logit_bias` where there is one.

    Read from safetensors headers without torch. Pickled weights need torch, so theirs are remembered by hash.
    """
    files = [path for path in weights if path.suffix != ".json"]
    if all(path.suffix == ".safetensors" for path in files):
        return _constants(files)
    return remembered_constants(combined_sha256((path.name, path) for path in files), lambda: _constants(files))


def _constants(files: Sequence[Path]) -> dict[str, float]:
    stored: dict[str, float] = {}
    for path in files:
        stored |= _read_scalars(path, ("logit_scale", "logit_bias"))
    result = {"logit_scale": math.exp(stored.pop("logit_scale"))} if "logit_scale" in stored else {}
    return result | stored


def _read_scalars(path: Path, keys: Sequence[str]) -> dict[str, float]:
    if path.suffix == ".safetensors":
        values = {key: read_scalar(path, key) for key in keys}
        return {key: value for key, value in values.items() if value is not None}
    # Pickled weights cannot be read without torch; with mmap only the pages of these scalars are touched.
    state = read_state(path)
    return {key: float(state[key].float().reshape(-1)[0]) for key in keys if key in state}


def read_states(paths: Iterable[Path]) -> dict[str, Any]:
    """All tensors of a model's weight files (indexes are skipped), in memory of their own.

    Tensors of a mapped file lie where the file puts them, and matrix products give other last bits on badly aligned
    memory; copies are aligned, so one model gives the same numbers from whatever files it was read.
    """
    state: dict[str, Any] = {}
    for path in paths:
        if path.suffix != ".json":
            state.update({key: tensor.clone() for key, tensor in read_state(path).items()})
    return state


def read_state(path: Path) -> dict[str, Any]:
    """The tensors of one weight file. Never unpickles anything but tensors and plain containers.

    Raises:
        WeightsMismatchError: the file is damaged, or holds more than tensors.
        ModelError: a torch that is too old to read pickled weights safely.
    """
    reason = file_fault(path)
    if reason is not None:
        raise WeightsMismatchError(f"{path.name} must be whole", got=f"a file that {reason}", fix="Fetch it again")
    if path.suffix == ".safetensors":
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            return dict(load_file(path))
        except SafetensorError as error:
            raise WeightsMismatchError(f"{path.name} must be whole", got=str(error), fix="Fetch it again") from error
    return _read_pickled(path)


def _read_pickled(path: Path) -> dict[str, Any]:
    import torch

    version = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
    if version < (2, 6):
        raise ModelError(
            f"reading {path.name} safely needs torch 2.6 or newer",
            got=f"torch {torch.__version__}",
            fix="Update torch, or use a safetensors file",
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an unusual pickle protocol: what is in it is checked below
            state = torch.load(path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(path))
    except (pickle.UnpicklingError, RuntimeError, EOFError, ValueError, OSError) as error:
        first = (str(error).strip().splitlines() or [""])[0]
        raise WeightsMismatchError(
            f"{path.name} must be a whole file of plain tensors; anything else in a pickle is refused, since it can "
            "run code",
            got=f"{type(error).__name__}: {first}",
            fix="Use a safetensors file",
        ) from error
    return unwrap_state(state, path)


def unwrap_state(state: Any, path: Path) -> dict[str, Any]:
    """The tensors of a checkpoint, out of a `state_dict`, `model` or `module` entry and without a `module.` prefix."""
    import torch

    for entry in ("state_dict", "model", "module"):
        if isinstance(state, Mapping) and isinstance(state.get(entry), Mapping):
            state = state[entry]
    if not isinstance(state, Mapping) or not all(isinstance(value, torch.Tensor) for value in state.values()):
        raise WeightsMismatchError(f"{path.name} must hold tensors by name", got="something else")
    if state and all(key.startswith("module.") for key in state):
        return {key.removeprefix("module."): value for key, value in state.items()}
    return dict(state)


def check_keys(
    name: str,
    *,
    missing: Iterable[str],
    unexpected: Iterable[str],
    mismatched: Iterable[Any],
    errors: Iterable[str] = (),
) -> None:
    """Every key must match; buffers that the library computes itself may be extra.

    Raises:
        WeightsMismatchError: listing what does not match.
    """
    extra = [key for key in unexpected if not any(pattern.search(key) for pattern in MAY_BE_EXTRA)]
    lines = []
    for what, keys in (
        ("missing", sorted(missing)),
        ("unexpected", sorted(extra)),
        ("of another shape", sorted(_shape_text(entry) for entry in mismatched)),
        ("not loaded", list(errors)),
    ):
        if keys:
            more = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
            lines.append(f"{len(keys)} {what}: {', '.join(keys[:_SHOWN])}{more}")
    if lines:
        raise WeightsMismatchError(
            f"the weights of {name} must fit the model completely",
            got="; ".join(lines),
            fix="The files are damaged or belong to another model; fetch them again",
        )


def _shape_text(entry: Any) -> str:
    if isinstance(entry, (tuple, list)) and len(entry) == 3:
        return f"{entry[0]} {tuple(entry[1])} instead of {tuple(entry[2])}"
    return str(entry)


def load_transformers(
    model: ResolvedModel,
    class_name: str,
    *,
    build: Mapping[str, Any] | None = None,
    may_be_extra: Iterable[str] = (),
) -> Any:
    """A network of transformers, loaded completely, in eval mode, on the CPU.

    Args:
        model: the resolved model; `details["weights"]` names its files.
        class_name: transformers' class.
        build: what the class is built with beside its configuration.
        may_be_extra: names that the files may hold beside the network's.

    Raises:
        WeightsMismatchError: a key or a shape that does not match.
    """
    import transformers

    folder = Path(model.location)
    network_class = getattr(transformers, class_name)
    config = network_class.config_class.from_pretrained(str(folder), local_files_only=True)
    state = read_states(folder / str(name) for name in model.details["weights"])
    state = {key: value for key, value in state.items() if key not in set(may_be_extra)}
    return fill_network(network_class, config, state, name=model.asked, dtype=model.dtype, build=build)


def fill_network(
    network_class: Any,
    config: Any,
    state: Mapping[str, Any],
    *,
    name: str,
    dtype: str,
    build: Mapping[str, Any] | None = None,
) -> Any:
    """A network of transformers with the tensors of `state`, all of them and no others; in eval mode, on the CPU.

    Raises:
        WeightsMismatchError: a key or a shape that does not match.
    """
    import torch

    with quiet_transformers():
        network, report = network_class.from_pretrained(
            None,
            config=config,
            state_dict=state,
            dtype=getattr(torch, dtype),
            attn_implementation="sdpa" if network_class._supports_sdpa else "eager",
            output_loading_info=True,
            ignore_mismatched_sizes=True,
            **(build or {}),
        )
    check_keys(
        name,
        missing=report["missing_keys"],
        unexpected=report["unexpected_keys"],
        mismatched=report["mismatched_keys"],
        errors=report.get("error_msgs") or (),
    )
    return network.eval().requires_grad_(False)


def fill_module(
    network: Any, state: Mapping[str, Any], *, name: str, dtype: str, may_be_extra: Iterable[str] = ()
) -> None:
    """Puts the tensors of `state` into an empty network of our own, in eval mode; every key must match.

    Args:
        network: the network, which may be on torch's "meta" device.
        state: tensors by name.
        name: what messages call the model.
        dtype: dtype that the network gets.
        may_be_extra: names that `state` may hold beside the network's.

    Raises:
        WeightsMismatchError: a key that is missing, not known or of another shape.
    """
    import torch

    wanted = network.state_dict()
    check_keys(
        name,
        missing=set(wanted) - set(state),
        unexpected=set(state) - set(wanted) - set(may_be_extra),
        mismatched=[
            (key, state[key].shape, value.shape)
            for key, value in wanted.items()
            if key in state and state[key].shape != value.shape
        ],
    )
    network.load_state_dict({key: state[key].to(getattr(torch, dtype)) for key in wanted}, strict=True, assign=True)
    network.eval().requires_grad_(False)


@contextlib.contextmanager
def quiet_transformers() -> Iterator[None]:
    """No progress bar and no report while loading: what does not match becomes an error of ours."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
