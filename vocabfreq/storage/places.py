"""Where a file is: a local path, or `owner/repo/file[@revision]` on the Hub.

A path that looks local never becomes a download: one that exists, that begins with `.`, `/` or
`~`, that lies in a folder that exists, or whose first two parts cannot be a repo. A `Path` object
is always local.
"""

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from vocabfreq.errors import FileFormatError
from vocabfreq.storage.resolve import Folder, looks_like_repo, open_folder

_ADDRESS = re.compile(
    r"^(?P<repo>\w[\w.-]*/\w[\w.-]*)(/(?P<file>[^@]+))?(@(?P<revision>[\w./-]+))?$"
)


@dataclass(frozen=True)
class Place:
    """A file, or a folder of files that belong together.

    Attributes:
        folder: the folder or repo.
        name: of the file in it, None for the folder as a whole.
    """

    folder: Folder
    name: str | None = None

    @property
    def called(self) -> str:
        """The base name, for messages."""
        return self.folder.name if self.name is None else PurePosixPath(self.name).name

    @property
    def path(self) -> Path:
        """Local path of the file.

        Raises:
            FileFormatError: it is a folder, or there is no such file.
        """
        if self.name is None:
            raise FileFormatError(f"{self.called} is a folder", expected="a file")
        path = self.folder.file(self.name)
        if path is None:
            raise FileFormatError(
                f"{self.folder.name} at {self.folder.revision} has no file {self.name!r}"
            )
        return path

    def beside(self, name: str) -> Path | None:
        """Local path of another file in the same folder, None when there is none."""
        inside = PurePosixPath(self.name or name).parent
        return self.folder.file(str(inside / name))

    def names(self, pattern: str) -> list[str]:
        """Names of local files that match a pattern, sorted; a repo is not listed."""
        root = self.folder.root
        return [] if root is None else sorted(p.name for p in root.glob(pattern))


def find(source: str | Path) -> Place:
    """Finds a file or a folder; only what cannot be local is looked for on the Hub.

    Raises:
        FileFormatError: there is none.
    """
    path = Path(source).expanduser()
    if str(source) and path.is_dir():
        return Place(Folder(path.resolve().name, root=path))
    if path.is_file():
        return Place(Folder(path.resolve().parent.name, root=path.parent), path.name)
    address = None if isinstance(source, Path) else _ADDRESS.match(source)
    if address is None or not _is_remote(address):
        raise FileFormatError(
            f"no file {str(source)!r}", expected="a path, or owner/repo/file[@revision] on the Hub"
        )
    revision = f"@{address['revision']}" if address["revision"] else ""
    return Place(open_folder(address["repo"] + revision, FileFormatError), address["file"])


def _is_remote(address: re.Match[str]) -> bool:
    owner = address["repo"].partition("/")[0]
    parts = (address["file"] or "x").split("/")
    clean = all(part not in ("", ".", "..") for part in parts)
    return clean and looks_like_repo(address["repo"]) and not Path(owner).exists()
