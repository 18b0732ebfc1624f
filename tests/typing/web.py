"""The helpers for web frameworks as a typed application uses them. Not run: mypy --strict checks it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from pysched.django import start_in_background
from pysched.fastapi import scheduler_lifespan

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from pysched import Scheduler


class App:
    """Stands for FastAPI or Starlette."""

    def __init__(self, lifespan: Callable[[App], AbstractAsyncContextManager[dict[str, Any] | None]]) -> None:
        self.lifespan = lifespan


@asynccontextmanager
async def stateless(app: App) -> AsyncIterator[None]:
    yield


@asynccontextmanager
async def stateful(app: App) -> AsyncIterator[dict[str, Any]]:
    yield {"database": None}


def applications(scheduler: Scheduler) -> list[App]:
    return [
        App(scheduler_lifespan(scheduler)),
        App(scheduler_lifespan(scheduler, None)),
        App(scheduler_lifespan(scheduler, stateless)),
        App(scheduler_lifespan(scheduler, app_lifespan=stateful)),
    ]


async def state(scheduler: Scheduler, app: App) -> dict[str, Any]:
    async with scheduler_lifespan(scheduler, stateful)(app) as state:
        return state


def project(scheduler: Scheduler) -> bool:
    return start_in_background(scheduler) or start_in_background(scheduler, register_atexit=False)
