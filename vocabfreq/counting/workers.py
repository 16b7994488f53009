"""Where shards run: in worker processes of this machine, or in this process.

A worker that dies (out of memory, say) is noticed at once. Its shard is tried once more, alone;
if that kills a worker too it is set aside by name while the others go on.
"""

import contextlib
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import IO, Any

from vocabfreq.counting.shard import ShardCounter
from vocabfreq.counting.shardcount import Job
from vocabfreq.counting.tasks import Done, Remark, Task, first_remark, run_task
from vocabfreq.counting.worker import send
from vocabfreq.errors import CountError, VocabfreqError

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
                [sys.executable, "-m", "vocabfreq.counting.worker", str(os.getpid())],
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
