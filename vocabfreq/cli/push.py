"""`vocabfreq push`: publishes a frequency file on the Hugging Face Hub, in one commit."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from vocabfreq.cli import render
from vocabfreq.cli.options import (
    OUTPUT,
    FileArgument,
    JsonOption,
    Panel,
    QuietOption,
    argument,
    with_options,
)

if TYPE_CHECKING:
    from vocabfreq.hub import Contents, Pushed

DESTINATION, CARD = Panel("Destination"), Panel("Model card")


@dataclass(frozen=True, kw_only=True)
class PushOptions:
    """Options of `push`."""

    file: FileArgument
    repo: Annotated[str, argument("OWNER/NAME", "Model repo; created if it does not exist.")]
    revision: Annotated[str | None, DESTINATION.option("BRANCH", "Branch. Default: main.")] = None
    create_pr: Annotated[bool, DESTINATION.flag("Open a pull request.", "--create-pr")] = False
    private: Annotated[bool, DESTINATION.flag("Make a new repo private.", "--private")] = False
    message: Annotated[str | None, DESTINATION.option("TEXT", "Commit message.")] = None
    licence: Annotated[
        str, CARD.option("ID", "License id as the Hub names it, such as apache-2.0.", "--license")
    ] = "unknown"
    base_model: Annotated[
        str | None, CARD.option("OWNER/NAME", "Repo of the target. Default: the tokenizer's repo.")
    ] = None
    size: Annotated[
        list[int] | None,
        OUTPUT.option("K", "Size of a token map; repeat for more. Default: 8192 to 65536."),
    ] = None
    dry_run: Annotated[
        bool,
        OUTPUT.flag(
            "List the files, write them into ./NAME for inspection, send nothing.", "--dry-run"
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
    from vocabfreq.hub.card import CardInfo
    from vocabfreq.hub.pushing import MESSAGE, PushOptions, upload

    place = PushOptions(
        repo=options.repo,
        revision=options.revision,
        create_pr=options.create_pr,
        private=options.private,
        message=options.message or MESSAGE,
    )
    about = CardInfo(options.repo, options.licence, options.base_model)
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
