"""Triton kernels of a pruned head; `reference` defines them, `launch` launches them.

A program of `head_kernel` or `logits_kernel` reduces one tile of draft rows to a packed key per
batch row; `finish_kernel` reduces the tiles. A maximum of keys is the same in any order, so there
are no atomics and results repeat bit for bit. A tensor that a call does not have is None, and the
code for it is not compiled. Blocks are [draft rows, batch rows] throughout.

Three rules keep the kernels exact: indices are int64 before they are multiplied (V * H passes
2**31), no dimension is read past its end, and NaN is replaced before any comparison that would drop
it.

| kernel or function | its definition |
|---|---|
| `head_kernel` and `finish_kernel` | `reference.greedy`, `reference.sample` |
| `logits_kernel` and `finish_kernel` | `reference.greedy_logits`, `reference.sample_logits` |
| `pack` (the tie rule) | `packed_keys.pack` |
| `scale_and_cap`, `gumbel`, `philox` | the functions of that name in `reference` |
"""

# Annotations in a kernel are instructions to its compiler, so a kernel is untyped here.
# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl

NOTHING = tl.constexpr(-(2**63))
SIGN = tl.constexpr(0x7FFFFFFF)
LOW = tl.constexpr(0xFFFFFFFF)
LARGEST_FLOAT = tl.constexpr(3.4028234663852886e38)
SMALL_UNIFORM = tl.constexpr(2.0**-6)  # this and the next two as in `reference.gumbel`
LARGEST_UNIFORM = tl.constexpr(1.0 - 2.0**-24)
UNIFORM_STEP = tl.constexpr(2.0**-32)


@triton.jit
def pack(values, ids, allowed):
    """`packed_keys.pack`: float32 values and int64 ids as int64 keys."""
    values = tl.where(values == values, values, float("-inf"))
    bits = tl.where(values == 0.0, 0.0, values).to(tl.int32, bitcast=True)
    ordered = (bits ^ ((bits >> 31) & SIGN)).to(tl.int64)
    return tl.where(allowed, (ordered << 32) | (ids ^ LOW), NOTHING)


@triton.jit
def philox(seed, step, rows, ids):
    """`reference.philox` of int64 counters; uint32 [draft rows, batch rows]."""
    low, high = step.to(tl.int32), (step >> 32).to(tl.int32)
    word, _, _, _ = tl.philox(seed, ids.to(tl.int32), rows.to(tl.int32), low, high)
    return word


@triton.jit
def gumbel(seed, step, rows, ids):
    """`reference.gumbel`; float32 [draft rows, batch rows]."""
    word = philox(seed, step, rows, ids)
    v = tl.minimum(word.to(tl.float32) * UNIFORM_STEP + UNIFORM_STEP / 2, LARGEST_UNIFORM)
    series = v * (1.0 + v * (1 / 2 + v * (1 / 3 + v * (1 / 4))))
    return -tl.log(tl.where(v < SMALL_UNIFORM, series, -tl.log(1.0 - v)))


@triton.jit
def scale_and_cap(values, logit_scale, soft_cap):
    """`reference.scale_and_cap`; soft_cap may be None. Its tanh cannot overflow."""
    values = values * logit_scale
    if soft_cap is not None:
        decay = tl.exp(-2.0 * tl.abs(values / soft_cap))
        magnitude = soft_cap * (1.0 - decay) / (1.0 + decay)
        values = tl.where(values < 0.0, -magnitude, magnitude)
    return tl.where(values == values, tl.minimum(values, LARGEST_FLOAT), float("-inf"))


@triton.jit
def zero_if_infinite(maximum):
    """A maximum that may be subtracted: infinity minus itself would be NaN."""
    return tl.where(tl.abs(maximum) == float("inf"), 0.0, maximum)


