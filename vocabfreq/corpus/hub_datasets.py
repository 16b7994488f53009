"""Hub data sets: `org/name[:config][:split][@revision]`.

The revision is resolved to a commit once, and everything is read at that commit. `datasets`
resolves which files a config and a split mean. jsonl, json, parquet, arrow and txt files are read
by our own readers through range requests, because through `datasets` one broken line ends the whole
stream; other formats (csv, say) are streamed by `datasets` as record batches, a file at a time.
"""

import io
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import IO, TYPE_CHECKING, Any

from vocabfreq.corpus.files import InputFile, format_of, open_remote
from vocabfreq.errors import SourceError, first_line
from vocabfreq.storage.resolve import (
    looks_like_file,
    quote_names,
    resolve_commit,
    unreachable_error,
)

if TYPE_CHECKING:
    import pyarrow as pa

STREAM_ROWS = 1000
PATHS_AT_ONCE = 500
FORM = "org/name[:config][:split][@revision]"
_SPEC = re.compile(
    r"^(?P<repo>[\w][\w.-]*/[\w][\w.-]*)(:(?P<config>[\w.-]*))?(:(?P<split>[\w.-]+))?"
    r"(@(?P<revision>[\w./-]+))?$"
)


@dataclass(frozen=True)
class DataSetSpec:
    """A parsed spec; parts that were left out are None."""

    repo: str
    config: str | None
    split: str | None
    revision: str | None


@dataclass(frozen=True)
class Split:
    """A split of a config at one commit.

    Attributes:
        repo: the repo id.
        commit: the commit.
        config: name of the config.
        name: name of the split.
        files: how many files it has.
        is_csv: whether its files are csv, of which every cell is read as text.
    """

    repo: str
    commit: str
    config: str
    name: str
    files: int
    is_csv: bool

    @property
    def root(self) -> str:
        """Address of the repo at the commit."""
        return f"hf://datasets/{self.repo}@{self.commit}/"


@dataclass(frozen=True)
class HubFile(InputFile):
    """A file that our own readers read, by range requests."""

    def open(self) -> IO[bytes]:
        """Opens it for reading bytes.

        Raises:
            SourceError: the Hub does not serve it; every read can raise it too.
        """
        try:
            return _Reader(open_remote(self.path), self.name)  # type: ignore[return-value]
        except Exception as failure:  # the client's errors share no base from version to version
            raise unreachable_error(self.name, failure, SourceError) from None


