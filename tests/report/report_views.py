"""Run folders of protocols and attribute evaluations made by hand, for tests of their views."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image
from tests.comparing.made_runs import made_metric, made_run
from tests.report.report_runs import EVIL

from beholder.protocol_runs import FILE, _stamp, make_protocol, make_results
from beholder.runs.results import Run

METHODS = ("faithful", "copycat")
CONCEPTS = ("cat", "dog")


def picture(path: Path, colour: tuple[int, int, int]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", (40, 40), colour).save(path)


def mask(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    found = Image.new("L", (40, 40), 0)
    found.paste(255, (10, 10, 30, 30))
    found.save(path)


def named(label: str, name: str | None = None, **changes: Any) -> dict[str, Any]:
    entry = made_metric(label, **changes)
    return {**entry, "info": {**entry["info"], "name": name or label}}


def with_protocol(folder: Path, protocol: str) -> Path:
    """Writes the tables that a protocol makes of a run."""
    run = Run(folder)
    results = make_results(make_protocol(protocol), run)
    text = json.dumps({**results.to_dict(), "run": _stamp(run)})
    (folder / FILE).write_text(text, encoding="utf-8")
    return folder


def add_columns(folder: Path, columns: Mapping[str, Sequence[Any]]) -> None:
    table = pq.read_table(folder / "scores.parquet")
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values, pa.string()))
    pq.write_table(table, folder / "scores.parquet")


def subject_run(folder: Path, *, mark: str = "") -> Path:
    """Two concepts, both tasks, two seeds: `copycat` has the surroundings and never the subject; `mark` in all texts.

    clip_i is 0.9 for copycat and 0.5 for faithful, clip_i_seg 0.1 and 0.6, each plus 0.01 a seed.
    """
    rows, items, evidence = [], [], []
    for method in METHODS:
        for concept in CONCEPTS:
            for task in ("reconstruction", "generation"):
                for seed in (0, 1):
                    name = f"gen/{method}/{concept}-{task}-{seed}.png"
                    picture(folder / name, (200 if method == "copycat" else 20, 40 * seed, 90))
                    item = {"id": f"{name}{mark}", "image": name, "concept_id": concept + mark, "task": task,
                            "knowledge_id": "k0", "seed": seed, "method": method + mark,
                            "mask": "mask.png"}  # fmt: skip
                    copied = method == "copycat"
                    rows.append({
                        "id": f"{name}{mark}", "output": name, "prompt": f"my thing{mark}", "concept": concept + mark,
                        "task": task, "method": method + mark, "seed": seed, "knowledge_id": "k0",
                        "prompt_id": f"{task}-p", "references": [f"ref/{concept}.png"],
                        "clip_i": (0.9 if copied else 0.5) + 0.01 * seed,
                        "clip_i_seg": (0.1 if copied else 0.6) + 0.01 * seed,
                        "clip_t": None if task == "reconstruction" else 0.3,
                        "clip_t_status": "not_applicable" if task == "reconstruction" else "ok",
                        "background_share": 1.0 if copied else 0.0,
                    })  # fmt: skip
                    items.append({**item, "prompt_id": f"{task}-p", "prompt": f"my thing{mark}"})
                    evidence.append(json.dumps({"s_fg": 0.0 if copied else 0.3, "s_bg": 0.4 if copied else 0.0}))
    concepts = []
    for concept in CONCEPTS:
        picture(folder / f"ref/{concept}.png", (9, 200, 9))
        concepts.append({"concept_id": concept + mark, "class_name": concept, "references": [f"ref/{concept}.png"],
                         "reference_masks": ["mask.png"],
                         "knowledge": [{"id": "k0", "text": f"my thing{mark}"}]})  # fmt: skip
    mask(folder / "mask.png")
    (folder / "manifest.json").write_text(json.dumps({"concepts": concepts, "items": items}), encoding="utf-8")
    metrics = [named("clip_i"), named("clip_i_seg"), named("clip_t"), named("background_share", higher=False)]
    asked = {"by": [], "max_failed": 0.0, "seed": 0, "resamples": 200, "level": 0.95,
             "data": str(folder / "manifest.json")}  # fmt: skip
    places = {"absolute": [str(folder / "manifest.json")], "from_run": ["../manifest.json"]}
    run = made_run(folder / "run", rows, metrics, asked=asked, input=places)
    add_columns(run, {"background_share_evidence": evidence})
    return with_protocol(run, "knowcusbench")


def video_run(folder: Path, *, mark: str = "") -> Path:
    """Two models with two videos each: `gone` has no NexusScore, so its total is partial."""
    labels = ("laion_aesthetic", "motion_smoothness", "motion_amplitude", "facesim_cur", "gme_score", "nexus_score",
              "natural_score")  # fmt: skip
    values = {"laion_aesthetic": 5.5, "motion_smoothness": 0.5, "motion_amplitude": 0.1, "facesim_cur": 0.4,
              "gme_score": 0.5, "nexus_score": 0.025, "natural_score": 3.0}  # fmt: skip
    rows: list[dict[str, Any]] = []
    for model in ("whole", "gone"):
        for stem in ("faceobj_1", "singleobj_1"):
            row = {"id": f"{model}/{stem}{mark}", "output": f"videos/{model}/{stem}.mp4", "prompt": f"a thing{mark}",
                   "task": stem.split("_")[0], "method": model + mark, "prompt_id": stem, "stem": stem}  # fmt: skip
            row |= values
            if model == "gone":
                row |= {"nexus_score": None, "nexus_score_status": "no_detection"}
            rows.append(row)
    run = made_run(folder / "run", rows, [named(label) for label in labels])
    told = [f"no box{mark}" if row["nexus_score"] is None else None for row in rows]
    beside = [json.dumps({"nexus_corrected": 0.5, "mean_similarity": 0.6, "coverage": 1.0}) for _ in rows]
    add_columns(run, {"nexus_score_reason": told, "nexus_score_evidence": beside})
    return with_protocol(run, "opens2v")


def attribute_folder(folder: Path, *, mark: str = "", model: str = "hf:openai/clip-vit-base-patch16") -> Path:
    """Two attributes on a grid of 2×2: "a cat" is significant, moved from the left half to the right one."""
    names = [f"a cat{mark}", f"a dog{mark}"]
    attributes = [{"set": f"sdxl{mark}", "attribute": name, "status": "ok", "n_ref": 9, "n_gen": 9, "irrelevant": False,
                   "sad": 0.5 if at == 0 else 0.02, "sad_low": 0.4 if at == 0 else 0.01,
                   "sad_high": 0.7 if at == 0 else 0.05, "sad_corrected": 0.45 if at == 0 else None,
                   "sad_corrected_low": 0.3 if at == 0 else None, "sad_corrected_high": 0.6 if at == 0 else None,
                   "sad_null_level": 0.1, "sad_q": 0.001 if at == 0 else 0.6,
                   "mean_difference": 0.25 if at == 0 else -0.01, "w1": 0.2, "jsd": 0.1, "mar": 0.3, "mar_q": 0.01,
                   "prevalence_ref": 0.25, "prevalence_gen": 0.5,
                   "placement_status": "ok" if at == 0 else "not_enough_evidence",
                   "placement_jsd": 0.6 if at == 0 else None, "placement_jsd_q": 0.01 if at == 0 else None,
                   "placement_shift_x": 0.5 if at == 0 else None, "placement_shift_y": 0.0 if at == 0 else None}
                  for at, name in enumerate(names)]  # fmt: skip
    pairs = [{"set": f"sdxl{mark}", "first": names[0], "second": names[1], "pad": 0.75, "dependence": -0.25,
              "pad_q": 0.01, "dependence_q": 0.5}]  # fmt: skip
    sets = [{"rank": 1, "set": f"sdxl{mark}", "n_ref": 9, "n_gen": 9, "sad_mean": 0.26, "sad_mean_low": 0.2,
             "sad_mean_high": 0.4, "sad_mean_corrected": 0.21, "sad_mean_corrected_low": 0.1,
             "sad_mean_corrected_high": 0.3, "sad_mean_null_level": 0.1, "pad_mean": 0.75, "mar_mean": 0.3,
             "significant_attributes": 1, "n_attributes": 2}]  # fmt: skip
    folder.mkdir(parents=True)
    for name, rows in (("attributes", attributes), ("pairs", pairs), ("sets", sets)):
        pq.write_table(pa.Table.from_pylist(rows), folder / f"{name}.parquet")
    ref = np.array([[[1.0, 0.0], [1.0, 0.0]]] * 2)
    gen = ref[:, :, ::-1]
    buffer = io.BytesIO()
    np.savez(buffer, ref_mean=ref, gen_mean=gen, r_sad=ref - gen, significant=ref > 0, valid=np.array([True, False]))
    (folder / "maps").mkdir()
    (folder / "maps" / "000.npz").write_bytes(buffer.getvalue())
    header = {"generated": [f"sdxl{mark}"], "model": {"id": model}, "notices": [mark] if mark else [],
              "settings": {"score": "ra_clip_score", "density": "gaussian", "direction": "gen||ref", "seed": 0,
                           "background": "min"}}  # fmt: skip
    (folder / "attributes.json").write_text(json.dumps(header), encoding="utf-8")
    return folder


__all__ = ["EVIL", "attribute_folder", "subject_run", "video_run"]
