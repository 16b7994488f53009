"""What a real vLLM says to what cannot be, when it is configured: no weight is read.

python -m real.vllmerrors CASES.json RESULT.json
"""

import json
import sys
from pathlib import Path
from typing import Any

from real.vllmruns import SHAPE


def _said(arguments: dict[str, Any]) -> list[str] | None:
    """Kind and words of the error, None when there was none."""
    from vllm.engine.arg_utils import EngineArgs

    try:
        EngineArgs(**SHAPE | arguments).create_engine_config()
    except Exception as error:
        return [type(error).__name__, str(error)]
    return None


def _main(cases: Path, result: Path) -> None:
    from vocabfreq.vllm import plugin

    told = json.loads(cases.read_text())
    known = plugin.LOADERS
    (one, name), (two, other) = known
    plugin.LOADERS = ((one, f"Other{name}"), (two, f"Other{other}"))
    said = {f"other-vllm-{case}": _said(told[case]) for case in ("fine", "not-asked")}
    plugin.LOADERS = known
    plugin.hook()
    said |= {case: _said(arguments) for case, arguments in told.items()}
    result.write_text(json.dumps(said))


if __name__ == "__main__":
    _main(*map(Path, sys.argv[1:]))
