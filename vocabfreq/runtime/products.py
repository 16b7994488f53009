"""The head product in plain torch, the way that is fastest on the device.

On a CPU without instructions for 16-bit floats, torch multiplies them one vector at a time: fine
for a few rows, where reading the weight is all the work, slow for more. There the weight is widened
to float32 in blocks that stay in the cache and multiplied by the matrix library: on two cores with
AVX2 at B = 64, five times as fast (docs/benchmarks.md).
"""

import torch
from torch import Tensor

from vocabfreq.runtime.workspace import Workspace

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
