"""`vocabfreq push`: publishes a frequency file on the Hugging Face Hub, in one commit."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vocabfreq.cli import render
from vocabfreq.cli.options import OUTPUT, JsonOption, QuietOption, flag, with_options

if TYPE_CHECKING:
    from vocabfreq.hub import Contents, Pushed

DESTINATION, CARD = "Destination", "Model card"


@dataclass(frozen=True, kw_only=True)
class PushOptions:
    """Options of `push`."""

    file: Annotated[Path, typer.Argument(metavar="FILE", help="Frequency file.")]
    repo: Annotated[
        str,
        typer.Argument(metavar="OWNER/NAME", help="Model repo; created if it does not exist."),
    ]
    revision: Annotated[
        str | None,
        typer.Option(metavar="BRANCH", help="Branch. Default: main.", rich_help_panel=DESTINATION),
    ] = None
    create_pr: Annotated[
        bool, flag("--create-pr", help="Open a pull request.", panel=DESTINATION)
    ] = False
    private: Annotated[
        bool, flag("--private", help="Make a new repo private.", panel=DESTINATION)
    ] = False
    message: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Commit message.", rich_help_panel=DESTINATION),
    ] = None
    licence: Annotated[
        str,
        typer.Option(
            "--license",
            metavar="ID",
            help="License id as the Hub names it, such as apache-2.0.",
            rich_help_panel=CARD,
        ),
    ] = "unknown"
    base_model: Annotated[
        str | None,
        typer.Option(
            metavar="OWNER/NAME",
            help="Repo of the target. Default: the tokenizer's repo.",
            rich_help_panel=CARD,
        ),
    ] = None
    size: Annotated[
        list[int] | None,
        typer.Option(
            metavar="K",
            help="Size of a token map; repeat for more. Default: 8192 to 65536.",
            rich_help_panel=OUTPUT,
        ),
    ] = None
    dry_run: Annotated[
        bool,
        flag(
            "--dry-run",
            help="List the files, write them into ./NAME for inspection, send nothing.",
            panel=OUTPUT,
        ),
    ] = False
    as_json: JsonOption = False
    quiet: QuietOption = False


@with_options(PushOptions)
def push(options: PushOptions) -> None:
    """Publish a frequency file, token maps and a model card.

    One commit holds them all, and SHA256SUMS with a checksum of every file. Log in with hf auth
    login, or set HF_TOKEN.
    """
    from vocabfreq.hub import contents_of
    from vocabfreq.hub.card import About
    from vocabfreq.hub.push import MESSAGE, Place, check_place, upload

    place = Place(
        repo=options.repo,
        revision=options.revision,
        create_pr=options.create_pr,
        private=options.private,
        message=options.message or MESSAGE,
    )
    check_place(place)
    about = About(options.repo, options.licence, options.base_model)
    contents = contents_of(options.file, about, options.size)
    for remark in contents.remarks:
        render.note(f"note: {remark}", quiet=options.quiet)
    if options.dry_run:
        _write_locally(contents, options)
        return
    pushed = upload(contents, place)
    if options.as_json:
        render.print_json({**asdict(pushed), "remarks": list(pushed.remarks)})
    elif not options.quiet:
        _print(pushed)


def _write_locally(contents: "Contents", options: PushOptions) -> None:
    """Writes the files into a folder named like the repo, and sends nothing."""
    from vocabfreq.errors import OverwriteError
    from vocabfreq.storage.atomic import write_atomically

    folder = Path(options.repo.partition("/")[2])
    ours = (folder / "SHA256SUMS").is_file()  # of an earlier --dry-run
    if folder.exists() and not ours and (not folder.is_dir() or any(folder.iterdir())):
        raise OverwriteError(
            f"{folder} exists and is not the output of an earlier --dry-run",
            hint="move it, or run this in another folder",
        )
    for name, data in contents.files.items():
        write_atomically(folder / name, data)
    sizes = {name: len(data) for name, data in contents.files.items()}
    if options.as_json:
        render.print_json({"folder": str(folder), "files": sizes})
    elif not options.quiet:
        _print_files(sizes)
        print(f"Nothing was sent. The files are in {folder}/; README.md is the card.")


def _print(pushed: "Pushed") -> None:
    if not pushed.changed:
        print(f"Nothing to do: {pushed.repo} has these files already, at {pushed.commit}.")
    else:
        _print_files(pushed.files)
        print(f"Pushed to {pushed.repo} in one commit, {pushed.commit}.")
    print(render.clean(f"{pushed.url}\nNext: vocabfreq verify {pushed.repo}@{pushed.commit}"))


def _print_files(sizes: dict[str, int]) -> None:
    rows = [[name, f"{size:,}"] for name, size in sizes.items()]
    render.print_table("", ["file", "bytes"], rows)
