"""The command line as installed, in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path


def run(
    *arguments: object, cwd: Path | None = None, stdin: bytes | None = None, **env: str
) -> subprocess.CompletedProcess[str]:
    """Runs the command as installed."""
    done = subprocess.run(
        [sys.executable, "-c", "from vocabfreq.cli import main; main()", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        check=False,
        cwd=cwd,
        env={**os.environ, "COLUMNS": "120", **env},
    )
    return subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
    )
