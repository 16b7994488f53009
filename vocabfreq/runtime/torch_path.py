"""The samplers in plain torch: what runs on a CPU, and wherever Triton is not.

The answers are those of `reference`; only the product and the argmax take the fast way.

Memory that is kept from call to call, so that nothing is allocated once it has grown.

The head product in plain torch, the way that is fastest on the device.

On a CPU without instructions for 16-bit floats, torch multiplies them one vector at a time: fine
for a few rows, where reading the weight is all the work, slow for more. There the weight is widened
to float32 in blocks that stay in the cache and multiplied by the matrix library: on two cores with
AVX2 at B = 64, five times as fast (docs/benchmarks.md).
"""

import math

import torch
from torch import Tensor

from vocabfreq.runtime import packed_keys, reference
from vocabfreq.runtime.reference import Draw, Drawn


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


FEW = 4  # rows up to which a product of 16-bit floats is a walk through the weight
ROWS = 512  # of a block: at H = 2,048 in float32 4 MB, what an outer cache holds
NARROW = 16  # the matrix library is slow on fewer columns, and pays for padding up to here


def draft_logits(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    scale: Tensor | None = None,
    space: Workspace | None = None,
) -> Tensor:
    """Draft logits, `hidden @ weight.T * scale + bias`.

    Args:
        hidden: [B, H].
        weight: [K, H], contiguous.
        bias: [K].
        scale: [K].
        space: memory to work in; the result is valid until its next use. None allocates.

    Returns:
        [B, K], of the dtype of hidden or float32, contiguous or transposed.
    """
    space = space or Workspace()
    wide = scale is not None or _widens(hidden, weight)  # before scaling, float16 may overflow
    product = _by_blocks if wide else _plain
    logits = product(hidden, weight, space)
    if scale is not None:
        logits = logits.mul_(scale)
    return logits if bias is None else logits.add_(bias)


def _widens(hidden: Tensor, weight: Tensor) -> bool:
    if hidden.dtype != weight.dtype:
        return True
    slow = weight.device.type == "cpu" and hidden.shape[0] > FEW
    return slow and weight.dtype not in NATIVE


def _native() -> tuple[torch.dtype, ...]:
    """The dtypes of 16 bits that the CPU library multiplies with instructions for them."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return ()
    ops = torch.ops.mkldnn
    can = {
        torch.bfloat16: ops._is_mkldnn_bf16_supported(),
        torch.float16: ops._is_mkldnn_fp16_supported(),
    }
    return tuple(dtype for dtype, yes in can.items() if yes)


NATIVE = _native()


def _plain(hidden: Tensor, weight: Tensor, space: Workspace) -> Tensor:
    shape = hidden.shape[0], weight.shape[0]
    out = space.take("logits", shape, hidden.dtype, hidden.device)
    return torch.mm(hidden, weight.t(), out=out)


def _by_blocks(hidden: Tensor, weight: Tensor, space: Workspace) -> Tensor:
    """Columns are batch rows: a block of the weight is then the left side as it lies in memory."""
    (batch, width), size, device = hidden.shape, weight.shape[0], hidden.device
    columns = space.take("columns", (width, max(batch, NARROW)), torch.float32, device).zero_()
    columns[:, :batch].copy_(hidden.t())
    logits = space.take("wide", (size, columns.shape[1]), torch.float32, device)
    if weight.dtype == torch.float32:
        torch.mm(weight, columns, out=logits)
        return logits[:, :batch].t()
    block = space.take("block", (min(ROWS, size), width), torch.float32, device)
    for start in range(0, size, ROWS):
        part = block[: min(ROWS, size - start)]
        part.copy_(weight[start : start + ROWS])
        torch.mm(part, columns, out=logits[start : start + ROWS])
    return logits[:, :batch].t()


def greedy(
    hidden: Tensor,
    weight: Tensor,
    target_ids: Tensor | None,
    bias: Tensor | None = None,
    scale: Tensor | None = None,
    bitmask: Tensor | None = None,
    *,
    out: Tensor | None = None,
    space: Workspace | None = None,
) -> Tensor:
    """As `reference.greedy`; with `out` (int64 [B]) the target ids are written there instead."""
    space = space or Workspace()
    logits = draft_logits(hidden, weight, bias, scale, space)
    return greedy_logits(logits, target_ids, bitmask, out=out, space=space)


def greedy_logits(
    logits: Tensor,
    target_ids: Tensor | None,
    bitmask: Tensor | None = None,
    *,
    out: Tensor | None = None,
    space: Workspace | None = None,
) -> Tensor:
    """As `reference.greedy_logits`, for ascending target ids."""
    if bitmask is not None or not logits.shape[0]:
        packed = reference.greedy_logits(logits, target_ids, bitmask)
        return packed if out is None else out.copy_(packed_keys.ids_of(packed))
    values, places = _largest(logits, space or Workspace())
    if out is None:
        return packed_keys.pack(values, _mapped(places, target_ids, torch.empty_like(places)))
    return _mapped(places, target_ids, out)


def sample(
    hidden: Tensor,
    weight: Tensor,
    target_ids: Tensor | None,
    draw: Draw,
    bias: Tensor | None = None,
    scale: Tensor | None = None,
    bitmask: Tensor | None = None,
) -> Drawn:
    """As `reference.sample`."""
    logits = draft_logits(hidden, weight, bias, scale)
    return reference.sample_logits(logits, target_ids, draw, bitmask)


def _largest(logits: Tensor, space: Workspace) -> tuple[Tensor, Tensor]:
    """Maximum and its first place in each row, NaN counted as -inf."""
    batch, device = logits.shape[0], logits.device
    values = space.take("values", (batch,), logits.dtype, device)
    places = space.take("places", (batch,), torch.int64, device)
    # A NaN is the maximum to torch. On a CPU a look at the maxima tells; elsewhere it would wait
    # for the device, so every logit is looked at.
    looks = device.type == "cpu" and not torch.compiler.is_compiling()
    if not looks:
        logits = _without_nan(logits)
    torch.max(logits, 1, out=(values, places))
    if looks and values.isnan().any():
        torch.max(_without_nan(logits), 1, out=(values, places))
    return values, places


def _without_nan(logits: Tensor) -> Tensor:
    infinity = float("inf")
    return torch.nan_to_num(logits, nan=-infinity, posinf=infinity, neginf=-infinity)


def _mapped(places: Tensor, target_ids: Tensor | None, out: Tensor) -> Tensor:
    if target_ids is None:
        return out.copy_(places)
    return torch.index_select(target_ids, 0, places, out=out)
