"""A worker process: counts the shards that its parent names, one at a time.

It is started as `python -m vocabfreq.worker`, never forked, and needs no guard around the main
module of whoever calls `count`. Requests come in on standard input and answers leave on standard
output, pickled, between a parent and its own child only. When the parent goes away, so does it.
"""

import os
import pickle
import signal
import sys
import threading
from collections.abc import Iterator
from queue import SimpleQueue
from typing import IO, Any

from vocabfreq.errors import VocabfreqError
from vocabfreq.shardcounter import ShardCounter
from vocabfreq.tasks import Done, Remark, Task, first_remark, run_task


def send(stream: IO[bytes], message: Any) -> None:
    """Writes one message."""
    pickle.dump(message, stream)
    stream.flush()


def main() -> None:
    """Serves the parent until it closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not get between the messages
    counter = ShardCounter(pickle.load(requests))
    tasks: SimpleQueue[Task] = SimpleQueue()
    threading.Thread(target=_listen, args=(requests, tasks), daemon=True).start()
    while True:
        for answer in _answers(counter, tasks.get()):
            send(answers, answer)


def _listen(requests: IO[bytes], tasks: "SimpleQueue[Task]") -> None:
    """Hands tasks on; ends the process the moment the parent is gone."""
    while True:
        try:
            tasks.put(pickle.load(requests))
        except (EOFError, pickle.UnpicklingError, OSError):
            os._exit(0)


def _answers(counter: ShardCounter, task: Task) -> Iterator[Done | Remark | VocabfreqError]:
    try:
        if remark := first_remark(counter, task):
            yield remark
        yield run_task(counter, task)
    except VocabfreqError as error:
        yield error


if __name__ == "__main__":
    main()
