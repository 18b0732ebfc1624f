"""A `Scheduler` that lives as long as a FastAPI or Starlette application serves.

Nothing of FastAPI is imported: whatever takes a lifespan, a callable that is given the application and returns an
async context manager, takes this one.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager

    from pysched.scheduler import Scheduler

__all__ = ["scheduler_lifespan"]

App = TypeVar("App")
State = TypeVar("State")


@overload
def scheduler_lifespan(
    scheduler: Scheduler, app_lifespan: None = None
) -> Callable[[Any], AbstractAsyncContextManager[None]]: ...
@overload
def scheduler_lifespan(
    scheduler: Scheduler, app_lifespan: Callable[[App], AbstractAsyncContextManager[State]]
) -> Callable[[App], AbstractAsyncContextManager[State]]: ...
def scheduler_lifespan(
    scheduler: Scheduler, app_lifespan: Callable[[Any], AbstractAsyncContextManager[Any]] | None = None
) -> Callable[[Any], AbstractAsyncContextManager[Any]]:
    """What to give as ``FastAPI(lifespan=...)``: starts `scheduler` before the application, shuts it down after it.

    `app_lifespan` is the application's own lifespan, which runs in between: it finds the scheduler running when it
    is entered and still running when it is left. The state that it yields is passed on. Coroutines of jobs run on the
    event loop of the application. The scheduler is shut down
    also when it raises, in a thread, so that the event loop serves on while callbacks in progress come to their end.

    A shutdown is one-way: an application that is started several times in one process, in tests for instance, needs
    a new scheduler each time. Every worker process of a server has a scheduler of its own, which runs every job:
    with ``uvicorn --workers 4`` each job runs four times.

    Entering it raises RuntimeError if the scheduler is running already; it then goes on.
    """

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[Any]:
        async with scheduler:  # which captures this loop, and shuts down in a thread
            if app_lifespan is None:
                yield None
            else:
                async with app_lifespan(app) as state:
                    yield state

    return lifespan
