"""The target's logit gap between two ids, measured with transformers in the dtype of the run.

What is a near-tie was set by measurement (docs/evaluate.md): how far the gap between the two best
ids moves when a place is read alone, or among four, counted in eps times the largest logit. The
bound is about twice the most that was seen: once for the run, once for measuring the gap anew.
"""

from collections.abc import Sequence
from typing import Any

from vocabfreq.measure.eval.compare import Case, Gap
from vocabfreq.storage.extras import require

# In 16 bits the rounding of the logits is nearly all of it, in float32 what adds up in the layers.
MOVES = {"bfloat16": 3, "float16": 3, "float32": 32}


class Target:
    """A target that is loaded when the first gap is asked for, and answers each case once."""

    def __init__(self, name: str, dtype: str, options: dict[str, Any]) -> None:
        """Loads nothing.

        Args:
            name: folder or Hub repo.
            dtype: of the runs.
            options: of the runs; `device` is used.
        """
        self._name, self._dtype, self._options = name, dtype, options
        self._model: Any = None
        self._known: dict[Case, Gap] = {}

    def __call__(self, cases: Sequence[Case]) -> list[Gap]:
        """One gap for each case.

        Raises:
            MissingExtraError: transformers is not installed.
            EvaluationError: the target cannot be loaded.
        """
        for case in cases:
            if case not in self._known:
                self._known[case] = self._measured(case)
        return [self._known[case] for case in cases]

    def _measured(self, case: Case) -> Gap:
        torch = require("torch", "eval")
        from vocabfreq.measure.eval import models

        if self._model is None:
            device = models.device_of(self._options)
            self._model = models.load_model(self._name, self._dtype, device)
        with torch.inference_mode():
            logits = models.Cached(self._model).logits(list(case.prefix), 1)[0]
        values = logits.float()
        gap = float(values.max() - values[[case.ours, case.vanilla]].min())
        eps = torch.finfo(getattr(torch, self._dtype)).eps
        return Gap(gap, bound_of(float(values.max().abs()), eps, self._dtype))


def bound_of(largest: float, eps: float, dtype: str) -> float:
    """Up to which gap two logits are as good as equal.

    Args:
        largest: size of the largest logit there.
        eps: of the dtype, the distance from 1 to the next number; 2**-7 for bfloat16.
        dtype: its name.
    """
    return MOVES[dtype] * eps * largest
