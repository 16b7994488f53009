"""Where it was measured."""

import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

import torch


@dataclass(frozen=True)
class Machine:
    """Where it was measured; `triton` is None where it is not installed."""

    device: str
    torch: str
    triton: str | None
    threads: int
    python: str


def machine(device: str) -> Machine:
    """This machine as far as it matters."""
    try:
        triton = version("triton")
    except PackageNotFoundError:
        triton = None
    kind = torch.cuda.get_device_name() if device == "cuda" else _processor()
    threads = torch.get_num_threads()
    return Machine(kind, torch.__version__, triton, threads, platform.python_version())


def _processor() -> str:
    return f"cpu ({platform.machine()}, {torch.backends.cpu.get_cpu_capability()})"
