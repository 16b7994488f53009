"""Which head a drafter is pruned with: its own, through its own map, or the target's."""

from collections.abc import Mapping
from dataclasses import replace

from vocabfreq.checkpoints.headrows import HEAD, Head, embedding, plain_head
from vocabfreq.checkpoints.kinds import find
from vocabfreq.checkpoints.tensors import Tensor, is_map
from vocabfreq.errors import FileFormatError
from vocabfreq.formats.d2t import vocab_from_map
from vocabfreq.formats.read_options import How
from vocabfreq.frequencies.draft_vocab import DraftVocab

CHECK = "vocabfreq check says what is wrong with the folder, and what engines make of it"


def own_head(tensors: Mapping[str, Tensor], rows: int, size: int | None = None) -> Head | None:
    """The head that a drafter has itself, None when it has none.

    Args:
        tensors: of the drafter.
        rows: V.
        size: the draft_vocab_size of its config, where it says one.

    Raises:
        FileFormatError: it cannot be sliced by rows, it has fewer rows than V and no map that says
            which, or head, d2t, t2d and config do not agree; names why.
    """
    head = plain_head(tensors, "drafter")
    if head is None:
        return None
    d2t, t2d = find(tensors, "d2t"), find(tensors, "t2d")
    count = head.weight.shape[0]
    if size not in (None, count) and (d2t is not None or size != rows):
        raise FileFormatError(
            f"config.json says draft_vocab_size {size:,}, the head is {head.weight}",
            expected="one number of rows",
            hint=CHECK,
        )
    if d2t is None:
        _check_full(head, t2d, rows)
        return head
    kept = kept_ids(d2t, t2d, rows)
    if count < len(kept):
        raise FileFormatError(
            f"{head.weight} beside {d2t}", expected=f"a head of at least {len(kept):,} rows"
        )
    return replace(head, old=kept.ranked)


def _check_full(head: Head, t2d: Tensor | None, rows: int) -> None:
    """Without d2t each row has to be that of the target id of its number."""
    if head.weight.shape[0] < rows:
        raise FileFormatError(
            f"{head.weight} has fewer rows than V = {rows:,}, and no d2t says of which ids",
            expected="a d2t beside it, or a row for every id",
            hint="take the drafter as it was before it was pruned, or add the d2t it came with",
        )
    if t2d is not None and (t2d.dtype != "BOOL" or not t2d.array().all()):
        raise FileFormatError(
            f"{t2d} without a d2t beside {head.weight}", expected="both or none", hint=CHECK
        )


def kept_ids(d2t: Tensor, t2d: Tensor | None, rows: int) -> DraftVocab:
    """What a map keeps.

    Args:
        d2t: offsets.
        t2d: the mask, which must agree, if there is one.
        rows: V.

    Raises:
        FileFormatError: naming what is wrong in them.
    """
    if not is_map(d2t):
        raise FileFormatError(f"{d2t}", expected="whole numbers [K]", hint=CHECK)
    if t2d is not None and (t2d.dtype, t2d.shape) != ("BOOL", (rows,)):
        raise FileFormatError(f"{t2d}", expected=f"BOOL [{rows}], a truth value for every id of V")
    offsets = d2t.array()
    if len(offsets) < rows and not offsets.any():
        raise FileFormatError(
            f"all {len(offsets):,} offsets are 0 in {d2t} although V = {rows:,}",
            expected="offsets of kept ids; zeros look like a map that was never loaded",
            hint="take the drafter that it was made from",
        )
    try:
        mask = None if t2d is None else t2d.array()
        return vocab_from_map(offsets, mask, "the drafter", How(), rows)
    except FileFormatError as error:
        raise FileFormatError(error.wrong, expected=error.expected, hint=CHECK) from None


def target_head(tensors: Mapping[str, Tensor], untied: bool) -> Head:
    """The head of a target: its own, or its embedding.

    Raises:
        FileFormatError: it has neither, or it cannot be sliced by rows.
    """
    head = plain_head(tensors, "target") or (None if untied else embedding(tensors, "target"))
    if head is None:
        raise FileFormatError(
            f"the target has no {HEAD}" + (", and its embedding is not tied to it" * untied),
            expected=f"{HEAD} or a tied embedding",
        )
    return head
