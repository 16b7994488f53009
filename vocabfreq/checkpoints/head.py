"""The head that a drafter is pruned with: its own, through its d2t, or the target's.

A `Head` has the tensors that are sliced by rows together; heads that cannot be sliced by rows,
packed or quantised in blocks, are refused.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from vocabfreq.checkpoints.tensors import RowIndices, Tensor, find_tensor
from vocabfreq.checkpoints.vocab_mapping import CHECK_HINT, read_mapping
from vocabfreq.errors import FileFormatError, SelectionError
from vocabfreq.frequencies.draft_vocab import DraftVocab, Ids

HEAD, EMBEDDINGS = "lm_head.weight", ("embed_tokens.weight", "wte.weight")
PER_ROW = ("bias", "weight_scale", "weight_zero_point")
SCALARS = ("weight_scale", "input_scale", "weight_scale_2")
PACKED_DTYPES = ("BOOL", "U8", "U16", "U32", "U64", "I16", "I32", "I64")  # not weights themselves


@dataclass(frozen=True)
class Head:
    """A head, or an embedding that serves as one.

    Attributes:
        owner: "drafter" or "target".
        weight: [rows, H].
        per_row: suffix → tensor [rows] or [rows, 1], sliced with the weight.
        scalars: suffix → tensor of one element, copied.
        names: the tensors that belong to the head and must not be copied as they are.
        target_ids: int64 [rows], the target id of each row; None when the row is the target id.
    """

    owner: str
    weight: Tensor
    per_row: Mapping[str, Tensor] = field(default_factory=dict)
    scalars: Mapping[str, Tensor] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    target_ids: Ids | None = None

    def row_indices(self, vocab: DraftVocab) -> RowIndices:
        """int64 [K], the row of each kept id, by draft id.

        Raises:
            SelectionError: the head has no row for some of them; says how many.
        """
        indices = vocab.target_ids
        if self.target_ids is not None:
            row_of = np.full(max(vocab.rows, int(self.target_ids.max()) + 1), -1)
            row_of[self.target_ids] = np.arange(len(self.target_ids))
            indices = row_of[vocab.target_ids]
        missing = vocab.target_ids[(indices < 0) | (indices >= self.weight.shape[0])]
        if not len(missing):
            return indices
        expected, hint = "ids that it has rows for", ""
        if self.target_ids is not None:
            expected = f"only ids among the {len(self.target_ids):,} that its d2t keeps"
            hint = (
                "prune the drafter that it was made from, or ask for ids among its own "
                "(DraftVocab.from_d2t)"
            )
        raise SelectionError(
            f"{len(missing):,} of {len(vocab):,} ids, the first {missing[0]}, have no row in the "
            f"{self.owner}'s {self.weight}",
            expected=expected,
            hint=hint,
        )


def is_head_name(name: str) -> bool:
    """Whether a tensor belongs to a head."""
    return ".lm_head." in f".{name}"


def is_head_tensor(name: str) -> bool:
    """Whether a tensor belongs to a head or can serve as one."""
    return is_head_name(name) or name.endswith(EMBEDDINGS)


def read_drafter_head(
    tensors: Mapping[str, Tensor], rows: int, size: int | None = None
) -> Head | None:
    """The head that a drafter has itself, with the ids of its d2t; None when it has none.

    Args:
        tensors: of the drafter.
        rows: V.
        size: the draft_vocab_size of its config, where there is one.

    Raises:
        FileFormatError: it cannot be sliced by rows, it has fewer rows than V and no d2t that says
            which, or head, d2t, t2d and config do not agree; names why.
    """
    head = read_head(tensors, "drafter")
    if head is None:
        return None
    d2t, t2d = (find_tensor(tensors, name) for name in ("d2t", "t2d"))
    count = head.weight.shape[0]
    if size not in (None, count) and (d2t is not None or size != rows):
        raise FileFormatError(
            f"config.json says draft_vocab_size {size:,}, the head is {head.weight}",
            expected="one number of rows",
            hint=CHECK_HINT,
        )
    if d2t is None:
        _check_full(head, t2d, rows)
        return head
    mapping = read_mapping(d2t, t2d, rows)
    if count < len(mapping):
        raise FileFormatError(
            f"{head.weight} beside {d2t}", expected=f"a head of at least {len(mapping):,} rows"
        )
    return replace(head, target_ids=mapping.ranked)


def _check_full(head: Head, t2d: Tensor | None, rows: int) -> None:
    """Without a d2t, row i has to be that of target id i."""
    if head.weight.shape[0] < rows:
        raise FileFormatError(
            f"{head.weight} has fewer rows than V = {rows:,}, and no d2t says of which ids",
            expected="a d2t beside it, or a row for every id",
            hint="take the drafter as it was before it was pruned, or add the d2t it came with",
        )
    if t2d is not None and (t2d.dtype != "BOOL" or not t2d.array().all()):
        raise FileFormatError(
            f"{t2d} without a d2t beside {head.weight}", expected="both or none", hint=CHECK_HINT
        )


def read_target_head(tensors: Mapping[str, Tensor], untied: bool) -> Head:
    """The head of a target: its own, or its embedding.

    Args:
        tensors: of the target.
        untied: whether its config states that the embedding is not the head.

    Raises:
        FileFormatError: it has neither, or it cannot be sliced by rows.
    """
    head = read_head(tensors, "target") or (None if untied else embedding_head(tensors, "target"))
    if head is None:
        raise FileFormatError(
            f"the target has no {HEAD}" + (", and its embedding is not tied to it" * untied),
            expected=f"{HEAD} or a tied embedding",
        )
    return head


def embedding_head(tensors: Mapping[str, Tensor], owner: str) -> Head | None:
    """The embedding as a head, None when there is none.

    Raises:
        FileFormatError: it cannot be sliced by rows.
    """
    found = next(filter(None, (find_tensor(tensors, name) for name in EMBEDDINGS)), None)
    if found is None:
        return None
    _check_weight(found)
    return Head(owner, found)


def read_head(tensors: Mapping[str, Tensor], owner: str) -> Head | None:
    """The head of a model and the tensors that go with its rows; d2t is not read.

    Returns:
        The head, or None when the model has none.

    Raises:
        FileFormatError: it cannot be sliced by rows.
    """
    weight = find_tensor(tensors, HEAD)
    if weight is None:
        packed = [name for name in tensors if is_head_name(name)]
        if packed:
            raise _not_sliceable("no lm_head.weight, but", packed)
        return None
    _check_weight(weight)
    rows, prefix = weight.shape[0], weight.name.removesuffix("weight")
    names = [name for name in tensors if name.startswith(prefix)]
    others = {name.removeprefix(prefix): tensors[name] for name in names if name != weight.name}
    row_shapes = ((rows,), (rows, 1)) if rows > 1 else ()
    per_row = {k: t for k, t in others.items() if k in PER_ROW and t.shape in row_shapes}
    scalars = {k: t for k, t in others.items() if k in SCALARS and t.shape in ((), (1,))}
    unknown = [str(t) for k, t in others.items() if k not in per_row and k not in scalars]
    if unknown:
        raise _not_sliceable("a head quantised in blocks or packed:", unknown)
    return Head(owner, weight, per_row, scalars, frozenset(names))


def _check_weight(weight: Tensor) -> None:
    if len(weight.shape) != 2 or 0 in weight.shape:
        raise FileFormatError(f"{weight}", expected="a head of two dimensions, [rows, H]")
    if weight.dtype in PACKED_DTYPES:
        raise FileFormatError(
            f"a packed head: {weight}",
            expected="a head of floats, or I8 with scales by row",
            hint="prune the drafter before quantising it, or one whose head is not quantised",
        )


def _not_sliceable(problem: str, tensors: Iterable[str]) -> FileFormatError:
    return FileFormatError(
        f"{problem} {', '.join(sorted(tensors))}",
        expected="lm_head.weight [rows, H], with bias [rows] and weight_scale [rows] or [rows, 1]",
        hint="prune the drafter before quantising it, or one whose head is not quantised",
    )
