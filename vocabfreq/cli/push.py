"""`vocabfreq push`: publish a frequency file on the Hugging Face Hub, in one commit."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vocabfreq.cli import render
from vocabfreq.cli.options import OUTPUT, JsonOption, QuietOption

if TYPE_CHECKING:
    from vocabfreq.hub import Contents, Pushed

WHERE, CARD = "Where to", "What the card says"


def push(
    file: Annotated[Path, typer.Argument(help="A frequency file.")],
    repo: Annotated[
        str, typer.Argument(metavar="OWNER/NAME", help="A model repo, made if it does not exist.")
    ],
    size: Annotated[
        list[int] | None,
        typer.Option(
            metavar="K", help="A size that gets a token map; repeat it. Default: the usual ones."
        ),
    ] = None,
    revision: Annotated[
        str | None,
        typer.Option(metavar="BRANCH", help="Default: main.", rich_help_panel=WHERE),
    ] = None,
    create_pr: Annotated[
        bool, typer.Option("--create-pr", help="Open a pull request.", rich_help_panel=WHERE)
    ] = False,
    private: Annotated[
        bool, typer.Option("--private", help="If the repo is new.", rich_help_panel=WHERE)
    ] = False,
    message: Annotated[
        str | None, typer.Option(help="Of the commit.", rich_help_panel=WHERE)
    ] = None,
    licence: Annotated[
        str,
        typer.Option("--license", metavar="ID", help="As the Hub names it.", rich_help_panel=CARD),
    ] = "unknown",
    base_model: Annotated[
        str | None,
        typer.Option(
            metavar="OWNER/NAME",
            help="The target. Default: the tokenizer's repo.",
            rich_help_panel=CARD,
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="List files and sizes, write them into ./NAME to look at, and send nothing.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Publish a frequency file: the file, token maps, a card with a picture, sums of every file.

    The login is that of the Hub's client: hf auth login, or HF_TOKEN.
    """
    from vocabfreq.hub import contents_of
    from vocabfreq.hub.card import CardInfo
    from vocabfreq.hub.pushing import MESSAGE, PushOptions, upload

    options = PushOptions(repo, revision, create_pr, private, message or MESSAGE)
    contents = contents_of(file, CardInfo(repo, licence, base_model), size)
    for remark in contents.remarks:
        render.note(f"note: {remark}", quiet=quiet)
    if dry_run:
        _rehearse(contents, Path(repo.partition("/")[2]), as_json, quiet)
        return
    pushed = upload(contents, options)
    if as_json:
        render.print_json(_as_dict(pushed))
    elif not quiet:
        _print(pushed)


def _rehearse(contents: "Contents", folder: Path, as_json: bool, quiet: bool) -> None:
    """Shows what would be sent; the files go into a folder of their own."""
    from vocabfreq.errors import OverwriteError
    from vocabfreq.storage.atomic import write_atomically

    ours = (folder / "SHA256SUMS").is_file()  # of an earlier rehearsal
    if folder.exists() and not ours and (not folder.is_dir() or any(folder.iterdir())):
        raise OverwriteError(f"{folder} is in the way", hint="move it, or run this elsewhere")
    for name, data in contents.files.items():
        write_atomically(folder / name, data)
    sizes = {name: len(data) for name, data in contents.files.items()}
    if as_json:
        render.print_json({"folder": str(folder), "files": sizes})
    elif not quiet:
        _print_files(sizes)
        print(f"Nothing was sent. The files are in {folder}/, README.md is the card.")


def _print_files(sizes: dict[str, int]) -> None:
    rows = [[name, f"{size:,}"] for name, size in sizes.items()]
    render.print_table("", ["file", "bytes"], rows)


def _print(pushed: "Pushed") -> None:
    if not pushed.changed:
        print(f"Nothing to do: {pushed.repo} has these files already, at {pushed.commit}.")
    else:
        _print_files(pushed.files)
        print(f"Pushed to {pushed.repo} in one commit, {pushed.commit}.")
    print(render.clean(f"{pushed.url}\nNext: vocabfreq verify {pushed.repo}@{pushed.commit}"))


def _as_dict(pushed: "Pushed") -> dict[str, Any]:
    from dataclasses import asdict

    return {**asdict(pushed), "remarks": list(pushed.remarks)}
