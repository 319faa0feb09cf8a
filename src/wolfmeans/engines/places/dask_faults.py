"""Waiting for the workers of a Dask cluster, and the errors when they are gone.

Tasks may be bound to one worker (`dask_places`). So a wait checks from time to time which workers
are there, and ends with an error that names those that are gone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from time import monotonic
from typing import Any

PATIENCE = 120.0
"""Seconds that a cluster may be without any worker that takes tasks."""
GLANCE = 0.5
"""Seconds until the first check of the workers."""
_LONGEST_GLANCE = 4.0
# A worker that writes to its disk takes no tasks, as a rule for no longer than that.
_PAUSE = 10.0


class WorkersGoneError(Exception):
    """Workers are gone, and others have to be asked."""

    def __init__(self, workers: set[str]) -> None:
        super().__init__(f"no longer at work: {sorted(workers)}")
        self.workers = workers


class Watch:
    """Checks workers during a wait."""

    def __init__(self, client: Any, workers: Collection[str]) -> None:
        self._client, self._workers = client, set(workers)
        self._paused: dict[str, float] = {}
        self._alone_since: float | None = None

    def check(self) -> None:
        """Raise WorkersGoneError if workers have died, or have taken no tasks for some time.

        ConnectionError or MemoryError when there has been no worker at all for too long.
        """
        with errors_of(self._client):
            states = self._client.run_on_scheduler(_states_of_workers)
        now = monotonic()
        running = {worker for worker, state in states.items() if state == "running"}
        if running:
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = now
        elif now - self._alone_since > PATIENCE:
            if states:
                raise MemoryError(_PAUSED.format(PATIENCE))
            raise ConnectionError(_NO_WORKERS.format(PATIENCE))
        self._paused = {
            worker: self._paused.get(worker, now) for worker in states if worker not in running
        }
        idle = {worker for worker, since in self._paused.items() if now - since > _PAUSE}
        gone = self._workers & idle | self._workers - set(states)
        if gone and running:
            raise WorkersGoneError(gone)


def _states_of_workers(dask_scheduler: Any) -> dict[str, str]:
    return {address: worker.status.name for address, worker in dask_scheduler.workers.items()}


def wait_for(client: Any, futures: list[Any], workers: Collection[str] = ()) -> None:
    """Wait until tasks have ended; WorkersGoneError when one of the workers is not there."""
    wait, watch, seconds = import_module("distributed").wait, Watch(client, workers), GLANCE
    while True:
        with errors_of(client):
            try:
                wait(futures, timeout=seconds)
                return
            except TimeoutError:
                pass
        watch.check()
        seconds = min(2 * seconds, _LONGEST_GLANCE)


def wait_for_bound(client: Any, futures: list[Any], workers: Collection[str]) -> None:
    """Wait until tasks that are bound to workers have ended, then unbind them.

    Idle workers do not steal bound tasks, which would copy their rows. Unbound ones can be made
    again anywhere when a worker dies, now or later.
    """
    with suppress(WorkersGoneError):
        wait_for(client, futures, {worker for worker in workers if worker})
    with errors_of(client):
        client.run_on_scheduler(_unbind, keys=[future.key for future in futures])
    wait_for(client, futures)


def _unbind(keys: list[Any], dask_scheduler: Any) -> None:
    tasks = [dask_scheduler.tasks[key] for key in keys if key in dask_scheduler.tasks]
    dask_scheduler.set_restrictions({task.key: None for task in tasks})
    waiting = {task.key: "processing" for task in tasks if task.state == "no-worker"}
    if waiting:
        dask_scheduler.transitions(waiting, stimulus_id="wolfmeans-unbind")


def gathered(client: Any, futures: list[Any], workers: Collection[str]) -> list[Any]:
    """Return the results of tasks; WorkersGoneError likewise.

    A task may have ended, and its result be lost before it was sent.
    """
    watch, seconds = Watch(client, workers), GLANCE
    gather = partial(client.gather, futures, asynchronous=True)
    while True:
        with errors_of(client):
            try:
                answers: list[Any] = client.sync(gather, callback_timeout=seconds)
                return answers
            except TimeoutError:
                if any(future.status == "error" for future in futures):
                    raise  # a task's own
        watch.check()
        # Each attempt begins again, so it must get the time that it needs.
        seconds *= 2


@contextmanager
def given_up_on_error(futures: list[Any]) -> Iterator[None]:
    """Release tasks on an exception, which would keep them alive through its traceback."""
    try:
        yield
    except BaseException:
        for future in futures:
            future.release()
        raise


class errors_of:  # noqa: N801 - read as a sentence
    """Turns errors of a lost cluster, or of lost blocks, into one sentence."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def __enter__(self) -> None:
        if self._client.status not in ("running", "connecting"):
            raise ConnectionError(f"the Dask client is {self._client.status}: {_GONE}")

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None or isinstance(error, KeyboardInterrupt):
            return
        # A task may fail with an OSError of its own, for example for want of a file.
        closed = import_module("distributed").comm.CommClosedError
        lost = isinstance(error, OSError) and self._client.status != "running"
        if lost or isinstance(error, closed):
            raise ConnectionError(_GONE) from error
        if isinstance(error, (CancelledError, import_module("asyncio").CancelledError)):
            if self._client.status != "running" or "scheduler" in str(error):
                raise ConnectionError(_GONE) from error
            raise RuntimeError(_LOST) from error
        if isinstance(error, import_module("distributed").KilledWorker):
            raise RuntimeError(_KILLED) from error


_NO_WORKERS = (
    "the Dask cluster has had no workers for {:.0f} seconds; start some and fit again, with "
    "checkpoint=PATH from where it was. A LocalCluster gives up a worker that has died and does "
    "not come back within 15 seconds; dask.config.set({{'distributed.deploy.lost-worker-timeout': "
    "'600s'}}) before it is made lets it wait"
)
_PAUSED = (
    "all workers of the Dask cluster have been paused for {:.0f} seconds, because their memory is "
    "full; take more workers or ones with more memory, and fit again, with checkpoint=PATH from "
    "where it was"
)
_GONE = (
    "the Dask scheduler cannot be reached any more; nothing of this fit is left there. Connect a "
    "new Client and fit again, with checkpoint=PATH from where it was"
)
_KILLED = (
    "several workers died one after the other over the same partitions, most likely for want of "
    "memory; take smaller partitions (X.rechunk, X.repartition) or workers with more of it"
)
_LOST = (
    "blocks of X were lost with a worker and cannot be made again, because they were put on the "
    "cluster from here (client.scatter) or cancelled; load X by tasks, for example from files"
)
