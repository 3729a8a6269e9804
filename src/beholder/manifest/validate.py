"""Everything that is wrong with a data set, of form and of single rows, before any scoring."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from beholder._errors import Fault, InputError, MediaError, MissingExtraError, NoValue, summed_up
from beholder.manifest._media import is_media
from beholder.manifest.schema import Sample, SampleSource, is_written_mask
from beholder.manifest.source import RowSource
from beholder.manifest.tally import Examples, FileTally, PromptTally
from beholder.manifest.writer import location_of
from beholder.media.base import DecodeOptions, Medium
from beholder.media.visual import examine, is_still, opened

_REMEMBERED = 50_000
_MASKS = ("masks", "reference_masks")
_AHEAD = 4


@dataclass(frozen=True)
class ValidationReport:
    """What a validation found.

    Args:
        source: what was validated.
        faults: faults of form, which stop a run, then faults of rows, which cost one row each.
        warnings: what may make numbers misleading.
        notices: what is good to know.
        counts: rows, prompts, methods, concepts, outputs per prompt.
    """

    source: str
    faults: tuple[Fault, ...]
    warnings: tuple[str, ...]
    notices: tuple[str, ...]
    counts: Mapping[str, Any]

    @property
    def ok(self) -> bool:
        """True when there is no fault of either kind."""
        return not self.faults

    @property
    def exit_code(self) -> int:
        """0 without faults, else 2."""
        return 0 if self.ok else 2

    def to_dict(self) -> dict[str, Any]:
        """The report, JSON-ready."""
        faults = [
            {"row": fault.row, "where": fault.where, "message": fault.message, "kind": "form" if fault.form else "row"}
            for fault in self.faults
        ]
        return {
            "source": self.source,
            "ok": self.ok,
            "counts": dict(self.counts),
            "faults": faults,
            "warnings": list(self.warnings),
            "notices": list(self.notices),
        }

    def lines(self) -> list[str]:
        """The report as plain text, a line each."""
        counts = self.counts
        sizes = counts.get("outputs_per_prompt")
        lines = [f"{self.source}: " + ", ".join(_counted(counts[name], name) for name in _COUNTED)]
        if sizes:
            lines.append(
                f"outputs per prompt: {sizes['min']}" + (f" to {sizes['max']}" * (sizes["min"] != sizes["max"]))
            )
        for name, held in counts.get("tasks", {}).items():
            lines.append(
                f"task {name}: " + ", ".join(_counted(number, what) for what, number in held.items() if number)
            )
        if counts.get("references_per_concept"):
            spread = [
                f"{many} ({_counted(held, 'concepts')})" for many, held in counts["references_per_concept"].items()
            ]
            lines.append(f"references per concept: {', '.join(spread)}")
        for form, title in ((True, "of form (they stop a run)"), (False, "of rows (each costs its row)")):
            some = [fault for fault in self.faults if fault.form is form]
            if some:
                lines.append(f"{_counted(len(some), 'faults')} {title}:")
                lines += [f"  {fault}" for fault in some]
                lines += summed_up(some)
        lines += [f"warning: {text}" for text in self.warnings]
        lines += [f"notice: {text}" for text in self.notices]
        return lines if self.faults else [*lines, "no faults"]


def validate(
    source: SampleSource,
    *,
    decode: bool = True,
    options: DecodeOptions | None = None,
    workers: int | None = None,
) -> ValidationReport:
    """Look at every row and every file, and report all that is wrong.

    Args:
        source: what to validate.
        decode: decode every picture; False only reads the files (sizes of masks are then not compared).
        options: how files are decoded.
        workers: threads that read and decode; None: one a processor, 8 at most.
    """
    look = _Looker(options or DecodeOptions(), decode=decode)
    tally = _Tally()
    form: list[Fault] = []
    for sample, looks in _inspected(_samples(source, form), look, workers or min(8, os.cpu_count() or 1)):
        tally.add(sample, looks)
    form.sort(key=lambda fault: fault.row or 0)
    return tally.report(source, tuple(dict.fromkeys(form)))


def _samples(source: SampleSource, form: list[Fault]) -> Iterator[Sample]:
    if isinstance(source, RowSource):
        yield from source.examine(form)
        return
    try:
        source.check()
    except InputError as error:
        form += error.faults
    try:
        yield from source
    except InputError as error:  # it comes after the last sound row
        form += error.faults


@dataclass(frozen=True)
class _Look:
    """What looking at one file gave.

    `shaded` names a mask that is mostly neither black nor white, `unread` a video that nothing here can read.
    """

    column: str
    path: str | None
    fingerprint: str | None = None
    size: tuple[int, int] | None = None
    trouble: str | None = None
    shaded: str | None = None
    unread: str | None = None


class _Looker:
    """Looks at the files of a sample; those that many rows share are looked at once."""

    def __init__(self, options: DecodeOptions, *, decode: bool) -> None:
        self._options, self._decode = options, decode
        self._shared: dict[str, _Look] = {}

    def __call__(self, sample: Sample) -> list[_Look]:
        looks = [self._look(sample.output, "output")] if sample.output is not None else []
        looks += [self._once(medium, "references") for medium in sample.references]
        masks = sample.masks.values() if _is_map(sample.masks) else (sample.masks,)
        looks += [self._mask(mask, "masks") for mask in masks if mask is not None]
        return looks + [self._mask(mask, "reference_masks") for mask in sample.reference_masks]

    def _mask(self, mask: Any, column: str) -> _Look:
        if mask is None:
            return _Look(column, None)
        if not isinstance(mask, Mapping):
            return self._once(mask, column)
        if self._decode:
            return self._look_at_mask(mask, column, None)
        height, width = mask["size"]
        return _Look(column, None, size=(int(width), int(height)))

    def _look_at_video(self, medium: Medium, column: str, path: str | None, fingerprint: str) -> _Look:
        """A video is opened, and its first frame decoded."""
        try:
            with opened(medium, self._options) as video:
                size = next(iter(video.frames([0]))).size
        except MissingExtraError:
            return _Look(column, path, fingerprint, unread=medium.name)
        except NoValue as error:
            return _Look(column, path, fingerprint, trouble=str(error))
        return _Look(column, path, fingerprint, size)

    def _look_at_mask(self, mask: Any, column: str, path: str | None) -> _Look:
        """A mask is read as metrics read it: a photograph is none, nor are runs that make no sense."""
        from beholder.media.mask import mask_medium

        medium = mask_medium(mask)
        try:
            picture = medium.decode(self._options)
        except MediaError as error:
            return _Look(column, path, trouble=str(error))
        return _Look(column, path, size=picture.size, shaded=medium.name if picture.notes else None)

    def _once(self, medium: Medium, column: str) -> _Look:
        location = location_of(medium)
        if location is None:
            return self._look(medium, column)
        key = f"{column}\0{location}"
        found = self._shared.get(key)
        if found is None:
            if len(self._shared) >= _REMEMBERED:
                self._shared.clear()
            found = self._shared[key] = self._look(medium, column)
        return found

    def _look(self, medium: Medium, column: str) -> _Look:
        location = location_of(medium)
        path = location if location and "://" not in location and "::" not in location else None
        if self._decode and column in _MASKS:
            return self._look_at_mask(medium, column, path)
        try:
            if not self._decode:
                return _Look(column, path, medium.fingerprint())
            if not is_still(medium):
                fingerprint, is_video = examine(medium, first_frame=self._options.first_frame)
                if is_video:
                    return self._look_at_video(medium, column, path, fingerprint)
            if hasattr(medium, "read_and_hash"):
                data, fingerprint = medium.read_and_hash()
                return _Look(column, path, fingerprint, medium.decode(self._options, data).size)  # type: ignore[call-arg]
            return _Look(column, path, medium.fingerprint(), medium.decode(self._options).size)
        except MediaError as error:
            return _Look(column, path, trouble=str(error))


@dataclass
class _Tally:
    """All that the rows add up to."""

    rows: int = 0
    faults: list[Fault] = field(default_factory=list)
    prompts: PromptTally = field(default_factory=PromptTally)
    files: FileTally = field(default_factory=FileTally)
    methods: set[str] = field(default_factory=set)
    concepts: set[str] = field(default_factory=set)
    with_references: int = 0
    shaded: Examples = field(default_factory=Examples)
    unread: Examples = field(default_factory=Examples)

    def add(self, sample: Sample, looks: list[_Look]) -> None:
        self.rows += 1
        self.prompts.add(sample)
        self.methods |= {sample.method} if sample.method is not None else set()
        self.concepts |= {sample.concept} if sample.concept is not None else set()
        self.with_references += bool(sample.references)
        row = sample.row or self.rows
        if sample.output is None:
            self.faults.append(Fault("missing: the row names no output", row=row, where="output", form=False))
        for look in looks:
            if look.trouble is not None:
                self.faults.append(Fault(look.trouble, row=row, where=look.column, form=False))
            if look.shaded is not None:
                self.shaded.add(f"row {row}, {look.shaded}")
            if look.unread is not None:
                self.unread.add(f"row {row}, {look.unread}")
            if look.column == "output":
                self.files.add_output(row, look.path, look.fingerprint)
            elif look.column == "references":
                self.files.add_reference(row, look.path, look.fingerprint)
            elif look.path is not None:
                self.files.add_path(look.path)
        self.faults += _unequal_sizes(row, looks)

    def report(self, source: SampleSource, form: tuple[Fault, ...]) -> ValidationReport:
        by_row = sorted([*self.faults, *self.prompts.faults()], key=lambda fault: fault.row or 0)
        notices = [*source.notices, *self.prompts.notices()]
        if 0 < self.with_references < self.rows:
            notices.append(f"rows without references: {self.rows - self.with_references} of {self.rows}")
        if not form:  # a row at fault may name them
            notices += self.files.leftovers(is_media)
        counts = {
            "rows": self.rows,
            "prompts": len(self.prompts.texts),
            "methods": len(self.methods),
            "concepts": len(self.concepts),
            "outputs_per_prompt": self.prompts.per_prompt(),
        }
        warnings = (
            *self.files.warnings(),
            *self.prompts.warnings(),
            *self.shaded.lines(_SHADED),
            *self.unread.lines(_UNREAD),
        )
        return ValidationReport(source.name, (*form, *by_row), tuple(warnings), tuple(dict.fromkeys(notices)), counts)


def _inspected(samples: Iterator[Sample], look: _Looker, workers: int) -> Iterator[tuple[Sample, list[_Look]]]:
    """Every sample with what its files gave, in order; a bounded number is under way at a time."""
    waiting: deque[tuple[Sample, Future[list[_Look]]]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        for sample in samples:
            waiting.append((sample, pool.submit(look, sample)))
            if len(waiting) >= workers * _AHEAD:
                first, future = waiting.popleft()
                yield first, future.result()
        for sample, future in waiting:
            yield sample, future.result()


def _unequal_sizes(row: int, looks: list[_Look]) -> Iterator[Fault]:
    output = next((look.size for look in looks if look.column == "output"), None)
    for look in looks:
        if look.column == "masks" and output and look.size and look.size != output:
            yield _size_fault(row, "masks", look.size, output)
    references = [look.size for look in looks if look.column == "references"]
    masks = [look.size for look in looks if look.column == "reference_masks"]
    for reference, mask in zip(references, masks):
        if reference and mask and reference != mask:
            yield _size_fault(row, "reference_masks", mask, reference)


def _size_fault(row: int, column: str, mask: tuple[int, int], picture: tuple[int, int]) -> Fault:
    text = f"a mask must have its picture's size; got {mask[0]}×{mask[1]} for {picture[0]}×{picture[1]} pixels"
    return Fault(text, row=row, where=column, form=False)


def _is_map(masks: Any) -> bool:
    return isinstance(masks, Mapping) and not is_written_mask(masks)


_SHADED = "masks of shades, of which what is at least half of white is taken for the subject"
_UNREAD = 'video files that were not looked into, and that no run can read here: pip install "beholder[video]"'
_COUNTED = ("rows", "prompts", "methods", "concepts")


def _counted(number: int, plural: str) -> str:
    if plural == "knowledge":
        plural = "knowledge items"
    return f"{number} {plural[:-1] if number == 1 else plural}"