class _Reader(io.RawIOBase):
    """The bytes of a remote file; every failure becomes an error that names the file."""

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
            raise unreachable_error(self._name, failure, SourceError) from None
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
        split: the split that it belongs to.
        number: its index in the split.
    """

    split: Split
    number: int


def is_data_set(spec: str) -> bool:
    """Whether a spec names a data set. What exists locally, or looks like a file, never does."""
    if os.path.exists(spec) or spec.startswith((".", "/", "~")):
        return False
    match = _SPEC.match(spec)
    return match is not None and not looks_like_file(match["repo"])


def parse_data_set(spec: str) -> DataSetSpec:
    """Splits `org/name[:config][:split][@revision]`.

    Raises:
        SourceError: it is not of that form.
    """
    match = _SPEC.match(spec)
    if match is None:
        raise SourceError(f"{spec!r} is no data set", expected=FORM)
    config, split, revision = (match[name] or None for name in ("config", "split", "revision"))
    return DataSetSpec(match["repo"], config, split, revision)


def data_set_files(spec: str) -> list[InputFile]:
    """The files of a data set at one commit, in the order of `datasets`.

    Raises:
        SourceError: there is no such data set, config or split, or it cannot be reached.
    """
    parsed = parse_data_set(spec)
    commit = resolve_commit(parsed.repo, parsed.revision, "dataset")
    config, name = _config_and_split(parsed, commit)
    addresses = [str(address) for address in config.data_files[name]]
    is_csv = hasattr(config, "pd_read_csv_kwargs")
    split = Split(parsed.repo, commit, config.name, name, len(addresses), is_csv)
    paths = [_path_in_repo(address, split) for address in addresses]
    sizes = _sizes(split, paths)
    is_nested = getattr(config, "field", None) is not None
    files: list[InputFile] = []
    for number, (address, path) in enumerate(zip(addresses, paths, strict=True)):
        size = sizes.get(path, 0)
        # A chain (`zip://…::hf://…`) and a nested `field` are what only `datasets` can follow.
        ours = None if is_nested or "::" in address else _hub_file(path, size, split)
        stamp = f"{commit}:{split.config}:{name}:{number}"
        streamed = StreamedFile(split.root + path, "hub", None, size, stamp, split, number)
        files.append(ours or streamed)
    return files


def _hub_file(path: str, size: int, split: Split) -> HubFile | None:
    """A file for our own readers, None when `datasets` streams it (CSV has options there)."""
    try:
        found, compression = format_of(path.rsplit("/", 1)[-1])
    except SourceError:
        return None
    if found == "csv":
        return None
    return HubFile(split.root + path, found, compression, size, split.commit)


def _config_and_split(spec: DataSetSpec, commit: str) -> tuple[Any, str]:
    """The config of `datasets`, with its files resolved, and the name of the split."""
    config, split = spec.config, spec.split
    if config is not None and config not in (configs := _configs(spec.repo, commit)):
        if split is not None:
            raise _no_config(spec.repo, config, configs)
        config, split = None, config  # `org/name:x`: a split of the only or default config
    found = _config(spec, config, commit)
    names = [str(name) for name in found.data_files or {}]
    if split is None and ("train" in names or len(names) == 1):
        return found, "train" if "train" in names else names[0]
    if split in names:
        return found, str(split)
    raise _no_split(spec, split, found.name, names)


def _config(spec: DataSetSpec, config: str | None, commit: str) -> Any:
    from datasets import load_dataset_builder

    try:
        return load_dataset_builder(spec.repo, config, revision=commit).config
    except Exception as failure:  # datasets raises many kinds, and wraps those of the Hub client
        configs = _configs(spec.repo, commit) if isinstance(failure, ValueError) else []
        if config is None and len(configs) > 1:
            raise _no_config(spec.repo, spec.config, configs) from None
        raise _cannot_open(spec.repo, failure) from None


def _configs(repo: str, commit: str) -> list[str]:
    from datasets import get_dataset_config_names

    try:
        return [str(name) for name in get_dataset_config_names(repo, revision=commit)]
    except Exception as failure:  # as above
        raise _cannot_open(repo, failure) from None


def _cannot_open(repo: str, failure: Exception) -> SourceError:
    return SourceError(
        f"cannot open the data set {repo!r}: {first_line(failure)}",
        hint="if its page on the Hub shows no rows either, download its files and name those",
    )


def _no_config(repo: str, config: str | None, configs: list[str]) -> SourceError:
    wrong = f"no config {config!r}" if config else f"{len(configs)} configs, and none was named"
    return SourceError(
        f"{repo!r} has {wrong}",
        expected=f"one of {quote_names(configs)}",
        hint="write it as org/name:config, or org/name:config:split",
    )


def _no_split(spec: DataSetSpec, split: str | None, config: str, names: list[str]) -> SourceError:
    wrong = f"no split {split!r}" if split else "several splits, and none was named"
    if spec.config and not spec.split and split:
        wrong = f"neither a config nor a split {split!r}"
    return SourceError(
        f"{spec.repo!r} has {wrong}",
        expected=f"of its config {config!r} one of "
        f"{quote_names(names) or 'none: it has no data files'}",
        hint="write it as org/name:split, or org/name:config:split",
    )


def _path_in_repo(address: str, split: Split) -> str:
    _, found, path = address.partition(split.root)
    if not found:
        raise SourceError(
            f"{split.repo!r} takes {address!r} from elsewhere, where no commit pins it",
            expected="files of its own",
            hint="name that data set itself, or download the file",
        )
    return path


def _sizes(split: Split, paths: list[str]) -> dict[str, int]:
    from huggingface_hub import HfApi

    sizes: dict[str, int] = {}
    try:
        for start in range(0, len(paths), PATHS_AT_ONCE):
            found: Any = HfApi().get_paths_info(
                split.repo,
                paths[start : start + PATHS_AT_ONCE],
                revision=split.commit,
                repo_type="dataset",
            )
            sizes.update((entry.path, entry.size) for entry in found)
    except Exception as failure:  # the client's errors share no base from version to version
        raise unreachable_error(split.repo, failure, SourceError) from None
    return sizes


def stream_file(file: InputFile, columns: list[str] | None) -> "Iterator[pa.RecordBatch]":
    """Streams one file of a data set through `datasets`, in Arrow format.

    Args:
        file: a StreamedFile.
        columns: the columns to read, None for all.

    Raises:
        SourceError: anything is wrong with it; it names the file.
    """
    assert isinstance(file, StreamedFile)  # no other has the format "hub"
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
    """Cells as text: no guessing that `007` is a number, or that `None` is nothing."""
    from datasets import Features, Value

    options: dict[str, Any] = {"keep_default_na": False, "na_values": [""]}
    if columns:
        text = Features({column: Value("string") for column in columns})
        options |= {"usecols": list(columns), "features": text}
    return options
