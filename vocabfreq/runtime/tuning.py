"""Block sizes of the kernels: a short list for each batch bucket and weight width.

Nothing here needs Triton or a GPU. On a card `launch` times the list once for every shape; the
interpreter takes `INTERPRETED`, so small that a test of a few hundred rows meets every tile edge.
Blocks of 64 or 128 rows make 256 to 512 programs of a head of 32,768 rows: a full card at B = 1.
"""

from typing import NamedTuple

BUCKETS = 16, 32, 64  # rows of a batch that one program takes; tl.dot takes 16 or more


class Config(NamedTuple):
    """One way to cut the head.

    Attributes:
        block_k: draft rows of a program.
        block_h: hidden numbers of a step, 16 or more, 32 for weights of 8 bits.
        num_warps: warps of a program.
        num_stages: steps whose loads are in flight.
    """

    block_k: int
    block_h: int
    num_warps: int
    num_stages: int


INTERPRETED = Config(32, 32, 1, 1)
LOGITS_BLOCK, LOGITS_WARPS = 1024, 4
FINISH_BLOCK, FINISH_WARPS = 512, 4

# Chosen so that no kernel spills on any target (tests/kernelcases.py).
_WIDE = Config(64, 128, 4, 4), Config(128, 64, 4, 4)
_TALL = Config(128, 64, 8, 4), Config(128, 128, 8, 3)
_BYTES = Config(64, 128, 4, 4), Config(128, 128, 8, 4)
_FLOAT = Config(64, 32, 4, 4), Config(64, 64, 4, 3)
_FLOAT_TALL = (Config(64, 32, 8, 4),)
SMALLEST = min(c.block_k for c in (*_WIDE, *_TALL, *_BYTES, *_FLOAT, *_FLOAT_TALL))


def bucket(batch: int) -> int:
    """The smallest bucket that holds a batch, the largest where none does."""
    return next((b for b in BUCKETS if batch <= b), BUCKETS[-1])


def configs(bucket: int, hidden_bytes: int, weight_bytes: int) -> tuple[Config, ...]:
    """The list for a bucket and for the bytes of a number of hidden and of weight."""
    if hidden_bytes == 4:  # products of float32 take no tensor cores, but registers
        return _FLOAT if bucket == BUCKETS[0] else _FLOAT_TALL
    if weight_bytes == 1:
        return _BYTES
    return _WIDE if bucket < BUCKETS[-1] else _TALL


def every_config() -> tuple[Config, ...]:
    """All that occur, each once."""
    lists = (configs(b, h, w) for b in BUCKETS for h in (2, 4) for w in (1, 2, 4))
    return tuple(dict.fromkeys(config for each in lists for config in each))
