"""`beholder cite`: what to cite for a run, a metric or a model."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from beholder.cli import options
from beholder.cli.output import put, put_json, say

app = typer.Typer(add_completion=False)

_FORMS = ("text", "bibtex", "json")
_ARXIV = re.compile(r"arXiv[: ]\s*([0-9]{4}\.[0-9]{4,5})")


@app.command()
def cite(
    names: Annotated[
        list[str],
        typer.Argument(metavar="RUN|METRIC|MODEL...", help="Run folders, metrics or models.", show_default=False),
    ],
    form: Annotated[
        str, typer.Option("--as", metavar="FORM", help="text, bibtex or json.", rich_help_panel=options.OUTPUT)
    ] = "text",
) -> None:
    """Print what to cite.

    The papers of the metrics and models that were used, and beholder itself. What has no paper on its card is named
    on stderr.

    Example: beholder cite runs/sdxl --as bibtex
    """
    from beholder._errors import OptionError

    if form not in _FORMS:
        raise OptionError(f"--as must be one of: {', '.join(_FORMS)}", got=repr(form))
    papers: dict[str, list[str]] = {}
    silent: dict[str, None] = {}
    for user, paper in (pair for name in names for pair in _papers(name)):
        if paper is None:
            silent[user] = None
            continue
        for part in paper.split("; "):
            users = papers.setdefault(part.strip().rstrip("."), [])
            if user not in users:
                users.append(user)
    for user in silent:
        say(f"Note: the card of {user} names no paper.")
    if form == "json":
        put_json([{"paper": paper, "used_by": users} for paper, users in papers.items()])
    else:
        put("".join(bibtex(papers) if form == "bibtex" else _text(papers)))


def _papers(name: str) -> Iterable[tuple[str, str | None]]:
    """(metric or model, its paper) of everything that a name stands for."""
    if (Path(name) / "run.json").is_file():
        from beholder.runs.results import open_run_folder

        return list(_papers_of_run(open_run_folder(name).header))
    return list(_papers_of_name(name))


def _papers_of_run(header: Mapping[str, Any]) -> Iterable[tuple[str, str | None]]:
    for item in header["metrics"]:
        yield item["info"]["name"], item["info"]["paper"]
    for model in header["models"].values():
        yield model["id"], model["card"]["paper"]


def _papers_of_name(name: str) -> Iterable[tuple[str, str | None]]:
    from beholder.backends.pool import find_card
    from beholder.cli.info import find_metric, find_model

    metric = find_metric(name)
    if metric is None:
        card = find_model(name)
        yield card.id, card.paper
        return
    yield metric.info.name, metric.info.paper
    for slot in metric.slots:
        used = find_card(slot.model)
        if used is not None:
            yield used.id, used.paper


def _text(papers: Mapping[str, list[str]]) -> Iterable[str]:
    from beholder import __version__

    for paper, users in papers.items():
        yield f"{paper}. ({', '.join(users)})\n"
    yield f"beholder, version {__version__}.\n"


def bibtex(papers: Mapping[str, list[str]]) -> Iterable[str]:
    """BibTeX entries: author, title and arXiv number where the citation has them, else the citation as it is."""
    from beholder import __version__

    keys: set[str] = set()
    for paper, users in papers.items():
        fields = citation_fields(paper)
        key = _key(fields, users[0], keys)
        body = "".join(f"  {name} = {{{_braced(value)}}},\n" for name, value in fields.items())
        yield f"@misc{{{key},\n{body}  note = {{used by {_braced(', '.join(users))}}},\n}}\n"
    yield f"@misc{{beholder,\n  title = {{beholder}},\n  version = {{{__version__}}},\n}}\n"


def citation_fields(paper: str) -> dict[str, str]:
    """Fields of a citation like "Hessel et al. 2021, CLIPScore, arXiv 2104.08718".

    >>> citation_fields("Hessel et al. 2021, CLIPScore, arXiv 2104.08718")["author"]
    'Hessel and others'
    """
    number = _ARXIV.search(paper)
    head = re.match(r"(?P<author>[^,]+?)(?P<more> et al\.?)?(?: (?P<year>[12][0-9]{3}))?, (?P<title>.+)", paper)
    if number is None or head is None:
        return {"title": paper}
    title = _ARXIV.sub("", head["title"]).strip(" ,.;")
    year = head["year"] or f"20{number.group(1)[:2]}"
    author = head["author"] + (" and others" if head["more"] else "")
    return {"author": author, "title": title, "year": year, "eprint": number.group(1), "archivePrefix": "arXiv"}


def _key(fields: Mapping[str, str], user: str, taken: set[str]) -> str:
    """A key that no other entry has: author and year, else the user's name."""
    stem = fields.get("author", user).partition(" ")[0].lower() + fields.get("year", "")
    stem = re.sub(r"[^a-z0-9]+", "", stem) or "entry"
    key = next(name for name in (stem, *(f"{stem}{letter}" for letter in "bcdefghijklmnop")) if name not in taken)
    taken.add(key)
    return key


def _braced(text: str) -> str:
    return re.sub(r"([_&%#$])", r"\\\1", text)
