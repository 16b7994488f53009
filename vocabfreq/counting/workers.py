"""Counts shards in worker processes of this machine, or in this process.

A worker is a new Python process, never forked, so that whoever calls `count` needs no guard around
their main module. Tasks come in on its standard input and answers leave on its standard output,
pickled, between a parent and its own child only. When the parent ends, the worker ends at once,
however busy it is: on Linux the kernel sees to that, elsewhere a thread.

A worker that dies (out of memory, say) is noticed at once. Its shard is tried once more, alone; if
that kills a worker too it is set aside by name while the others go on.
"""

import contextlib
import ctypes
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

from vocabfreq.corpus.sources import Shard
from vocabfreq.counting.partial_files import save_partial
from vocabfreq.counting.shard import ShardCount, ShardCounter, WorkerConfig
from vocabfreq.errors import CountError, VocabfreqError, WorkDirError, first_line

# Ctrl-C reaches the whole process group, and the parent decides what it means.
_WORKER = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    "from vocabfreq.counting.workers import main; main()"
)
# One memory arena: with one a thread, a worker keeps some 50 MB more than it uses.
_WORKER_ENV = {"OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True)
class Task:
    """One shard to count.

    Attributes:
        shard: the shard.
        path: of its partial file.
    """

    shard: Shard
    path: Path


@dataclass(frozen=True)
class ShardDone:
    """A shard was counted.

    Attributes:
        size: about how many bytes of the files it took up.
        documents: documents counted.
        tokens: tokens counted.
        bytes: UTF-8 bytes of the text counted.
    """

    size: int
    documents: int
    tokens: int
    bytes: int


@dataclass(frozen=True)
class Notice:
    """A message for people while counting goes on."""

    text: str


Answer = ShardDone | Notice | VocabfreqError
Outcome = tuple[Task, Answer]


def default_workers() -> int:
    """As many as there are cores for this process."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_task(counter: ShardCounter, task: Task) -> Iterator[Answer]:
    """Counts a shard and writes its partial file; notices come first, then the result."""
    try:
        if task.shard.layout.kind != "ids" and (remark := counter.encoder.remark):
            yield Notice(remark)
        count = counter.count(task.shard)
        _save(task, count)
        yield ShardDone(task.shard.size, count.documents, count.tokens, count.bytes)
    except VocabfreqError as error:
        yield error
    except Exception as error:  # whatever a reader or a disk came up with
        failure = CountError(f"{task.shard.name}: {first_line(error)}")
        failure.__cause__ = error
        yield failure


def _save(task: Task, count: ShardCount) -> None:
    try:
        save_partial(task.path, count, task.shard.name)
    except IsADirectoryError:
        raise WorkDirError(
            f"{task.path} is a folder", expected="a partial file", hint="remove or rename it"
        ) from None
    except OSError as error:
        raise WorkDirError(
            f"cannot write into {task.path.parent}: {error.strerror}",
            hint="what is counted is kept: make room, or name another --work-dir, and run it again",
        ) from None


def run_in_this_process(tasks: list[Task], config: WorkerConfig) -> Iterator[Outcome]:
    """Counts the shards one after the other."""
    with contextlib.closing(ShardCounter(config)) as counter:
        for task in tasks:
            for answer in run_task(counter, task):
                yield task, answer


def run_in_workers(tasks: list[Task], config: WorkerConfig, workers: int) -> Iterator[Outcome]:
    """Counts the shards in worker processes; yields outcomes as they come.

    Args:
        tasks: the shards to count.
        config: what the shards share.
        workers: how many processes at once.
    """
    died: list[Task] = []
    for task, answer in _run_once(tasks, config, workers):
        if answer is None:
            died.append(task)
        else:
            yield task, answer
    for suspect in died:
        for task, answer in _run_once([suspect], config, 1):
            yield task, answer or _killed_twice(task)


def _killed_twice(task: Task) -> VocabfreqError:
    return CountError(
        f"{task.shard.name}: the worker that counted it was killed, twice",
        hint="was memory short? run again with fewer --workers, or look at that file",
    )


def _run_once(
    tasks: list[Task], config: WorkerConfig, workers: int
) -> Iterator[tuple[Task, Answer | None]]:
    """Every task once; None stands for a worker that died."""
    todo: queue.SimpleQueue[Task] = queue.SimpleQueue()
    for task in tasks:
        todo.put(task)
    results: queue.SimpleQueue[Any] = queue.SimpleQueue()
    pool = _Pool(config, todo, results, min(workers, len(tasks)))
    try:
        pool.start()
        left = len(tasks)
        while left:
            result = results.get()
            if isinstance(result, BaseException):
                raise result
            left -= not isinstance(result[1], Notice)
            yield result
    finally:
        pool.kill()


class _Pool:
    """Threads that each keep one worker process busy."""

    def __init__(self, config: WorkerConfig, todo: Any, results: Any, size: int) -> None:
        self.config, self.todo, self.results = config, todo, results
        self.closing = False
        self.processes: set[subprocess.Popen[bytes]] = set()
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(size)]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    def _serve(self) -> None:
        # Inherited by the processes: Ctrl-C must not hit one that has only begun to start.
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process = None
            while not self.closing:
                task = self.todo.get_nowait()
                process = process or self._spawn()
                answer = _send_task(process, task)
                while isinstance(answer, Notice):
                    self.results.put((task, answer))
                    answer = _receive(process)
                if answer is None:
                    with self.lock:
                        self.processes.discard(process)
                    _end(process)
                    process = None
                self.results.put((task, answer))
        except queue.Empty:
            pass
        except BaseException as error:
            self.results.put(error)

    def _spawn(self) -> "subprocess.Popen[bytes]":
        # The workers share the cores; what a library starts inside one gets its part only.
        threads = str(max(1, default_workers() // len(self.threads)))
        with self.lock:
            if self.closing:
                raise CountError("interrupted")
            process = subprocess.Popen(
                [sys.executable, "-c", _WORKER, str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**_WORKER_ENV, "RAYON_NUM_THREADS": threads, **os.environ},
            )
            self.processes.add(process)
        _send(_pipe(process.stdin), self.config)
        return process

    def kill(self) -> None:
        """Ends every worker and waits until they are gone."""
        with self.lock:
            self.closing = True
            processes = list(self.processes)
        for process in processes:
            process.kill()
        for thread in self.threads:
            if thread.ident is not None:
                thread.join()
        for process in processes:
            _end(process)


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None  # both ends are pipes
    return stream


def _send(stream: IO[bytes], message: Any) -> None:
    pickle.dump(message, stream)
    stream.flush()


def _send_task(process: "subprocess.Popen[bytes]", task: Task) -> Answer | None:
    """Sends a task to a worker and waits for its answer; None when the worker died."""
    try:
        _send(_pipe(process.stdin), task)
    except OSError:
        return None
    return _receive(process)


def _receive(process: "subprocess.Popen[bytes]") -> Answer | None:
    try:
        answer: Answer = pickle.load(_pipe(process.stdout))
    except (EOFError, OSError, pickle.UnpicklingError):
        return None
    return answer


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            _pipe(stream).close()


def main() -> None:
    """What a worker runs; its parent's process id is the argument, its config the first message."""
    _die_with(int(sys.argv[1]))
    requests = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not get between the messages
    counter = ShardCounter(pickle.load(requests))
    tasks: SimpleQueue[Task] = SimpleQueue()
    threading.Thread(target=_listen, args=(requests, tasks), daemon=True).start()
    while True:
        for answer in run_task(counter, tasks.get()):
            _send(answers, answer)


def _die_with(parent: int) -> None:
    """Asks for SIGKILL when the parent's thread that started this process ends (man 2 prctl)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it ended before
            os._exit(0)


def _listen(requests: IO[bytes], tasks: SimpleQueue[Task]) -> None:
    """Receives tasks; ends the process the moment the parent is gone."""
    while True:
        try:
            tasks.put(pickle.load(requests))
        except (EOFError, pickle.UnpicklingError, OSError):
            os._exit(0)
