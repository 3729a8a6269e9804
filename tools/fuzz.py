#!/usr/bin/env python3
"""Coverage-guided fuzzing of readers and decoders with atheris, bounded: `tools/fuzz.py --seconds 20 [TARGET …]`.

Each target takes any bytes and holds the outcome to the contract: a result, or one of our own errors, never another
exception. A finding ends with its traceback, exit code 1, and the input in a file `crash-…` under --out. Where atheris
is missing (`pip install atheris`; it is no dependency) it says so and ends with 0: hypothesis does the same without
guidance in tests/inputs/test_inputs_fuzz.py.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import os
import struct
import subprocess
import sys
import tempfile
import warnings
import zlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path

import numpy as np

PIXELS = 1_000_000
LONGEST = 4096
"""Bytes of an input."""
INSTRUMENTED = [
    "beholder.media",
    "beholder.manifest",
    "beholder.runs.journal",
    "beholder.backends",
    "beholder.functional.judging",
    "beholder.functional.masks",
]


def picture(data: bytes) -> None:
    """Any bytes as a picture."""
    from beholder._errors import MediaError
    from beholder.media.base import DecodeOptions
    from beholder.media.image import decode_image

    with suppress(MediaError):
        pixels = decode_image(data, DecodeOptions(max_pixels=PIXELS), name="it").pixels
        if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.size > 3 * PIXELS:
            raise AssertionError(f"pixels of shape {pixels.shape}")


def mask(data: bytes) -> None:
    """Any bytes as a mask file, and any JSON as a written mask."""
    from beholder._errors import MediaError, OptionError
    from beholder.manifest.schema import is_written_mask
    from beholder.media.base import DecodeOptions
    from beholder.media.mask import decode_mask
    from beholder.media.sources import as_medium

    written = None
    with suppress(ValueError, RecursionError):
        written = json.loads(data)
    source = written if is_written_mask(written) else as_medium(data)
    with suppress(MediaError, OptionError):
        decode_mask(source, DecodeOptions(max_pixels=PIXELS))


def manifest(data: bytes) -> None:
    """The first byte chooses the form, the rest is the file; the quick look must say what the rows say."""
    from beholder._errors import Fault, UserError
    from beholder.manifest import open_source
    from beholder.manifest.source import RowSource

    forms = ("jsonl", "csv", "tsv", "json", "parquet", "txt", "jsonl.gz", "tar")
    form = forms[data[0] % len(forms)] if data else "csv"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, f"a.{form}")
        path.write_bytes(data[1:])
        with suppress(UserError):
            source = open_source(str(path))
            source.check()
            for sample in source:
                if not isinstance(sample.id, str):
                    raise AssertionError(sample.id)
            faults: list[Fault] = []
            assert isinstance(source, RowSource)
            count = sum(1 for _ in source._samples(source._reader.rows(check=True), faults))
            if faults or count != source.count():
                raise AssertionError(f"a check of {source.count()} rows found nothing, the rows are {count}: {faults}")


def archive(data: bytes) -> None:
    """Any bytes as a tar with a member."""
    from beholder._errors import MediaError
    from beholder.media.sources import as_medium

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.tar")
        path.write_bytes(data)
        with suppress(MediaError):
            as_medium(f"{path}::a.png").fingerprint()


def container(data: bytes) -> None:
    """Any bytes as a video container: the look at whether it is whole."""
    from beholder._errors import MediaError
    from beholder.media.containers import check_whole

    with suppress(MediaError):
        check_whole(io.BytesIO(data), "it")


def journal(data: bytes) -> None:
    """Any bytes as the journal of a run; behind a byte that says so, as the header or the rows of a sound frame."""
    from beholder._errors import StoreError
    from beholder.runs.journal import Journal

    if data[:1] in (b"\1", b"\2"):
        parts = (data[1:], b"") if data[:1] == b"\1" else (b'{"chunk": "a"}', data[1:])
        body = b"".join(parts)
        data = struct.pack("<4sIQI", b"BHJ1", len(parts[0]), len(parts[1]), zlib.crc32(body)) + body
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "journal.bin")
        path.write_bytes(data)
        with suppress(StoreError), Journal(path, write=False) as opened:
            for frame in opened.frames():
                opened.read(frame)


@cache
def model_files() -> dict[str, bytes]:
    """The small files of the demo encoder, and weights with one tensor."""
    from safetensors.numpy import save

    folder = Path(__file__).parents[1] / "src/beholder/assets/demo_emoji"
    names = ("config.json", "preprocessor_config.json", "tokenizer_config.json", "tokenizer.json")
    weights = save({"logit_scale": np.asarray(2.0, np.float32)})
    return {**{name: (folder / name).read_bytes() for name in names}, "model.safetensors": weights}


def model(data: bytes) -> None:
    """The first byte chooses a file of a model folder, the rest is its content; the other files are sound."""
    from beholder._errors import ModelError
    from beholder.backends.base import LoadOptions
    from beholder.backends.hf_clip import HF
    from beholder.backends.torch_io import read_state

    sound = model_files()
    name = sorted(sound)[data[0] % len(sound)] if data else "config.json"
    with tempfile.TemporaryDirectory() as folder:
        for other, content in {**sound, name: data[1:]}.items():
            Path(folder, other).write_bytes(content)
        if name == "model.safetensors":
            with suppress(ModelError):
                read_state(Path(folder, name))
        with suppress(ModelError):
            HF.resolve(f"hf:{folder}", dtype="float32", options=LoadOptions(offline=True))


def reply(data: bytes) -> None:
    """Any text as a judge's reply: a mark within its bounds, or the reason why there is none."""
    from beholder.functional.judging import read_mark

    mark = read_mark(data.decode("utf-8", "replace"))
    if bool(mark.reason) == (mark.value is not None) or not 1 <= (mark.value or 1) <= 5:
        raise AssertionError(mark)


