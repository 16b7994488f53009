"""Files of a Hub data set at one commit: read by us through range requests, or by `datasets`."""

import io
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import IO, TYPE_CHECKING, Any

from vocabfreq.corpus.files import InputFile, open_remote
from vocabfreq.errors import SourceError
from vocabfreq.storage.resolve import first_line, unreachable

if TYPE_CHECKING:
    import pyarrow as pa

    from vocabfreq.corpus.readers import Piece

STREAM_ROWS = 1000


@dataclass(frozen=True)
class Split:
    """A split of a config at one commit, as `datasets` is asked for it.

    Attributes:
        repo: the repo id.
        commit: the commit.
        config: name of the config.
        name: name of the split.
        files: how many files it has.
        is_csv: whether every cell is to be read as the text that it is.
    """

    repo: str
    commit: str
    config: str
    name: str
    files: int
    is_csv: bool


@dataclass(frozen=True)
class HubFile(InputFile):
    """A file that our own readers read, by range requests."""

    def open(self) -> IO[bytes]:
        """Opens it for reading bytes.

        Raises:
            SourceError: the Hub does not hand it out; so does every read.
        """
        try:
            return _Reader(open_remote(self.path), self.name)  # type: ignore[return-value]
        except Exception as failure:  # the client's errors share no base from version to version
            raise unreachable(self.name, failure, SourceError) from None


class _Reader(io.RawIOBase):
    """The bytes of a remote file; whatever goes wrong becomes an error that names the file."""

    def __init__(self, raw: Any, name: str) -> None:
        self._raw, self._name = raw, name

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return int(self._raw.seek(offset, whence))

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        start = self._raw.tell()
        try:
            data = self._raw.read(len(buffer))
        except Exception as failure:  # as above
            raise unreachable(self._name, failure, SourceError) from None
        if len(data) < min(len(buffer), self._raw.size - start):
            raise SourceError(
                f"{self._name} ends at byte {start + len(data)} of {self._raw.size}",
                hint="something between here and the Hub cuts answers short; run it again",
            )
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._raw.close()
        super().close()


@dataclass(frozen=True)
class StreamedFile(InputFile):
    """A file that `datasets` reads for us.

    Attributes:
        split: where it is from.
        number: its place in there.
    """

    split: Split
    number: int


def stream_shard(piece: "Piece", columns: list[str] | None) -> "Iterator[pa.RecordBatch]":
    """Streams one file of a data set through `datasets`, in Arrow format.

    Args:
        piece: a piece whose file is a StreamedFile.
        columns: the wanted ones, None for all.

    Raises:
        SourceError: anything at all is wrong with it; it names the file.
    """
    file = piece.file
    assert isinstance(file, StreamedFile)  # only _streamed makes files of the format "hub"
    try:
        stream = _stream(file.split, tuple(columns or ()))
        shard = stream.shard(num_shards=file.split.files, index=file.number)
        for table in shard.with_format("arrow").iter(STREAM_ROWS):
            yield from table.to_batches()
    except Exception as failure:  # pandas, pyarrow, datasets and the client each have their own
        raise SourceError(
            f"{file.name} cannot be streamed: {first_line(failure)}",
            hint="a row that is broken ends such a file; as jsonl or parquet it would be skipped",
        ) from None


@lru_cache(maxsize=8)
def _stream(split: Split, columns: tuple[str, ...]) -> Any:
    """A split as a stream with one shard a file. Made once a process: it takes many requests."""
    from datasets import load_dataset

    options = _csv_options(columns) if split.is_csv else {}
    stream: Any = load_dataset(
        split.repo,
        split.config,
        split=split.name,
        revision=split.commit,
        streaming=True,
        **options,
    )
    if stream.num_shards != split.files:
        raise SourceError(f"{stream.num_shards} shards in {split.files} files")
    return stream.select_columns(list(columns)) if columns else stream


def _csv_options(columns: tuple[str, ...]) -> dict[str, Any]:
    """Cells as they are: no guessing that `007` is a number, or that `None` is nothing."""
    from datasets import Features, Value

    options: dict[str, Any] = {"keep_default_na": False, "na_values": [""]}
    if columns:
        text = Features({column: Value("string") for column in columns})
        options |= {"usecols": list(columns), "features": text}
    return options
