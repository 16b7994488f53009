"""Memory that is kept from call to call, so that nothing is allocated once it has grown."""

import math

import torch
from torch import Tensor


class Workspace:
    """Named buffers that grow when they must.

    On a GPU an outgrown buffer is kept too, for a captured graph may still write into it; each is
    at least twice as large as the one before, so that together they stay below twice the largest.
    """

    def __init__(self) -> None:
        """Starts with no memory."""
        self._held: dict[tuple[str, torch.dtype, torch.device], Tensor] = {}
        self._outgrown: list[Tensor] = []

    def take(
        self, name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        """A buffer of some shape, its content undefined, valid until the name is taken again."""
        size, key = math.prod(shape), (name, dtype, device)
        held = self._held.get(key)
        if held is None or held.numel() < size:
            held = self._held[key] = self._grown(held, size, dtype, device)
        return held[:size].view(shape)

    def _grown(
        self, old: Tensor | None, size: int, dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        if old is not None and device.type == "cuda":
            self._outgrown.append(old)
            size = max(size, 2 * old.numel())
        with torch.inference_mode(False):  # else it could not be written outside of that mode
            return torch.empty(size, dtype=dtype, device=device)