@triton.jit
def convert_weight(w, dtype: tl.constexpr):
    """Weights as the other operand's dtype; uint8 holds the bits of float8_e4m3fn.

    Cards before sm_89 cannot convert float8. Shifted into a float16, its bits are the number
    divided by 256, subnormals too.
    """
    if w.dtype == tl.uint8:
        bits = w.to(tl.uint16)
        shifted = ((bits & 0x80) << 8) | ((bits & 0x7F) << 7)
        number = shifted.to(tl.float16, bitcast=True) * 256.0
        return tl.where((bits & 0x7F) == 0x7F, float("nan"), number).to(dtype)
    return w.to(dtype)


# Triton's interpreter has no bfloat16 products; in float32 they are the same, being exact.
INTERPRETED = tl.constexpr(not isinstance(convert_weight, triton.JITFunction))


@triton.jit
def reduce_tile(
    values, k, rows, inside,
    target_ids, bitmask, temperature, seed, step, keys, stats,
    B, K, stride_mb, stride_mw, stride_t, logit_scale, soft_cap, tile, tiles,
):  # fmt: skip
    """Reduces logits of one tile and writes slot [row, tile] of keys and stats.

    `values` is float32 and `inside` bool [draft rows, batch rows], `k` int64 [draft rows, 1],
    `rows` int64 [1, batch rows]. `keys` is int64 [B, tiles]; `stats` is float32 [3, B, tiles]:
    the chosen logit, the maximum and the sum of exponentials.
    """
    ids = k
    if target_ids is not None:
        ids = tl.load(target_ids + k, mask=k < K, other=0)
    if bitmask is not None:
        bits = tl.load(bitmask + rows * stride_mb + (ids >> 5) * stride_mw, mask=inside, other=0)
        inside = inside & ((bits >> (ids & 31).to(tl.int32)) & 1 == 1)
    slots = rows * tiles + tile
    if temperature is None:
        tl.store(keys + slots, tl.max(pack(values, ids, inside), 0, keep_dims=True), mask=rows < B)
    else:
        values = scale_and_cap(values, logit_scale, soft_cap)
        t = tl.load(temperature + rows * stride_t, mask=rows < B, other=0.0)
        noise = gumbel(tl.load(seed), tl.load(step), rows, ids)
        packed = pack(values + t * noise, ids, inside)
        best = tl.max(packed, 0, keep_dims=True)
        tempered = tl.minimum(values * (1.0 / tl.where(t > 0.0, t, 1.0)), LARGEST_FLOAT)
        tempered = tl.where(inside, tempered, float("-inf"))
        chosen = tl.max(tl.where(packed == best, tempered, float("-inf")), 0, keep_dims=True)
        top = tl.max(tempered, 0, keep_dims=True)
        total = tl.sum(tl.exp(tempered - zero_if_infinite(top)), 0, keep_dims=True)
        plane = B.to(tl.int64) * tiles
        tl.store(keys + slots, best, mask=rows < B)
        tl.store(stats + slots, chosen, mask=rows < B)
        tl.store(stats + plane + slots, top, mask=rows < B)
        tl.store(stats + 2 * plane + slots, total, mask=rows < B)


@triton.jit(do_not_specialize=["B"])
def head_kernel(
    hidden, weight, scale, bias,
    target_ids, bitmask, temperature, seed, step, keys, stats,
    B, K, H, stride_hb, stride_hh, stride_mb, stride_mw, stride_t, logit_scale, soft_cap,
    BLOCK_B: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_H: tl.constexpr,
):  # fmt: skip
    """Head product and reduction; grid (tiles of K, tiles of B), each weight row is read once."""
    tile = tl.program_id(0).to(tl.int64)
    k = (tile * BLOCK_K + tl.arange(0, BLOCK_K))[:, None]
    rows = (tl.program_id(1).to(tl.int64) * BLOCK_B + tl.arange(0, BLOCK_B))[None, :]
    acc = tl.zeros((BLOCK_K, BLOCK_B), tl.float32)
    for start in range(0, H, BLOCK_H):
        h = start + tl.arange(0, BLOCK_H)
        w_inside = (k < K) & (h < H)[None, :]
        w = tl.load(weight + k * H + h[None, :], mask=w_inside, other=0.0)
        x_inside = (h < H)[:, None] & (rows < B)
        x_at = h[:, None].to(tl.int64) * stride_hh + rows * stride_hb
        x = tl.load(hidden + x_at, mask=x_inside, other=0.0)
        if INTERPRETED:
            x = x.to(tl.float32)
        acc = tl.dot(convert_weight(w, x.dtype), x, acc, input_precision="ieee")
    if scale is not None:
        acc = acc * tl.load(scale + k, mask=k < K, other=1.0).to(tl.float32)
    if bias is not None:
        acc = acc + tl.load(bias + k, mask=k < K, other=0.0).to(tl.float32)
    reduce_tile(
        acc, k, rows, (k < K) & (rows < B),
        target_ids, bitmask, temperature, seed, step, keys, stats,
        B, K, stride_mb, stride_mw, stride_t, logit_scale, soft_cap, tile, tl.cdiv(K, BLOCK_K),
    )  # fmt: skip


