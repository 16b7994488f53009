"""`vocabfreq` commands, one after the other, in a process that knows a loopback Hub alone.

The clients read their variables when they are imported: too late for the process of the tests.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hubserver import HubServer

HERE = Path(__file__).parent
FOLDERS = os.pathsep.join(map(str, (HERE / "hurried", HERE)))  # no try waits long for the next
DRIVER = """
import contextlib, io, json, sys, traceback

def run(words):
    from vocabfreq.cli import main
    sys.argv = ["vocabfreq", *words]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0

def evaluate(code):
    print(json.dumps(eval(code), default=str))
    return 0

for line in sys.stdin:
    kind, what = json.loads(line)
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = {"run": run, "eval": evaluate}[kind](what)
        except BaseException:
            traceback.print_exc()
            status = -1
    print(json.dumps([status, out.getvalue(), err.getvalue()]), flush=True)
"""


@dataclass(frozen=True)
class Done:
    """What a command left."""

    status: int
    out: str
    err: str


class HubCli:
    """A process with its own cache; `home` tells two apart."""

    def __init__(self, hub: HubServer, home: Path, token: str | None = "good", **more: str) -> None:
        kept = {k: v for k, v in os.environ.items() if "proxy" not in k.lower() and k[:3] != "HF_"}
        kept |= {"HF_ENDPOINT": hub.url, "HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1"}
        kept |= {"HF_TOKEN": token} if token else {}
        self.process = subprocess.Popen(
            [sys.executable, "-c", DRIVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=home.parent,
            env=kept
            | {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "NO_COLOR": "1", "PYTHONPATH": FOLDERS}
            | more,
        )

    def ask(self, kind: str, what: Any) -> Done:
        """Runs and waits."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps([kind, what]) + "\n")
        self.process.stdin.flush()
        return Done(*json.loads(self.process.stdout.readline()))

    def __call__(self, *words: str | Path) -> Done:
        """A command that may fail."""
        return self.ask("run", [str(word) for word in words])

    def good(self, *words: str | Path) -> str:
        """A command that must not fail: its standard output."""
        done = self(*words)
        assert done.status == 0, done
        return done.out

    def value(self, code: str) -> Any:
        """The value of an expression, by way of JSON."""
        done = self.ask("eval", code)
        assert done.status == 0, done
        return json.loads(done.out)

    def close(self) -> None:
        """Ends the process."""
        self.process.communicate()
