"""The samplers in plain torch: what runs on a CPU, and wherever Triton is not.

The results are those of `reference`; only the product and the argmax take the fast way.

On a CPU without instructions for 16-bit floats, torch multiplies them one vector at a time: fine
for a few rows, where reading the weight is all the work, slow for more. There the weight is widened
to float32 in blocks that stay in the cache and multiplied by the matrix library: on two cores with
AVX2 at B = 64, five times as fast (docs/benchmarks.md).
"""

import math

import torch
from torch import Tensor

from vocabfreq.runtime import packed_keys, reference
from vocabfreq.runtime.reference import SampleOutput, SampleParams


def _native_dtypes() -> tuple[torch.dtype, ...]:
    """The 16-bit dtypes that this CPU multiplies with instructions for them."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return ()
    ops = torch.ops.mkldnn
    supported = {
        torch.bfloat16: ops._is_mkldnn_bf16_supported(),
        torch.float16: ops._is_mkldnn_fp16_supported(),
    }
    return tuple(dtype for dtype, yes in supported.items() if yes)


NATIVE_DTYPES = _native_dtypes()
VECTOR_ROWS = 4  # up to so many rows a product of 16-bit floats is a walk through the weight
BLOCK_ROWS = 512  # at H = 2,048 in float32 4 MB, what an outer cache holds
MIN_COLUMNS = 16  # the matrix library is slow on fewer columns, and pays for padding up to here


class Workspace:
    """Named buffers that grow as needed, so that later calls allocate nothing.

    On a GPU an outgrown buffer is kept too, for a captured graph may still write into it; each is
    at least twice as large as the one before, so that together they stay below twice the largest.
    """

    def __init__(self) -> None:
        """Starts with no memory."""
        self._buffers: dict[tuple[str, torch.dtype, torch.device], Tensor] = {}
        self._outgrown: list[Tensor] = []

    def take(
        self, name: str, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        """A buffer of this shape, its content undefined, valid until the name is taken again."""
        size, key = math.prod(shape), (name, dtype, device)
        buffer = self._buffers.get(key)
        if buffer is None or buffer.numel() < size:
            buffer = self._buffers[key] = self._grow(buffer, size, dtype, device)
        return buffer[:size].view(shape)

    def _grow(
        self, old: Tensor | None, size: int, dtype: torch.dtype, device: torch.device
    ) -> Tensor:
        if old is not None and device.type == "cuda":
            self._outgrown.append(old)
            size = max(size, 2 * old.numel())
        with torch.inference_mode(False):  # else it could not be written outside of that mode
            return torch.empty(size, dtype=dtype, device=device)


def greedy(
    hidden: Tensor,
    weight: Tensor,
    target_ids: Tensor | None,
    bias: Tensor | None = None,
    scale: Tensor | None = None,
    bitmask: Tensor | None = None,
    *,
    out: Tensor | None = None,
    workspace: Workspace | None = None,
) -> Tensor:
    """`reference.greedy`; with `out`, int64 [B], the target ids are written there instead."""
    workspace = workspace or Workspace()
    logits = draft_logits(hidden, weight, bias, scale, workspace)
    return greedy_logits(logits, target_ids, bitmask, out=out, workspace=workspace)


def greedy_logits(
    logits: Tensor,
    target_ids: Tensor | None,
    bitmask: Tensor | None = None,
    *,
    out: Tensor | None = None,
    workspace: Workspace | None = None,
) -> Tensor:
    """`reference.greedy_logits` for ascending target ids; `out` as in `greedy`."""
    if bitmask is not None or not logits.shape[0]:
        keys = reference.greedy_logits(logits, target_ids, bitmask)
        return keys if out is None else out.copy_(packed_keys.unpack_ids(keys))
    values, draft_ids = _max(logits, workspace or Workspace())
    ids = torch.empty_like(draft_ids) if out is None else out
    if target_ids is None:
        ids.copy_(draft_ids)
    else:
        torch.index_select(target_ids, 0, draft_ids, out=ids)
    return packed_keys.pack(values, ids) if out is None else ids


def sample(
    hidden: Tensor,
    weight: Tensor,
    target_ids: Tensor | None,
    params: SampleParams,
    bias: Tensor | None = None,
    scale: Tensor | None = None,
    bitmask: Tensor | None = None,
) -> SampleOutput:
    """`reference.sample`."""
    logits = draft_logits(hidden, weight, bias, scale)
    return reference.sample_logits(logits, target_ids, params, bitmask)


def draft_logits(
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    scale: Tensor | None = None,
    workspace: Workspace | None = None,
) -> Tensor:
    """Draft logits, `hidden @ weight.T * scale + bias`.

    Args:
        hidden: [B, H].
        weight: [K, H], contiguous.
        bias: [K].
        scale: [K].
        workspace: memory to work in; the result is valid until its next use. None allocates.

    Returns:
        [B, K], of the dtype of hidden or float32, contiguous or transposed.
    """
    workspace = workspace or Workspace()
    # Before scaling, float16 may overflow.
    widens = scale is not None or hidden.dtype != weight.dtype or _multiplies_slowly(hidden)
    matmul = _float32_matmul if widens else _matmul
    logits = matmul(hidden, weight, workspace)
    if scale is not None:
        logits = logits.mul_(scale)
    return logits if bias is None else logits.add_(bias)


def _multiplies_slowly(hidden: Tensor) -> bool:
    many = hidden.device.type == "cpu" and hidden.shape[0] > VECTOR_ROWS
    return many and hidden.dtype not in NATIVE_DTYPES


def _matmul(hidden: Tensor, weight: Tensor, workspace: Workspace) -> Tensor:
    shape = hidden.shape[0], weight.shape[0]
    out = workspace.take("logits", shape, hidden.dtype, hidden.device)
    return torch.mm(hidden, weight.t(), out=out)


def _float32_matmul(hidden: Tensor, weight: Tensor, workspace: Workspace) -> Tensor:
    """Columns are batch rows: a block of the weight is then the left side as it lies in memory."""
    (batch, width), rows, device = hidden.shape, weight.shape[0], hidden.device
    columns = workspace.take("columns", (width, max(batch, MIN_COLUMNS)), torch.float32, device)
    columns.zero_()[:, :batch].copy_(hidden.t())
    logits = workspace.take("wide", (rows, columns.shape[1]), torch.float32, device)
    if weight.dtype == torch.float32:
        torch.mm(weight, columns, out=logits)
        return logits[:, :batch].t()
    buffer = workspace.take("block", (min(BLOCK_ROWS, rows), width), torch.float32, device)
    for start in range(0, rows, BLOCK_ROWS):
        block = buffer[: min(BLOCK_ROWS, rows - start)]
        block.copy_(weight[start : start + BLOCK_ROWS])
        torch.mm(block, columns, out=logits[start : start + BLOCK_ROWS])
    return logits[:, :batch].t()


def _max(logits: Tensor, workspace: Workspace) -> tuple[Tensor, Tensor]:
    """Maximum and its first draft id in each row, NaN counted as -inf."""
    batch, device = logits.shape[0], logits.device
    values = workspace.take("values", (batch,), logits.dtype, device)
    draft_ids = workspace.take("draft_ids", (batch,), torch.int64, device)
    # torch takes a NaN for the maximum. A CPU can look at the maxima and repeat the rare case;
    # elsewhere a look would wait for the device, so every logit is replaced first.
    can_look = device.type == "cpu" and not torch.compiler.is_compiling()
    if not can_look:
        logits = _without_nan(logits)
    torch.max(logits, 1, out=(values, draft_ids))
    if can_look and values.isnan().any():
        torch.max(_without_nan(logits), 1, out=(values, draft_ids))
    return values, draft_ids


def _without_nan(logits: Tensor) -> Tensor:
    infinity = float("inf")
    return torch.nan_to_num(logits, nan=-infinity, posinf=infinity, neginf=-infinity)
