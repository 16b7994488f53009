"""Which head a drafter is pruned with: its own, through its own map, or the target's.

The rows of a head, what goes with each row, and heads that rows cannot be taken from.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from vocabfreq.checkpoints.config import find
from vocabfreq.checkpoints.tensors import Ids, Tensor, is_map
from vocabfreq.errors import FileFormatError, SelectionError
from vocabfreq.formats.d2t import vocab_from_map
from vocabfreq.formats.read_options import How
from vocabfreq.frequencies.draft_vocab import DraftVocab

HEAD, EMBEDDINGS = "lm_head.weight", ("embed_tokens.weight", "wte.weight")
PER_ROW = ("bias", "weight_scale", "weight_zero_point")
PACKED = ("BOOL", "U8", "U16", "U32", "U64", "I16", "I32", "I64")  # no weights as they are
SCALARS = ("weight_scale", "input_scale", "weight_scale_2")


@dataclass(frozen=True)
class Head:
    """A head, or an embedding that serves as one.

    Attributes:
        owner: "drafter" or "target".
        weight: [rows, H].
        beside: suffix → tensor [rows] or [rows, 1], sliced with the weight.
        scalars: suffix → tensor of one element, copied.
        names: the tensors that belong to the head and must not be copied as they are.
        old: int64 [old K], the target id of each row; None when the row is the target id.
    """

    owner: str
    weight: Tensor
    beside: Mapping[str, Tensor] = field(default_factory=dict)
    scalars: Mapping[str, Tensor] = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    old: Ids | None = None

    def places(self, vocab: DraftVocab, rows: int) -> Ids:
        """int64 [K], the row of each kept id, by draft id.

        Args:
            vocab: the kept ids.
            rows: V.

        Raises:
            SelectionError: the head has no row for some of them; says how many.
        """
        places = vocab.target_ids
        if self.old is not None:
            row_of = np.full(max(rows, vocab.rows, int(self.old.max()) + 1), -1)
            row_of[self.old] = np.arange(len(self.old))
            places = row_of[vocab.target_ids]
        missing = vocab.target_ids[(places < 0) | (places >= self.weight.shape[0])]
        if len(missing):
            raise self._no_row(missing, len(vocab))
        return places

    def _no_row(self, missing: Ids, size: int) -> SelectionError:
        wrong = (
            f"{len(missing):,} of {size:,} ids, the first {missing[0]}, have no row in the "
            f"{self.owner}'s {self.weight}"
        )
        if self.old is None:
            return SelectionError(wrong, expected="ids that it has rows for")
        return SelectionError(
            wrong,
            expected=f"only ids among the {len(self.old):,} that its d2t keeps",
            hint="prune the drafter that it was made from, or ask for ids among its own "
            "(DraftVocab.from_d2t)",
        )


def is_head_name(name: str) -> bool:
    """Whether a tensor belongs to a head."""
    return ".lm_head." in f".{name}"


def is_head_tensor(name: str) -> bool:
    """Whether a tensor belongs to a head or can serve as one."""
    return is_head_name(name) or name.endswith(EMBEDDINGS)


def embedding(tensors: Mapping[str, Tensor], owner: str) -> Head | None:
    """An embedding as a head."""
    found = next(filter(None, (find(tensors, name) for name in EMBEDDINGS)), None)
    return None if found is None else Head(owner, _checked(found))


def plain_head(tensors: Mapping[str, Tensor], owner: str) -> Head | None:
    """The head of a model and what goes with its rows, None when it has none; no map is read.

    Raises:
        FileFormatError: it cannot be sliced by rows.
    """
    weight = find(tensors, HEAD)
    if weight is None:
        packed = [name for name in tensors if is_head_name(name)]
        if packed:
            raise _refused(packed, "no lm_head.weight, but")
        return None
    prefix = weight.name.removesuffix("weight")
    names = [name for name in tensors if name.startswith(prefix)]
    beside = {name.removeprefix(prefix): tensors[name] for name in names if name != weight.name}
    rows = _checked(weight).shape[0]
    sliced = {k: t for k, t in beside.items() if k in PER_ROW and _is_per_row(t, rows)}
    scalars = {k: t for k, t in beside.items() if k in SCALARS and t.shape in ((), (1,))}
    rest = [t.name for k, t in beside.items() if k not in sliced and k not in scalars]
    if rest:
        raise _refused(rest, "a head quantised in blocks or packed:", beside)
    return Head(owner, weight, sliced, scalars, frozenset(names))


def _is_per_row(tensor: Tensor, rows: int) -> bool:
    return rows > 1 and tensor.shape in ((rows,), (rows, 1))


def _checked(weight: Tensor) -> Tensor:
    if len(weight.shape) != 2 or 0 in weight.shape:
        raise FileFormatError(f"{weight}", expected="a head of two dimensions, [rows, H]")
    if weight.dtype in PACKED:
        raise FileFormatError(
            f"a packed head: {weight}",
            expected="a head of floats, or I8 with scales by row",
            hint="prune the drafter before quantising it, or one whose head is not quantised",
        )
    return weight


def _refused(
    names: Iterable[str], what: str, tensors: Mapping[str, Tensor] | None = None
) -> FileFormatError:
    told = {t.name: str(t) for t in (tensors or {}).values()}
    return FileFormatError(
        f"{what} {', '.join(told.get(name, name) for name in sorted(names))}",
        expected="lm_head.weight [rows, H], with bias [rows] and weight_scale [rows] or [rows, 1]",
        hint="prune the drafter before quantising it, or one whose head is not quantised",
    )


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