@triton.jit(do_not_specialize=["B"])
def logits_kernel(
    logits, target_ids, bitmask, temperature, seed, step, keys, stats,
    B, K, stride_lb, stride_lk, stride_mb, stride_mw, stride_t, logit_scale, soft_cap,
    BLOCK_K: tl.constexpr,
):  # fmt: skip
    """The reduction of given logits, any strides; grid (B, tiles of K)."""
    tile = tl.program_id(1).to(tl.int64)
    k = (tile * BLOCK_K + tl.arange(0, BLOCK_K))[:, None]
    rows = tl.program_id(0).to(tl.int64) + tl.zeros((1, 1), tl.int64)
    values = tl.load(logits + rows * stride_lb + k * stride_lk, mask=k < K, other=0.0)
    reduce_tile(
        values.to(tl.float32), k, rows, k < K,
        target_ids, bitmask, temperature, seed, step, keys, stats,
        B, K, stride_mb, stride_mw, stride_t, logit_scale, soft_cap, tile, tl.cdiv(K, BLOCK_K),
    )  # fmt: skip


@triton.jit(do_not_specialize=["B"])
def finish_kernel(
    keys, stats, out, logits, logsumexp, B, tiles, stride_out,
    IDS: tl.constexpr, BLOCK_T: tl.constexpr,
):  # fmt: skip
    """Reduces the tiles of one batch row; grid (B,). `out` gets keys, or target ids if IDS."""
    row = tl.program_id(0).to(tl.int64)
    best = tl.full((BLOCK_T,), NOTHING, tl.int64)
    top = tl.full((BLOCK_T,), float("-inf"), tl.float32)
    plane = B.to(tl.int64) * tiles
    for start in range(0, tiles, BLOCK_T):
        t = start + tl.arange(0, BLOCK_T)
        slots = row * tiles + t
        best = tl.maximum(best, tl.load(keys + slots, mask=t < tiles, other=NOTHING))
        if stats is not None:
            tops = tl.load(stats + plane + slots, mask=t < tiles, other=float("-inf"))
            top = tl.maximum(top, tops)
    key = tl.max(best, 0)
    if stats is not None:
        shift = zero_if_infinite(tl.max(top, 0))
        chosen = tl.full((BLOCK_T,), float("-inf"), tl.float32)
        total = tl.zeros((BLOCK_T,), tl.float32)
        for start in range(0, tiles, BLOCK_T):
            t = start + tl.arange(0, BLOCK_T)
            slots = row * tiles + t
            is_best = (t < tiles) & (tl.load(keys + slots, mask=t < tiles, other=NOTHING) == key)
            chosen = tl.maximum(chosen, tl.load(stats + slots, mask=is_best, other=float("-inf")))
            tops = tl.load(stats + plane + slots, mask=t < tiles, other=float("-inf"))
            sums = tl.load(stats + 2 * plane + slots, mask=t < tiles, other=0.0)
            total += sums * tl.exp(tops - shift)
        tl.store(logits + row, tl.max(chosen, 0))
        tl.store(logsumexp + row, shift + tl.log(tl.sum(total, 0)))
    if IDS:
        key = ((key & LOW) ^ LOW).to(tl.int32).to(tl.int64)
    tl.store(out + row * stride_out, key)
