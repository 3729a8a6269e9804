"""What tells the identities of two runs apart: numbers that differ in it are not compared without a warning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Header = Mapping[str, Any]


def identity_warnings(runs: Sequence[tuple[str, Header]]) -> list[str]:
    """One sentence for every way in which a run differs from the first one that has the same column.

    Args:
        runs: (name, header) of each run.
    """
    warnings: list[str] = []
    first_with: dict[str, tuple[str, Header]] = {}
    compared: set[tuple[str, str]] = set()
    for name, header in runs:
        for entry in header.get("metrics", []):
            label = str(entry["label"])
            known_name, known = first_with.setdefault(label, (name, header))
            if known is header:
                continue
            warnings += [
                f"{label} of {name} is not the same number as that of {known_name}: {fact}"
                for fact in _metric_differences(_entry(known, label), entry, known, header)
            ]
            if (known_name, name) not in compared:
                compared.add((known_name, name))
                warnings += [f"{name} differs from {known_name} in {fact}" for fact in _run_differences(known, header)]
    return warnings


def metric_differences(one: Header, other: Header, label: str) -> list[str]:
    """In which ways a metric of one run is not the same number as that of another."""
    return _metric_differences(_entry(one, label), _entry(other, label), one, other)


def run_differences(one: Header, other: Header) -> list[str]:
    """In which ways two runs differ beside their metrics: decoding, truncation, versions."""
    return _run_differences(one, other)


def _entry(header: Header, label: str) -> Header:
    return next(entry for entry in header["metrics"] if entry["label"] == label)


def _metric_differences(one: Header, other: Header, one_run: Header, other_run: Header) -> list[str]:
    facts = []
    if one["identity"] != other["identity"]:
        facts.append(f"{other['identity']} against {one['identity']}")
    versions = [str(entry.get("info", {}).get("version")) for entry in (one, other)]
    if versions[0] != versions[1]:
        facts.append(f"version {versions[1]} of the metric against {versions[0]}")
    if one.get("settings") != other.get("settings"):
        facts.append("settings: " + _changed(one.get("settings") or {}, other.get("settings") or {}))
    models: dict[str, list[str]] = {}
    for slot in sorted({*one.get("slots", {}), *other.get("slots", {})}):
        before, after = (_slot_model(entry, run, slot) for entry, run in ((one, one_run), (other, other_run)))
        if before != after and before and after:
            models.setdefault(_changed(before, after), []).append(slot)
    return [*facts, *(f"model of {' and '.join(slots)}: {text}" for text, slots in models.items())]


def _slot_model(entry: Header, run: Header, slot: str) -> dict[str, Any]:
    """What of a slot's model belongs to the identity of the number."""
    found = entry.get("slots", {}).get(slot)
    if found is None:
        return {}
    model = run.get("models", {}).get(found.get("model_key"), {})
    facts = {"id": found.get("model"), "weights": _short(model.get("weights_sha256")), "dtype": model.get("dtype")}
    return facts | {"preprocessing": model.get("preprocessing")}


def _run_differences(one: Header, other: Header) -> list[str]:
    facts = []
    for name in ("decode", "truncation"):
        if one.get(name) != other.get(name):
            before, after = one.get(name), other.get(name)
            if isinstance(before, Mapping) and isinstance(after, Mapping):
                facts.append(f"{name}: {_changed(before, after)}")
            else:
                facts.append(f"{name}: {after} against {before}")
    changed = _changed(one.get("versions", {}), other.get("versions", {}))
    return [*facts, f"versions: {changed}"] if changed else facts


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    one, other = _flat(before), _flat(after)
    different = [name for name in sorted({*one, *other}) if one.get(name) != other.get(name)]
    return ", ".join(f"{name} {other.get(name)} against {one.get(name)}" for name in different)


def _flat(facts: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested facts by dotted names, so that only what differs within them is named."""
    found: dict[str, Any] = {}
    for name, value in facts.items():
        if isinstance(value, Mapping) and value:
            found |= _flat(value, f"{prefix}{name}.")
        else:
            found[f"{prefix}{name}"] = value
    return found


def _short(digest: Any) -> str | None:
    return None if digest is None else str(digest)[:12]
