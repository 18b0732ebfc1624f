"""A RecursionError is a RuntimeError, and a signal handler may raise one: neither is taken for a refusal."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace

import pytest
from support import assert_quiet, run_python

import pysched
from pysched.coroutines import SHUT_DOWN, CoroutineCall, Coroutines
from pysched.private_loop import PrivateLoop
from pysched.refusals import raised_here
from pysched.waiting import Waiters

PACKAGE = Path(pysched.__file__).parent

# Handlers of RuntimeError that may take any for what it is not, and why.
HARMLESS = {
    ("worker.py", "_started"),  # it polls instead, and tries again after the next command
}


class HandlerError(RuntimeError):
    """Of a signal handler of the user's."""


class Loop:
    """A loop that raises `error` when something is asked of it."""

    def __init__(self, error, closed):
        self.error = error
        self.is_closed = iter([False, closed]).__next__

    def call_soon_threadsafe(self, *_):
        raise self.error

    def stop(self):
        pass


def cancel(loop):
    """A loop that is open when `cancel` looks, and then as it says."""
    coroutines = Coroutines(None, lambda: "jobs", loop, Waiters())
    call = CoroutineCall(SimpleNamespace(close=lambda: None), "call", lambda error: None)
    call.lane = SimpleNamespace(loop=loop, ask=lambda *_: loop.call_soon_threadsafe())
    coroutines.calls[call] = None
    coroutines.cancel(call, SHUT_DOWN)


def stop_when_idle(loop):
    assert not loop.is_closed()
    PrivateLoop.stop_when_idle(SimpleNamespace(loop=loop))


@pytest.mark.parametrize("ask", [cancel, stop_when_idle])
@pytest.mark.parametrize(
    ("error", "closed"),
    [(RecursionError(), False), (RecursionError(), True), (HandlerError(), True), (RuntimeError("other"), False)],
)
def test_only_a_loop_that_is_closed_refuses(ask, error, closed):
    with pytest.raises(type(error)):
        ask(Loop(error, closed))


@pytest.mark.parametrize("ask", [cancel, stop_when_idle])
def test_a_loop_that_was_closed_meanwhile_is_asked_in_vain(ask):
    ask(Loop(RuntimeError("Event loop is closed"), closed=True))


def test_what_is_raised_in_a_function_of_python_was_not_raised_here():
    def handler():
        raise RuntimeError

    changing = {1: 1}
    keys = iter(changing)
    changing[2] = 2
    for function, arguments, expected in ((next, (keys,), True), (handler, (), False)):
        try:
            function(*arguments)
        except RuntimeError as error:
            assert raised_here(error) is expected
        else:
            pytest.fail("nothing was raised")


def test_at_the_recursion_limit_a_shutdown_raises_or_cancels(engine_name):
    """Also where it is deep down that the loop is told."""
    process = run_python(
        """
        import asyncio, sys, threading
        from pysched import Scheduler

        class Calls(list):
            async def __call__(self):
                self.append("begun")
                try:
                    await asyncio.sleep(1000)
                finally:
                    self.append("ended")

        def deep(left):
            return deep(left - 1) if left else scheduler._runner.cancel_all()

        async def until(predicate):
            while not predicate():
                await asyncio.sleep(0.001)

        async def main():
            # On the loop's own thread: what was cancelled in vain stays, as nothing else wakes the lane.
            raised = 0
            scheduler.start_background()
            for depth in range(sys.getrecursionlimit() - 120, sys.getrecursionlimit(), 2):
                calls = Calls()
                scheduler.after(0, calls)
                await until(lambda: calls)
                try:
                    deep(depth)
                except RecursionError:
                    raised += 1
                    scheduler._runner.cancel_all()
                await asyncio.wait_for(until(lambda: len(calls) == 2), 10)
            assert 0 < raised < 60, raised

        scheduler = Scheduler(timezone="UTC")
        asyncio.run(main())
        scheduler.shutdown()
        """,
        engine=engine_name,
        timeout=60,
    )
    assert_quiet(process)


def handlers():
    """Each handler of a RuntimeError in the package, with its function; `suppress` is none that can be asked."""
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert "suppress(RuntimeError" not in path.read_text(encoding="utf-8"), path
        for function in ast.walk(tree):
            if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            for tried in ast.walk(function):
                if isinstance(tried, ast.Try):
                    for place, handler in enumerate(tried.handlers):
                        if handler.type is not None and "RuntimeError" in ast.unparse(handler.type):
                            yield path.relative_to(PACKAGE), function.name, tried.handlers[:place], handler


def test_every_handler_tells_the_two_apart():
    seen = 0
    for path, function, before, handler in handlers():
        seen += 1
        if (str(path), function) in HARMLESS:
            continue
        first = any("RecursionError" in ast.unparse(each.type) for each in before if each.type is not None)
        asked = any(name in ast.unparse(handler) for name in ("raised_here(", "says_closed(", "is_refusal("))
        assert first or asked, f"{path}: {function}"
    assert seen > 5
