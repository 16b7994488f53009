"""The rows of a head, what goes with each row, and heads that rows cannot be taken from."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from vocabfreq.checkpoints.kinds import find
from vocabfreq.checkpoints.tensors import Ids, Tensor
from vocabfreq.errors import FileFormatError, SelectionError
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
