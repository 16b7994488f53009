"""The files of a published repo.

| file | for |
|---|---|
| `vocab_freq.safetensors` | vocabfreq: counts, ranks, where they come from |
| `freq_K.pt` | SGLang, FR-Spec and others that read a token map |
| `config.json` | programs that identify the repo |
| `coverage.png`, `README.md` | people |
| `SHA256SUMS` | checking that nothing was changed on the way |
"""

import json
import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vocabfreq.errors import MissingExtraError, RefusedError, SelectionError, first_line
from vocabfreq.formats import write
from vocabfreq.frequencies.draft_vocab import DraftVocab
from vocabfreq.frequencies.frequency_file import NAME as FREQUENCIES
from vocabfreq.frequencies.table import FrequencyTable
from vocabfreq.hub.card import CardInfo, render_card, target_repo
from vocabfreq.storage.manifest import MANIFEST, make_manifest

CONFIG, CARD, PICTURE = "config.json", "README.md", "coverage.png"
DEFAULT_SIZES = (8192, 16384, 32768, 65536)


@dataclass(frozen=True)
class Contents:
    """The files of a repo.

    Attributes:
        files: name → bytes, `SHA256SUMS` included.
        remarks: what is missing, and why.
    """

    files: dict[str, bytes]
    remarks: tuple[str, ...] = ()


def map_name(size: int) -> str:
    """Name of the token map of a size, as FR-Spec and SGLang use it."""
    return f"freq_{size}.pt"


def contents_of(file: Path, info: CardInfo, sizes: Sequence[int] | None = None) -> Contents:
    """Makes the files of a repo; the same input gives the same bytes.

    Args:
        file: a frequency file.
        info: what the card states beyond it.
        sizes: values of K that get a token map; None for the default ones below V.

    Raises:
        FileFormatError: it is no frequency file.
        RefusedError: its metadata names a local path.
        SelectionError: a size cannot be selected; names both numbers.
    """
    table = FrequencyTable.load(file)
    _check_names(table)
    vocabs = _select(table, sizes)
    files = {FREQUENCIES: file.read_bytes(), CONFIG: _config(table, vocabs)}
    remarks = []
    if target_repo(table, info) is None:
        remarks.append("the card names no target: add --base-model OWNER/NAME (base_model=)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for vocab in vocabs:
            write(vocab, folder / map_name(len(vocab)), "token-map")
        try:
            from vocabfreq.frequencies.plots import save_coverage_plot

            save_coverage_plot(table, folder / PICTURE, [len(vocab) for vocab in vocabs])
        except MissingExtraError as error:
            remarks.append(f"no {PICTURE}: {error.wrong}; {error.hint}")
        except Exception as error:  # of a broken drawing library: the picture is optional
            remarks.append(f"no {PICTURE}: {first_line(error)}")
        files |= {path.name: path.read_bytes() for path in sorted(folder.iterdir())}
    files[CARD] = render_card(table, vocabs, info, PICTURE in files).encode()
    return Contents(files | {MANIFEST: make_manifest(files)}, tuple(remarks))


def _check_names(table: FrequencyTable) -> None:
    """Checks that files go by their base names, since the metadata is published.

    Raises:
        RefusedError: a local path in the metadata.
    """
    names = [table.tokenizer.name, *(file for s in table.sources for file in s.files)]
    local = [name for name in names if re.match(r"[/~\\]|[A-Za-z]:[\\/]", name)]
    if local:
        raise RefusedError(
            f"the metadata names the local path {local[0][:200]!r}",
            expected="base names, as vocabfreq build writes them",
            hint="build the file again",
        )


def _select(table: FrequencyTable, sizes: Sequence[int] | None) -> list[DraftVocab]:
    if sizes is not None:
        return [table.select(size) for size in sorted(set(sizes))]
    vocabs = []
    for size in DEFAULT_SIZES:
        try:
            vocabs.append(table.select(size))
        except SelectionError:  # more than can be emitted, or fewer than the pins
            continue
    return vocabs


def _config(table: FrequencyTable, vocabs: list[DraftVocab]) -> bytes:
    tokenizer = table.tokenizer
    config: dict[str, Any] = {
        "library_name": "vocabfreq",
        "format": table.meta.format,
        "vocabfreq": table.meta.vocabfreq,
        "tokenizer": {
            "name": tokenizer.name,
            "revision": tokenizer.revision,
            "sha256": tokenizer.sha256,
        },
        "rows": tokenizer.rows,
        "sources": [source.name for source in table.sources],
        "sizes": [
            {
                "size": len(vocab),
                "file": map_name(len(vocab)),
                "fingerprint": vocab.fingerprint,
                "coverage": dict(vocab.coverage),
                "filled": vocab.filled,
            }
            for vocab in vocabs
        ],
    }
    return (json.dumps(config, indent=2, sort_keys=True) + "\n").encode()
