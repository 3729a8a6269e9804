"""Options that several commands share. Values are checked together later, so that all faults are told at once."""

from __future__ import annotations

from typing import Annotated

import typer

INPUT = "Input"
MODEL = "Models and devices"
API = "Models behind an HTTP interface (key: OPENAI_API_KEY or GEMINI_API_KEY)"
DECODE = "Pictures and texts"
OUTPUT = "Output"

Data = Annotated[
    str | None,
    typer.Argument(
        metavar="DATA",
        help="Manifest (JSONL, CSV, Parquet, JSON), folder, tar file or URL.",
        show_default=False,
    ),
]
Prompts = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Prompt file, together with --outputs and instead of DATA.", rich_help_panel=INPUT
    ),
]
Outputs = Annotated[
    str | None,
    typer.Option(
        metavar="TEMPLATE",
        help="Template of the outputs' paths, like out/{prompt_id}.png.",
        rich_help_panel=INPUT,
    ),
]
Mapping = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="COLUMN=NAME",
        help="Read your column COLUMN as the column NAME (for example --map text=prompt). Repeatable.",
        rich_help_panel=INPUT,
    ),
]
AllowExtra = Annotated[
    bool | None,
    typer.Option(
        "--allow-extra/--no-allow-extra", help="Accept files that no prompt or row names.", rich_help_panel=INPUT
    ),
]
Root = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="Refuse rows that name a file outside DIR, links followed, or a URL (for data of others).",
        rich_help_panel=INPUT,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON value on stdout.", rich_help_panel=OUTPUT)]
Quiet = Annotated[
    bool,
    typer.Option("--quiet", "-q", help="No progress and no remarks; only data and errors.", rich_help_panel=OUTPUT),
]
Model = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Encoder of image-text metrics that name none.", rich_help_panel=MODEL),
]
Segmenter = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Segmenter of metrics that mask a subject and name none.", rich_help_panel=MODEL),
]
Device = Annotated[
    str | None,
    typer.Option(
        metavar="DEVICE",
        help="auto, cpu, cuda, cuda:N, mps; `run` takes cuda:all, a process a GPU, or cpu:N, N of them. Default: auto.",
        rich_help_panel=MODEL,
    ),
]
Dtype = Annotated[
    str | None,
    typer.Option(metavar="DTYPE", help="auto, float32, bfloat16 or float16. Default: auto.", rich_help_panel=MODEL),
]
CacheDir = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Folder to look for weights in first.", rich_help_panel=MODEL),
]
Offline = Annotated[
    bool | None,
    typer.Option(
        "--offline/--no-offline", help="Never fetch anything. Default: as HF_HUB_OFFLINE says.", rich_help_panel=MODEL
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        "--base-url",
        metavar="URL",
        help="Server, like http://localhost:8000/v1. Default: OPENAI_BASE_URL, else the public service.",
        rich_help_panel=API,
    ),
]
MaxCalls = Annotated[
    str | None,
    typer.Option(metavar="N", help="Most requests. The same command with more goes on.", rich_help_panel=API),
]
MaxCost = Annotated[
    str | None,
    typer.Option(metavar="MONEY", help="Most money, in the currency of the prices.", rich_help_panel=API),
]
RequestsPerMinute = Annotated[
    str | None, typer.Option(metavar="N", help="Requests to one server in a minute.", rich_help_panel=API)
]
Concurrency = Annotated[
    str | None, typer.Option(metavar="N", help="Requests under way at once. Default: 8.", rich_help_panel=API)
]
CommercialOnly = Annotated[
    bool | None,
    typer.Option(
        "--commercial-only",
        help="Refuse models whose card does not say that commercial use is allowed, or whose licence was not checked.",
        rich_help_panel=MODEL,
    ),
]
Background = Annotated[
    str | None,
    typer.Option(
        metavar="COLOUR",
        help="What stands behind transparency: R,G,B or #RRGGBB. Default: 255,255,255.",
        rich_help_panel=DECODE,
    ),
]
MaxPixels = Annotated[
    str | None,
    typer.Option(
        metavar="N",
        help="Pictures with more pixels get the status too_large. Default: 180000000.",
        rich_help_panel=DECODE,
    ),
]
FirstFrame = Annotated[
    bool | None,
    typer.Option(
        "--first-frame/--no-first-frame",
        help="Take an animation as a still picture, its first frame; without it, it is a video.",
        rich_help_panel=DECODE,
    ),
]
Truncation = Annotated[
    str | None,
    typer.Option(
        metavar="WHAT",
        help="Texts longer than the model takes: truncate (marked) or error (status failed). Default: truncate.",
        rich_help_panel=DECODE,
    ),
]
By = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="Group the table by a column. Repeatable.", rich_help_panel=OUTPUT),
]
