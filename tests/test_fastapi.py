"""`pysched.fastapi`: a scheduler that lives as long as an application. The tests speak ASGI, as servers do."""

from __future__ import annotations

import asyncio
import json
import threading
from contextlib import asynccontextmanager

import pytest
from fastapi import FastAPI, Request
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route
from support import WAIT, assert_quiet, run_python

from pysched import Scheduler
from pysched.fastapi import scheduler_lifespan


class Server:
    """What a server is to an application: `async with` starts and ends its lifespan, `get` makes a request."""

    def __init__(self, app):
        self.app = app
        self.state = {}
        self.messages = asyncio.Queue()
        self.answers = asyncio.Queue()

    async def __aenter__(self):
        scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": self.state}
        self.lifespan = asyncio.create_task(self.app(scope, self.messages.get, self.answers.put))
        await self.tell("startup")
        return self

    async def __aexit__(self, *error):
        await self.tell("shutdown")
        await self.lifespan

    async def tell(self, what):
        await self.messages.put({"type": f"lifespan.{what}"})
        answer = await asyncio.wait_for(self.answers.get(), WAIT)
        if answer["type"] != f"lifespan.{what}.complete":
            await asyncio.gather(self.lifespan, return_exceptions=True)
            raise RuntimeError(answer["message"])

    async def get(self, path):
        sent = []

        async def receive():
            return {"type": "http.request", "body": b""}

        async def send(message):
            sent.append(message)

        scope = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http"}
        scope |= {"path": path, "raw_path": path.encode(), "root_path": "", "query_string": b"", "headers": []}
        await self.app(scope | {"state": dict(self.state)}, receive, send)
        assert sent[0]["status"] == 200, sent
        return json.loads(b"".join(message.get("body", b"") for message in sent))


@pytest.fixture
def scheduler():
    scheduler = Scheduler(2)
    yield scheduler
    scheduler.shutdown()
    scheduler._check()


@pytest.fixture
def events():
    return []


@pytest.fixture
def own(scheduler, events):
    """A lifespan of the application's own, which notes whether the scheduler runs around it."""

    @asynccontextmanager
    async def own(app):
        events.append(("entered", scheduler.running))
        try:
            yield {"greeting": f"hello from {app.title}"}
        finally:
            events.append(("left", scheduler.running))

    return own


def test_jobs_run_while_the_application_serves_and_not_afterwards(scheduler):
    ran = threading.Event()
    app = FastAPI(lifespan=scheduler_lifespan(scheduler))
    app.state.scheduler = scheduler

    @app.get("/jobs")
    def jobs(request: Request):  # FastAPI keeps it for ever: it must not hold the scheduler
        assert ran.wait(WAIT)
        return [job["name"] for job in request.app.state.scheduler.list_jobs()]

    async def main():
        scheduler.every("5ms", ran.set, name="tick")
        async with Server(app) as server:
            assert scheduler.running
            assert await server.get("/jobs") == ["tick"]
        assert not scheduler.running

    asyncio.run(main())
    assert scheduler.list_jobs()[0]["running"] == 0


def test_it_starts_before_the_applications_own_lifespan_and_stops_after_it(scheduler, own, events):
    app = FastAPI(title="us", lifespan=scheduler_lifespan(scheduler, own))

    @app.get("/")
    async def greet(request: Request):
        return request.state.greeting

    async def main():
        async with Server(app) as server:
            assert events == [("entered", True)]
            assert await server.get("/") == "hello from us", "what the own lifespan yields is passed on"
        assert not scheduler.running

    asyncio.run(main())
    assert events == [("entered", True), ("left", True)]


def test_it_is_a_lifespan_for_starlette_too(scheduler):
    async def state(request):
        return JSONResponse(scheduler.running)

    app = Starlette(routes=[Route("/", state)], lifespan=scheduler_lifespan(scheduler))

    async def main():
        async with Server(app) as server:
            assert await server.get("/") is True
        assert not scheduler.running

    asyncio.run(main())


