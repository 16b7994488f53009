"""The errors of a real vLLM for wrong configurations, before a weight is read.

python -m real.vllmerrors CASES.json RESULT.json
"""

import json
import sys
from pathlib import Path
from typing import Any

from real.vllmruns import SHAPE


def _error_of(arguments: dict[str, Any]) -> list[str] | None:
    """Class and message of the error, None when there was none."""
    from vllm.engine.arg_utils import EngineArgs

    try:
        EngineArgs(**SHAPE | arguments).create_engine_config()
    except Exception as error:
        return [type(error).__name__, str(error)]
    return None


def _main(cases: Path, result: Path) -> None:
    from vocabfreq.vllm import plugin

    configurations = json.loads(cases.read_text())
    known = plugin.LOADERS
    (one, name), (two, other) = known
    plugin.LOADERS = ((one, f"Other{name}"), (two, f"Other{other}"))
    errors = {
        f"other-vllm-{case}": _error_of(configurations[case]) for case in ("fine", "not-configured")
    }
    plugin.LOADERS = known
    plugin.hook()
    errors |= {case: _error_of(arguments) for case, arguments in configurations.items()}
    result.write_text(json.dumps(errors))


if __name__ == "__main__":
    _main(*map(Path, sys.argv[1:]))
