"""From a run's settings to its samples and to the name of its folder."""

from __future__ import annotations

import re
from pathlib import Path

from beholder._errors import UserError
from beholder.manifest.schema import SampleSource
from beholder.runs.config import RunConfig
from beholder.runs.plan import Plan


def config_source(config: RunConfig) -> SampleSource:
    """The samples that a config names.

    Raises:
        UserError: it names none.
        InputError: faults of the input's form.
    """
    from beholder.manifest import open_source

    if config.data is None and config.prompts is None:
        raise UserError(
            "a run needs samples",
            got="no input",
            fix="Name a manifest or folder, or give --prompts FILE with --outputs TEMPLATE",
        )
    return open_source(
        config.data,
        prompts=config.prompts,
        outputs=config.outputs,
        mapping=config.mapping or None,
        allow_extra=config.allow_extra,
    )


def default_out(config: RunConfig, plan: Plan) -> Path:
    """`runs/<input>-<first letters of the plan's key>`: the same command finds its own folder again."""
    name = config.data or config.prompts or "run"
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(name.rstrip("/")).stem).strip("-.") or "run"
    return Path("runs") / f"{stem}-{plan.key[:8]}"
