"""A worker process: counts the shards that its parent names, one at a time.

It is started as `python -m vocabfreq.counting.worker`, never forked, and needs no guard around
the main module of whoever calls `count`. Requests come in on standard input and answers leave on
standard output, pickled, between a parent and its own child only. When the parent goes away, so
does it, at once, however busy it is: on Linux the kernel sees to that, elsewhere a thread.
"""

import ctypes
import os
import pickle
import signal
import sys
import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import IO, TYPE_CHECKING, Any

from vocabfreq.errors import VocabfreqError

if TYPE_CHECKING:  # what counts is imported late, so that a worker that starts can be ended too
    from vocabfreq.counting.shard import ShardCounter
    from vocabfreq.counting.tasks import Done, Remark, Task

_PR_SET_PDEATHSIG = 1


def send(stream: IO[bytes], message: Any) -> None:
    """Writes one message."""
    pickle.dump(message, stream)
    stream.flush()


def main() -> None:
    """Serves the parent, whose process id is the argument, until it closes the pipe."""
    _die_with(int(sys.argv[1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    from vocabfreq.counting.shard import ShardCounter

    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not get between the messages
    counter = ShardCounter(pickle.load(requests))
    tasks: SimpleQueue[Task] = SimpleQueue()
    threading.Thread(target=_listen, args=(requests, tasks), daemon=True).start()
    while True:
        for answer in _answers(counter, tasks.get()):
            send(answers, answer)


def _die_with(parent: int) -> None:
    """Asks for SIGKILL when the parent's thread that started this process ends (man 2 prctl)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it ended before
            os._exit(0)


def _listen(requests: IO[bytes], tasks: "SimpleQueue[Task]") -> None:
    """Hands tasks on; ends the process the moment the parent is gone."""
    while True:
        try:
            tasks.put(pickle.load(requests))
        except (EOFError, pickle.UnpicklingError, OSError):
            os._exit(0)


def _answers(counter: "ShardCounter", task: "Task") -> Iterator["Done | Remark | VocabfreqError"]:
    from vocabfreq.counting.tasks import first_remark, run_task

    try:
        if remark := first_remark(counter, task):
            yield remark
        yield run_task(counter, task)
    except VocabfreqError as error:
        yield error


if __name__ == "__main__":
    main()
