"""`beholder models`: which weights there are, where they lie, and whether they are whole."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from beholder.cli import options
from beholder.cli.guard import GATE_NOT_MET
from beholder.cli.output import put_card, put_json, say

if TYPE_CHECKING:
    from beholder.backends.base import ResolvedModel

app = typer.Typer(add_completion=False)

Name = Annotated[str, typer.Argument(metavar="NAME", help="Model, like openai:ViT-L-14.", show_default=False)]


@app.callback(invoke_without_command=True)
def models(context: typer.Context) -> None:
    """Find, fetch and check the weights of models.

    Without a subcommand: list.

    Example: beholder models pull openai:ViT-L-14
    """
    if context.invoked_subcommand is None:
        from beholder.cli.list import list_known_models

        list_known_models(None, as_json=False)


@app.command(name="list")
def list_models(
    family: Annotated[str | None, typer.Option(metavar="FAMILY", help="Only this family, like siglip2.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """List the models that are known by name.

    Hub repositories (hf:org/name) and local folders (./folder) work as well.

    Example: beholder models list --family clip
    """
    from beholder.cli.list import list_known_models

    list_known_models(family, as_json=as_json)


@app.command()
def where(name: Name, cache_dir: options.CacheDir = None, as_json: options.AsJson = False) -> None:
    """Say where a model's weights lie on this machine.

    Fetches nothing. Exit code 2 when they are nowhere.

    Example: beholder models where openai:ViT-L-14
    """
    _put_resolved(_resolve(name, cache_dir, offline=True), as_json=as_json)


@app.command()
def pull(name: Name, cache_dir: options.CacheDir = None, as_json: options.AsJson = False) -> None:
    """Fetch a model's weights and check their hashes.

    Weights that are on this machine already are not fetched again.

    Example: beholder models pull openai:ViT-L-14 --cache-dir weights
    """
    _put_resolved(_resolve(name, cache_dir, offline=None), as_json=as_json)


@app.command()
def verify(name: Name, cache_dir: options.CacheDir = None, as_json: options.AsJson = False) -> None:
    """Check that a model's weights are whole.

    Reads every file again, compares its hash where one is known, and loads the model completely on the CPU. Exit
    code 1 when something does not fit.

    Example: beholder models verify openai:ViT-L-14
    """
    from beholder._errors import WeightsMismatchError
    from beholder.backends.base import LoadOptions
    from beholder.backends.manage import has_files
    from beholder.backends.manage import verify as check_files
    from beholder.backends.pool import load_model

    if has_files(name):
        faults = [check for check in check_files(name, options=LoadOptions(cache_dir, True)) if not check.ok]
        for check in faults:
            say(f"Error: {check.path}: {check.fault}")
        if faults:
            raise typer.Exit(GATE_NOT_MET)
    try:
        resolved = _resolve(name, cache_dir, offline=True)
        load_model(resolved, device="cpu").close()
    except WeightsMismatchError as error:
        say(f"Error: {error}")
        raise typer.Exit(GATE_NOT_MET) from None
    _put_resolved(resolved, as_json=as_json)
    say("The weights load completely.")


def _resolve(name: str, cache_dir: str | None, *, offline: bool | None) -> ResolvedModel:
    from beholder.backends.base import LoadOptions
    from beholder.backends.pool import main_capability, resolve_model

    return resolve_model(name, options=LoadOptions(cache_dir, offline), capability=main_capability(name))


def _put_resolved(model: ResolvedModel, *, as_json: bool) -> None:
    facts = {
        "asked": model.asked,
        "id": model.id,
        "location": model.location,
        "revision": model.card.revision,
        "weights_sha256": model.weights_sha256,
        "licence": model.card.licence,
    }
    if as_json:
        put_json(facts)
    else:
        put_card(
            model.id,
            [
                ("asked for as", model.asked if model.asked != model.id else ""),
                ("lies in", model.location or "no file: it is made in memory"),
                ("revision", model.card.revision or ""),
                ("sha256 of all files", model.weights_sha256),
                ("licence", model.card.licence or "not checked"),
            ],
        )