@pytest.mark.parametrize("where", ["startup", "shutdown"])
def test_the_scheduler_stops_when_the_own_lifespan_raises(scheduler, where):
    @asynccontextmanager
    async def own(app):
        if where == "startup":
            raise ZeroDivisionError("no database")
        yield
        raise ZeroDivisionError("no database")

    async def main():
        with pytest.raises(RuntimeError, match="no database"):
            async with Server(FastAPI(lifespan=scheduler_lifespan(scheduler, own))):
                assert where == "shutdown"
                assert scheduler.running
        assert not scheduler.running

    asyncio.run(main())


def test_an_error_of_the_application_reaches_the_own_lifespan_and_leaves(scheduler, own, events):
    async def main():
        with pytest.raises(ZeroDivisionError):
            async with scheduler_lifespan(scheduler, own)(FastAPI(title="us")) as state:
                assert state == {"greeting": "hello from us"}
                raise ZeroDivisionError

    asyncio.run(main())
    assert events == [("entered", True), ("left", True)]
    assert not scheduler.running


def test_the_event_loop_is_not_blocked_while_callbacks_come_to_their_end(scheduler):
    """A callback that needs the loop, to end: a shutdown on the loop's own thread would wait for it for ever."""
    started = threading.Event()
    loop = None
    results = []

    def callback():
        started.set()
        while scheduler.running:
            threading.Event().wait(0.001)
        results.append(asyncio.run_coroutine_threadsafe(asyncio.sleep(0, "from the loop"), loop).result(WAIT))

    async def main():
        nonlocal loop
        loop = asyncio.get_running_loop()
        scheduler.after(0, callback)
        async with Server(FastAPI(lifespan=scheduler_lifespan(scheduler))):
            assert await asyncio.to_thread(started.wait, WAIT)

    asyncio.run(main())
    assert results == ["from the loop"]


def test_callbacks_are_told_by_their_tokens_that_the_application_ends(scheduler):
    started, told = threading.Event(), []

    def callback(cancel):
        started.set()
        told.append(cancel.wait(WAIT))

    async def main():
        scheduler.after(0, callback)
        async with Server(FastAPI(lifespan=scheduler_lifespan(scheduler))):
            assert await asyncio.to_thread(started.wait, WAIT)

    asyncio.run(main())
    assert told == [True]


def test_a_cancelled_lifespan_stops_the_scheduler_although_nobody_waits_for_it(scheduler, monkeypatch):
    async def never(function):
        await asyncio.get_running_loop().create_future()

    async def main():
        entered = asyncio.Event()

        async def serve():
            async with scheduler_lifespan(scheduler)(None):
                entered.set()

        task = asyncio.create_task(serve())
        await entered.wait()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert not scheduler.running

    monkeypatch.setattr(asyncio, "to_thread", never)
    asyncio.run(main())


def test_a_scheduler_that_runs_already_is_left_alone(scheduler):
    async def main():
        with pytest.raises(RuntimeError, match="running already"):
            async with Server(FastAPI(lifespan=scheduler_lifespan(scheduler))):
                pass
        assert scheduler.running

    with scheduler:
        asyncio.run(main())


def test_an_application_that_is_started_again_serves_without_its_jobs(scheduler, logged):
    """A shutdown is one-way."""

    async def main():
        app = FastAPI(lifespan=scheduler_lifespan(scheduler))
        for running in (True, False):
            async with Server(app):
                assert scheduler.running is running

    asyncio.run(main())
    [(level, text, _)] = logged
    assert level == "WARNING"
    assert "does not start again" in text


def test_it_needs_neither_fastapi_nor_starlette():
    program = """
        import asyncio, sys
        sys.modules["fastapi"] = sys.modules["starlette"] = None
        from pysched import Scheduler
        from pysched.fastapi import scheduler_lifespan

        async def main():
            scheduler = Scheduler()
            async with scheduler_lifespan(scheduler)(object()) as state:
                assert state is None and scheduler.running
            assert not scheduler.running

        asyncio.run(main())
    """
    assert_quiet(run_python(program))
