"""Everything that a run takes, as one checked object: from arguments, a TOML file, a preset or another run."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator, model_validator

from beholder._errors import Fault, InputError, OptionError, UnknownNameError, UserError
from beholder.backends.api.budget import Price
from beholder.backends.api.options import ApiOptions
from beholder.backends.devices import DTYPES
from beholder.media.base import DecodeOptions
from beholder.runs.run_json import run_instead
from beholder.runs.shards import parse_shard

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


Channel = Annotated[int, Field(ge=0, le=255)]


class RunConfig(BaseModel):
    """Settings of a run. Those under *identity* move numbers; the others do not."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    # input
    data: str | None = Field(None, description="manifest, folder, tar file or URL")
    prompts: str | None = Field(None, description="prompt file, together with `outputs`")
    outputs: str | None = Field(None, description="template of output paths, like out/{method}/{prompt_id}.png")
    mapping: dict[str, str] = Field(default_factory=dict, description="own column name → canonical name")
    allow_extra: bool = Field(False, description="accept files that no prompt names")
    root: str | None = Field(None, description="folder that every file which the data names must lie in")

    # identity
    metrics: tuple[str, ...] = Field((), description="metrics, as printed")
    model: str | None = Field(None, description="encoder of image-text metrics that name none")
    segmenter: str | None = Field(None, min_length=1, description="segmenter of metrics that segment and name none")
    dtype: str = Field("auto", description="auto, float32, bfloat16 or float16")
    background: tuple[Channel, Channel, Channel] = Field((255, 255, 255), description="RGB behind transparency")
    max_pixels: int = Field(180_000_000, gt=0, description="pictures with more pixels are too_large")
    first_frame: bool = Field(False, description="take the first frame of an animation")
    truncation: Literal["truncate", "error"] = Field("truncate", description="what happens to a text that is too long")
    seed: int = Field(0, ge=0, description="seed of the bootstrap")
    resamples: int = Field(1000, ge=100, description="resamples of the bootstrap")
    level: float = Field(0.95, gt=0, lt=1, description="level of the confidence intervals")
    real: str | None = Field(None, description="real set of metrics of whole sets: folder, manifest or stats.npz")
    n: int | None = Field(None, gt=0, description="pictures drawn from each set, for metrics of whole sets")

    # the rest
    out: str | None = Field(None, description="run folder")
    by: tuple[str, ...] = Field((), description="columns to group the summary by")
    max_failed: float = Field(0.0, ge=0, le=1, description="allowed share of samples with a fault")
    device: str = Field(
        "auto", description="auto, cpu, cuda, cuda:N, mps; cuda:all: a process a GPU; cpu:N: N processes"
    )
    batch_size: int | None = Field(
        None, gt=0, description="visuals in a batch; auto or None: the model's own, halved on need"
    )
    workers: int | None = Field(None, gt=0, description="decode threads")
    store: str | None = Field(None, description="feature store folder")
    cache_dir: str | None = Field(None, description="folder to look for weights in first")
    offline: bool | None = Field(None, description="never fetch anything")
    overwrite: bool = Field(False, description="replace a run folder of another identity")
    commercial_only: bool = Field(False, description="refuse models whose card does not allow commercial use")
    shard: str | None = Field(
        None, description="i/N: only this part of the rows; auto: as a scheduler's array job says"
    )
    engine: Literal["local", "ray"] = Field("local", description="where features are made: here, or by Ray")
    ray_address: str | None = Field(
        None, description="Ray cluster: auto, HOST:PORT or ray://…; None: one on this machine"
    )

    # models behind an HTTP interface; what may hold a secret goes into no file
    base_url: str | None = Field(None, exclude=True, repr=False, description="base URL of their server")
    api_key: SecretStr | None = Field(None, exclude=True, repr=False, description="key, instead of the environment's")
    max_calls: int | None = Field(None, ge=0, description="most requests to them")
    max_cost: float | None = Field(None, ge=0, description="most money for them")
    prices: dict[str, dict[str, float]] | None = Field(
        None, description="model → {input, output, per_call}: prices a million tokens, and a request"
    )
    requests_per_minute: float | None = Field(None, gt=0, description="requests to one server in a minute")
    concurrency: int = Field(8, gt=0, description="requests under way at once")

    @field_validator("metrics", "by", mode="before")
    @classmethod
    def _one_or_many(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("data", "prompts", "outputs", "root", "real", "out", "store", "cache_dir")
    @classmethod
    def _no_blank_path(cls, value: str | None) -> str | None:
        """A variable of the shell that was never set would else mean the default, or no --root at all."""
        if value is not None and not value.strip():
            raise ValueError("Input should be a path, not blank")
        return value

    @field_validator("batch_size", mode="before")
    @classmethod
    def _auto_batch(cls, value: Any) -> Any:
        return None if value == "auto" else value

    @field_validator("device")
    @classmethod
    def _known_device(cls, value: str) -> str:
        if re.fullmatch(r"auto|cpu(:[1-9][0-9]*)?|cuda(:([0-9]+|all))?|mps", value) is None:
            raise ValueError("Input should be auto, cpu, cpu:N (N processes), cuda, cuda:N, cuda:all or mps")
        return value

    @field_validator("shard")
    @classmethod
    def _known_shard(cls, value: str | None) -> str | None:
        """The shard as i/N, whatever `auto` stands for."""
        try:
            return None if value is None else str(parse_shard(value))
        except OptionError as error:
            raise ValueError(str(error)) from None

    @model_validator(mode="after")
    def _one_way_to_spread(self) -> RunConfig:
        ways = {
            "shard": self.shard is not None,
            f"device {self.device}": self.in_processes,
            "engine ray": self.engine == "ray",
        }
        asked = [name for name, there in ways.items() if there]
        if len(asked) > 1:
            raise ValueError(f"A run is spread in one way at a time, not by {' and '.join(asked)}")
        if self.ray_address is not None and self.engine != "ray":
            raise ValueError("ray_address goes with engine ray")
        return self

    @field_validator("dtype")
    @classmethod
    def _known_dtype(cls, value: str) -> str:
        if value != "auto" and value not in DTYPES:
            raise ValueError("Input should be auto, float32, bfloat16 or float16")
        return value

    @property
    def in_processes(self) -> bool:
        """True where the device stands for several processes of this machine."""
        return self.device == "cuda:all" or self.device.startswith("cpu:")

    @property
    def decode(self) -> DecodeOptions:
        """The part of the settings that says how files become pixels."""
        return DecodeOptions(self.background, self.max_pixels, self.first_frame)

    def api_options(self) -> ApiOptions:
        """The part of the settings that is about models behind an HTTP interface; each call counts anew.

        Raises:
            OptionError: a base URL, key or price that is none.
        """
        prices = None if self.prices is None else {name: _price(name, parts) for name, parts in self.prices.items()}
        return ApiOptions(
            base_url=self.base_url,
            api_key=None if self.api_key is None else self.api_key.get_secret_value(),
            max_calls=self.max_calls,
            max_cost=self.max_cost,
            prices=prices,
            requests_per_minute=self.requests_per_minute,
            concurrency=self.concurrency,
        )


_HIDDEN = ("base_url", "api_key")
"""Settings whose values no message repeats."""


def _price(model: str, parts: Mapping[str, float]) -> Price:
    unknown = sorted(set(parts) - {"input", "output", "per_call"})
    if unknown:
        raise OptionError(f"the price of {model} has the parts input, output and per_call", got=", ".join(unknown))
    return Price(**parts)


IDENTITY_FIELDS = (
    "metrics", "model", "segmenter", "dtype", "background", "max_pixels", "first_frame", "truncation", "seed",
    "resamples", "level", "real", "n",
)  # fmt: skip
"""Settings that `--like` takes over from another run."""

PRESETS: Mapping[str, tuple[Mapping[str, Any], str]] = {
    "hessel": (
        {"metrics": ("clip_score(variant=hessel)",)},
        "CLIPScore of arXiv 2104.08718: ViT-B/32, 2.5·max(cos, 0), prefix 'A photo depicts '.",
    ),
    "torchmetrics": (
        {"metrics": ("clip_score(variant=torchmetrics)",)},
        "torchmetrics' CLIPScore: ViT-L/14, 100·cos, the mean clamped at 0.",
    ),
    "customconcept101": (
        {
            "metrics": (
                'clip_score(prefix="", variant=hessel)',
                "clip_i(model=openai:ViT-B-32)",
            )
        },
        "CustomConcept101's evaluate.py: ViT-B/32, text 2.5·max(cos, 0) without prefix, image mean over all pairs.",
    ),
    "dreambooth": (
        {"metrics": ("dino_i", "clip_i(model=openai:ViT-B-32)", "clip_t(model=openai:ViT-B-32)")},
        "DreamBooth's DINO (ViT-S/16), CLIP-I and CLIP-T of arXiv 2208.12242, with CLIP ViT-B/32 as CustomConcept101 "
        "uses it.",
    ),
    "genai-bench": (
        {"metrics": ("vqa_score",)},
        "GenAI-Bench's VQAScore of arXiv 2406.13743: CLIP-FlanT5-XXL; its tables: beholder bench genai-bench.",
    ),
}
"""Published settings by name: what they set, and where they come from."""


def make_config(settings: Mapping[str, Any], *, source: str = "the settings") -> RunConfig:
    """A checked config; every wrong setting is reported at once.

    Raises:
        InputError: listing all faults.
    """
    faults = []
    for name in settings:
        if name not in RunConfig.model_fields:
            hint = UnknownNameError("setting", name, RunConfig.model_fields)
            faults.append(Fault(str(hint), where=name))
    known = {name: value for name, value in settings.items() if name in RunConfig.model_fields}
    try:
        config = RunConfig(**known)
    except ValidationError as error:
        for item in error.errors():
            where = ".".join(str(part) for part in item["loc"])
            message = item["msg"].removeprefix("Value error, ")
            if not where:  # of several settings together: it names them
                faults.append(Fault(message))
                continue
            got = "a value that is not shown" if item["loc"][0] in _HIDDEN else repr(item["input"])
            # A check of ours may have said what it got.
            faults.append(Fault(message if "; got " in message else f"{message}; got {got}", where=where))
    if faults:
        raise InputError(source, faults)
    return config


def read_toml(path: str | Path) -> dict[str, Any]:
    """Settings from a TOML file. Paths in it are relative to the file, like those of a manifest.

    Raises:
        UserError: the file cannot be read or is no TOML.
    """
    path = Path(path)
    try:
        settings: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise UserError("a config file must be readable", got=f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError("a config file must be valid TOML", got=f"{path}: {error}") from error
    for name in ("data", "prompts", "outputs", "out", "store", "cache_dir", "real"):
        value = settings.get(name)
        if isinstance(value, str) and "://" not in value and not Path(value).is_absolute():
            settings[name] = str(path.parent / value)
    return settings


def preset_settings(name: str) -> tuple[dict[str, Any], str]:
    """What a preset sets, and a sentence on where it comes from."""
    if name not in PRESETS:
        raise UnknownNameError("preset", name, PRESETS, fix="Presets: " + ", ".join(sorted(PRESETS)))
    settings, about = PRESETS[name]
    return dict(settings), about


def settings_like(run: str | Path) -> dict[str, Any]:
    """The identity of another run: its metrics, model, dtype, decoding and statistics settings."""
    path = Path(run) / "run.json"
    try:
        asked = json.loads(path.read_text(encoding="utf-8"))["asked"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OptionError("--like needs a run folder", got=str(run), fix=run_instead(Path(run))) from error
    return {name: asked[name] for name in IDENTITY_FIELDS if name in asked}
