"""Acceptance and speed of drafting on real models, pruned and unpruned, next to plain decoding.

>>> from vocabfreq.measure.eval import Plan, evaluate, read_prompts
>>> prompts = read_prompts(Path("question.jsonl"), limit=8)
>>> plan = Plan(engine="transformers", target="path/to/target", drafter="self", prompts=prompts)
>>> evaluate(plan, Path("eval.parts")).rows

Each run is a process of its own (`engine_process`), so that no run inherits memory or a
warm cache. An engine is a module with one function, `run(spec: RunSpec) -> RunResult`;
`engines.ENGINES` lists them.
"""

from vocabfreq.errors import EvaluationError
from vocabfreq.measure.eval.evaluation import Evaluation, Row, evaluate
from vocabfreq.measure.eval.plan import Plan, RunResult, RunSpec
from vocabfreq.measure.eval.prompts import read_prompts
from vocabfreq.measure.eval.sweep import Interrupted

__all__ = [
    "Evaluation",
    "EvaluationError",
    "Interrupted",
    "Plan",
    "Row",
    "RunResult",
    "RunSpec",
    "evaluate",
    "read_prompts",
]
