"""Where shards run: in worker processes of this machine, or in this process.

A worker that dies (out of memory, say) is noticed at once. Its shard is tried once more, alone;
if that kills a worker too it is set aside by name while the others go on.

Tasks: one shard to count, and what came of it.

A worker process: counts the shards that its parent names, one at a time.

It is a new Python process, never forked, and needs no guard around
the main module of whoever calls `count`. Requests come in on standard input and answers leave on
standard output, pickled, between a parent and its own child only. When the parent goes away, so
does it, at once, however busy it is: on Linux the kernel sees to that, elsewhere a thread.
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
from vocabfreq.counting.shard import Job, ShardCount, ShardCounter
from vocabfreq.errors import CountError, VocabfreqError, WorkDirError, first_line

# Ctrl-C reaches the whole process group, and the parent decides what it means.
_WORKER = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
    "from vocabfreq.counting.workers import main; main()"
)


@dataclass(frozen=True)
class Task:
    """One shard to count.

    Attributes:
        key: its fingerprint.
        shard: the shard.
        path: where its partial file goes.
    """

    key: str
    shard: Shard
    path: Path


@dataclass(frozen=True)
class Done:
    """What the parent is told of a counted shard.

    Attributes:
        size: bytes of the files that it took up, about.
        documents: documents counted.
        tokens: tokens counted.
        bytes: UTF-8 bytes of the text counted.
    """

    size: int
    documents: int
    tokens: int
    bytes: int


@dataclass(frozen=True)
class Remark:
    """Something that a person should hear while counting goes on."""

    text: str


def first_remark(counter: ShardCounter, task: Task) -> Remark | None:
    """What there is to say of the engine, once it is known; nothing for sources of ids.

    Raises:
        VocabfreqError: the tokenizer cannot be loaded.
    """
    if task.shard.layout.kind == "ids" or not counter.engines.encoder.remark:
        return None
    return Remark(counter.engines.encoder.remark)


def run_task(counter: ShardCounter, task: Task) -> Done:
    """Counts a shard and leaves its partial file.

    Raises:
        VocabfreqError: the shard cannot be counted.
    """
    try:
        count = counter.count(task.shard)
        _save(task, count)
    except VocabfreqError:
        raise
    except Exception as error:  # whatever a reader or a disk came up with
        raise CountError(f"{task.shard.name}: {first_line(error)}") from error
    return Done(task.shard.size, count.documents, count.tokens, count.bytes)


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


_PR_SET_PDEATHSIG = 1


def send(stream: IO[bytes], message: Any) -> None:
    """Writes one message."""
    pickle.dump(message, stream)
    stream.flush()


def main() -> None:
    """Serves the parent, whose process id is the argument, until it closes the pipe."""
    _die_with(int(sys.argv[1]))
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


def _listen(requests: IO[bytes], tasks: SimpleQueue[Task]) -> None:
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


# One memory arena: with one a thread, a worker keeps some 50 MB more than it uses.
_WORKER_ENV = {"OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
Answer = Done | Remark | VocabfreqError
Outcome = tuple[Task, Answer]


def default_workers() -> int:
    """As many as there are cores for this process."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_here(tasks: list[Task], job: Job) -> Iterator[Outcome]:
    """Counts the shards in this process, one after the other."""
    counter = ShardCounter(job)
    for task in tasks:
        try:
            if remark := first_remark(counter, task):
                yield task, remark
            yield task, run_task(counter, task)
        except VocabfreqError as error:
            yield task, error


def run_in_workers(tasks: list[Task], job: Job, workers: int) -> Iterator[Outcome]:
    """Counts the shards in worker processes; yields outcomes as they come.

    Args:
        tasks: what to count.
        job: what the shards have in common.
        workers: how many processes at once.
    """
    died: list[Task] = []
    for task, outcome in _run_once(tasks, job, workers):
        if outcome is None:
            died.append(task)
        else:
            yield task, outcome
    for suspect in died:
        for task, outcome in _run_once([suspect], job, 1):
            yield task, outcome or _killed(task)


def _killed(task: Task) -> VocabfreqError:
    return CountError(
        f"{task.shard.name}: the worker that counted it was killed, twice",
        hint="was memory short? run again with fewer --workers, or look at that file",
    )


def _run_once(tasks: list[Task], job: Job, workers: int) -> Iterator[tuple[Task, Answer | None]]:
    """Every task once; None stands for a worker that died over it."""
    todo: queue.SimpleQueue[Task] = queue.SimpleQueue()
    for task in tasks:
        todo.put(task)
    results: queue.SimpleQueue[Any] = queue.SimpleQueue()
    pool = _Pool(job, todo, results, min(workers, len(tasks)))
    try:
        pool.start()
        left = len(tasks)
        while left:
            result = results.get()
            if isinstance(result, BaseException):
                raise result
            left -= not isinstance(result[1], Remark)
            yield result
    finally:
        pool.kill()


class _Pool:
    """Threads that each keep one worker process busy."""

    def __init__(self, job: Job, todo: Any, results: Any, size: int) -> None:
        self.job, self.todo, self.results = job, todo, results
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
                outcome = _ask(process, task)
                while isinstance(outcome, Remark):
                    self.results.put((task, outcome))
                    outcome = _receive(process)
                if outcome is None:
                    self._forget(process)
                    process = None
                self.results.put((task, outcome))
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
        send(_stream(process.stdin), self.job)
        return process

    def _forget(self, process: "subprocess.Popen[bytes]") -> None:
        with self.lock:
            self.processes.discard(process)
        _end(process)

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


def _stream(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None  # both ends are pipes
    return stream


def _ask(process: "subprocess.Popen[bytes]", task: Task) -> Answer | None:
    """Gives a task to a worker and waits; None when the worker died."""
    try:
        send(_stream(process.stdin), task)
    except OSError:
        return None
    return _receive(process)


def _receive(process: "subprocess.Popen[bytes]") -> Answer | None:
    try:
        answer: Answer = pickle.load(_stream(process.stdout))
    except (EOFError, OSError, pickle.UnpicklingError):
        return None
    return answer


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()
    for stream in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            _stream(stream).close()
