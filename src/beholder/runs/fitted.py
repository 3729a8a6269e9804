"""Mean and covariance of a set's features as a file: the `.npz` with `mu` and `sigma` that the field's tools exchange.

Ours also holds `n`, and `about`: a JSON text that tells which encoder made the features, so that a file of another
encoder is refused.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from beholder._errors import OptionError, UserError
from beholder.functional.gaussians import Fit, check_fit
from beholder.metrics.sets import FittedSet


class FittedFile(NamedTuple):
    """What a file tells.

    Args:
        fitted: mean, covariance and number of pictures (None where the file does not tell).
        about: which encoder made it; {} where the file does not tell.
    """

    fitted: FittedSet
    about: dict[str, Any]


def is_fitted(name: Any) -> bool:
    """True for the name of a file of mean and covariance."""
    return isinstance(name, (str, Path)) and str(name).lower().endswith(".npz")


def write_fitted(path: str | Path, fit: Fit, n: int | None, about: dict[str, Any]) -> None:
    """Writes mean and covariance, whole or not at all; their number too where it is known."""
    import io

    from beholder.runs.atomic import write_atomic

    sink = io.BytesIO()
    arrays: dict[str, Any] = {"mu": fit.mean, "sigma": fit.cov, "about": np.array(json.dumps(about, sort_keys=True))}
    if n is not None:
        arrays["n"] = np.int64(n)
    np.savez(sink, **arrays)
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_atomic(Path(path), sink.getvalue())
    except OSError as error:
        raise UserError("the file of statistics must be writable", got=f"{path}: {error.strerror or error}") from error


def read_fitted(path: str | Path) -> FittedFile:
    """Reads mean and covariance.

    Raises:
        UserError: the file cannot be read, or holds no mean and covariance.
    """
    try:
        with np.load(path, allow_pickle=False) as found:
            names = set(found.files)
            if not names >= {"mu", "sigma"}:
                told = ", ".join(sorted(names)) or "nothing"
                raise UserError("a file of statistics must hold mu and sigma", got=f"{path} with {told}")
            fit = Fit(np.asarray(found["mu"], dtype=np.float64), np.asarray(found["sigma"], dtype=np.float64))
            n = int(found["n"]) if "n" in names else None
            about = json.loads(str(found["about"])) if "about" in names else {}
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
        raise UserError(
            "a file of statistics must be an .npz that can be read",
            got=f"{path}: {error}",
            fix="Make it: beholder stats DIR",
        ) from error
    try:
        check_fit(fit)
    except OptionError as error:
        raise UserError(f"in the statistics of {path} {error.must}", got=error.got) from error
    return FittedFile(FittedSet(fit, n), about if isinstance(about, dict) else {})


def about_model(model: Any) -> dict[str, Any]:
    """What a file tells of the encoder."""
    return {"model": model.id, "model_key": model.key, "weights_sha256": model.weights_sha256, "dtype": model.dtype}


def check_model(path: str, about: dict[str, Any], model: Any) -> None:
    """Refuses statistics of another encoder.

    Raises:
        OptionError: they are not those of `model`.
    """
    known = about.get("model_key")
    if known is not None and known != model.key:
        raise OptionError(
            f"the statistics must be of the metric's encoder, {model.id}",
            got=f"{path}, made with {about.get('model')} (weights {str(about.get('weights_sha256'))[:12]})",
            fix="Make them anew: beholder stats DIR --model NAME",
        )