TARGETS: dict[str, Callable[[bytes], None]] = {
    "picture": picture,
    "mask": mask,
    "manifest": manifest,
    "archive": archive,
    "container": container,
    "journal": journal,
    "model": model,
    "reply": reply,
}


def seeds(name: str) -> list[bytes]:
    """Inputs to begin with: one sound file of each form."""
    if name in ("picture", "mask"):
        from PIL import Image

        found = []
        for kind in ("PNG", "JPEG", "WEBP", "GIF", "TIFF", "BMP", "PPM"):
            buffer = io.BytesIO()
            Image.new("RGB", (9, 7), (200, 30, 30)).save(buffer, kind)
            found.append(buffer.getvalue())
        return [*found, b'{"size": [2, 2], "counts": [1, 3]}', b'{"size": [4, 4], "polygons": [[0, 0, 3, 0, 3, 3]]}']
    if name == "manifest":
        rows = b'{"id": "a", "output": "a.png", "prompt": "p"}\n'
        return [b"\0" + rows, b'\1id,output,prompt\n1,a.png,"a, b"\n', b"\3[" + rows.strip() + b"]", b"\5a red car\n"]
    if name == "archive":
        import tarfile

        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            info = tarfile.TarInfo("a.png")
            info.size = 3
            tar.addfile(info, io.BytesIO(b"abc"))
        return [buffer.getvalue()]
    if name == "container":
        return [b"\0\0\0\x14ftypisom\0\0\0\0isom\0\0\0\x08mdat", b"\x1a\x45\xdf\xa3\x80", b"RIFF\4\0\0\0AVI "]
    if name == "journal":
        import pyarrow as pa

        sink = pa.BufferOutputStream()
        rows = pa.table({"id": ["a", "b"], "score": [1.0, None], "frames": [[1], []]})
        with pa.ipc.new_stream(sink, rows.schema) as writer:
            writer.write_table(rows)
        return [b"BHJ1" + bytes(16), b'\1{"chunk": "a", "rows": 1}', b"\2" + sink.getvalue().to_pybytes()]
    if name == "model":
        files = sorted(model_files().items())
        return [bytes([at]) + content for at, (_, content) in enumerate(files) if len(content) < LONGEST]
    if name == "reply":
        return [
            b"Score: 4",
            "评分：4分（满分5分）".encode(),
            b'```json\n{"score": 4.5}\n```',
            b"4/5",
            b"3 people, mark 2",
        ]
    raise ValueError(f"there are no inputs to begin {name} with")


def fuzz(name: str, seconds: int, seed: int, corpus: str, out: str) -> None:
    """Runs one target until its time is over or something is found; never returns."""
    import atheris

    with atheris.instrument_imports(include=INSTRUMENTED):
        import beholder.backends.hf_clip
        import beholder.functional.judging
        import beholder.manifest
        import beholder.media.image
        import beholder.media.mask
        import beholder.runs.journal  # noqa: F401
    warnings.simplefilter("ignore")
    for at, data in enumerate(seeds(name)):
        Path(corpus, f"seed-{at}").write_bytes(data)
    limits = [
        f"-max_total_time={seconds}",
        f"-seed={seed}",
        "-rss_limit_mb=2048",
        "-timeout=20",
        f"-max_len={LONGEST}",
        "-print_final_stats=1",
    ]
    atheris.Setup([sys.argv[0], *limits, f"-artifact_prefix={out}{os.sep}", corpus], TARGETS[name])
    atheris.Fuzz()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", choices=[*TARGETS, []], help="all when none is named")
    parser.add_argument("--seconds", type=int, default=20, help="time of each target")
    parser.add_argument("--seed", type=int, default=0, help="draws of the same inputs again; 0 for others each time")
    parser.add_argument("--out", default=".", help="folder for inputs that break something")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    names = asked.targets or list(TARGETS)
    if importlib.util.find_spec("atheris") is None:
        sys.stderr.write("atheris is not installed: nothing was fuzzed with guidance (hypothesis runs in the tests)\n")
        return 0
    if asked.here:
        with tempfile.TemporaryDirectory() as corpus:
            fuzz(names[0], asked.seconds, asked.seed, corpus, asked.out)
    worst = 0
    for name in names:
        # libFuzzer ends its process, so each target has one of its own.
        settings = ["--seconds", str(asked.seconds), "--seed", str(asked.seed), "--out", asked.out]
        command = [sys.executable, __file__, name, "--here", *settings]
        done = subprocess.run(command, capture_output=True, text=True)
        runs = next((line.split()[-1] for line in done.stderr.splitlines() if "number_of_executed_units" in line), "?")
        sys.stdout.write(f"{name}: {runs} inputs, {'nothing found' if done.returncode == 0 else 'FOUND SOMETHING'}\n")
        sys.stdout.flush()
        if done.returncode:
            told = done.stderr + done.stdout
            at = max(told.find("Traceback"), told.find("Uncaught"), 0)
            sys.stderr.write(told[at:][:4000] + "\n")
            worst = 1
    return worst


if __name__ == "__main__":
    sys.exit(main())
