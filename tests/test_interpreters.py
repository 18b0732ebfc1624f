"""The interpreter itself: sub-interpreters, its options, and what looks over the shoulder of every thread."""

from __future__ import annotations

import ast
import sys
from functools import cache
from pathlib import Path

import pytest
from support import assert_quiet, run_python

import pysched

PACKAGE = Path(pysched.__file__).parent

# A program that uses a bit of everything, and prints what came of it.
PROGRAM = """
import asyncio, logging, sys, threading
from datetime import datetime, timezone
from dataclasses import dataclass

prepare = sys.argv[1] if len(sys.argv) > 1 else ""
exec(prepare)

import pysched
from pysched import BasicSchedulerContext, Command, CommandScheduler, Engine, Scheduler, preview
from pysched.testing import ManualClock

logging.getLogger("pysched").addHandler(logging.NullHandler())


def refusal(function, *args, **options):
    try:
        function(*args, **options)
    except (TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    return "accepted"


# On a clock of its own: a cron job over a change of the offset, retries, time-outs, an interval.
clock = ManualClock(datetime(2024, 3, 30, 22, tzinfo=timezone.utc))
scheduler = Scheduler(clock=clock, timezone="Europe/Berlin", on_error=lambda error, run: None)
seen = []
scheduler.cron("30 * * * *", lambda ctx: seen.append(ctx.scheduled_time.isoformat()))
scheduler.every("1h", lambda: 1 / 0, max_retries=2, id="fails")
scheduler.every("20m", lambda cancel: clock.sleep(30), timeout=10, id="slow")
scheduler.start_background()
print(clock.advance("1d"), seen[:4])
for job in scheduler.list_jobs():
    print(job["run_count"], job["error_count"], job["timeout_count"], job["last_error"])
print(scheduler.shutdown())

# With threads.
done = threading.Event()
order = []
with Engine() as engine:
    for number in range(100):
        engine.call_later(0, order.append, number)
    cancelled = engine.call_later(0, order.append, "never")
    print(cancelled.cancel() or "late")
    engine.call_later(0, done.set)
    print(done.wait(30), order[:100] == list(range(100)), engine.wait_idle(30))
for options in ({}, {"daemon": True}):
    left = threading.Semaphore(0)
    with Engine(3, **options) as engine:
        engine.call_many([0.0] * 500, left.release)
        engine.call_every(0.001, left.release)
        print(all(left.acquire(timeout=30) for _ in range(520)))


@dataclass
class Add(Command):
    amount: int

    def execute(self, context):
        context.total += self.amount


@dataclass
class Total(BasicSchedulerContext):
    total: int = 0


commands = CommandScheduler(Total())
for amount in range(10):
    commands.submit(Add(amount))
finished = threading.Event()
commands.submit(type("End", (), {"execute": lambda self, context: finished.set()})())
commands.start()
print(finished.wait(30), commands.context.total)
commands.stop()

ran = threading.Event()


async def coroutine():
    await asyncio.sleep(0)
    ran.set()


scheduler = Scheduler()
scheduler.after(0, coroutine)
scheduler.start_background()
print(ran.wait(30), scheduler.shutdown())

print([str(moment) for moment in preview("0 0 L * 5#2", 3, "UTC", datetime(2024, 1, 1, tzinfo=timezone.utc))])
print(refusal(scheduler.every, "1h 5m", print), refusal(scheduler.cron, "0 0 30 2 *", print), sep="\\n")
print(refusal(engine.call_later, -1, print), refusal(engine.call_later, "1", print), refusal(Engine, 0), sep="\\n")
"""

ABOUT = {
    "nothing": "",
    "the switch interval at its least": "sys.setswitchinterval(1e-6)",
    "the switch interval at a second": "sys.setswitchinterval(1.0)",
    "faulthandler": """
import faulthandler, tempfile
faulthandler.enable()
faulthandler.dump_traceback_later(60, exit=True)
dumps = tempfile.TemporaryFile()
over = threading.Event()
def dump():  # with the GIL: without it CPython itself may read a frame that goes, and crash
    while not over.wait(0.002):
        faulthandler.dump_traceback(dumps)
dumper = threading.Thread(target=dump, daemon=True)
dumper.start()
import atexit
def end():
    over.set()
    dumper.join()
    dumps.close()
atexit.register(end)
""",
    "a tracer": """
calls = [0]
def tracer(frame, event, arg):
    calls[0] += 1
    return tracer
threading.settrace(tracer)
sys.settrace(tracer)
""",
    "a profiler": """
calls = [0]
def profiler(frame, event, arg):
    calls[0] += 1
threading.setprofile(profiler)
sys.setprofile(profiler)
""",
}


@cache
def usual(engine):
    process = run_python(PROGRAM, engine=engine)
    assert_quiet(process)
    assert process.stdout.count("True") == 8, process.stdout
    return process.stdout


@pytest.mark.parametrize("about", ABOUT)
def test_what_watches_threads_changes_nothing(engine_name, about):
    process = run_python(PROGRAM, ABOUT[about], engine=engine_name)
    assert_quiet(process)
    assert process.stdout == usual(engine_name)


@pytest.mark.parametrize("flags", [["-X", "dev"], ["-O"], ["-OO"], ["-bb"]], ids=" ".join)
def test_options_of_the_interpreter_change_nothing(engine_name, flags):
    process = run_python(PROGRAM, engine=engine_name, flags=flags)
    assert_quiet(process)
    assert process.stdout == usual(engine_name)


def test_the_twins_say_the_same():
    assert usual("native") == usual("pure")


def test_no_assertion_carries_behaviour():
    """What `-O` takes away calls nothing, but in functions that do nothing but check; `-OO`: no docstring is read."""
    acts = (ast.Call, ast.NamedExpr, ast.Await, ast.Yield)
    for source in sorted(PACKAGE.rglob("*.py")):
        text = source.read_text(encoding="utf-8")
        assert "__doc__" not in text, source.name
        if source.name.endswith("invariants.py"):
            continue
        tree = ast.parse(text)
        checks = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and "check" in node.name]
        allowed = {id(each) for check in checks for each in ast.walk(check)}
        others = [node for node in ast.walk(tree) if isinstance(node, ast.Assert) and id(node) not in allowed]
        assert [node.lineno for node in others if any(isinstance(each, acts) for each in ast.walk(node))] == []


# Runs a program in a sub-interpreter, and prints what it raised.
IN_A_SUB_INTERPRETER = """
import sys, textwrap, time

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters

def run(program, isolated):
    program = textwrap.indent(textwrap.dedent(program), "    ")
    program = "try:\\n" + program + "\\nexcept Exception as error:\\n    print(type(error).__name__, error, sep=': ')"
    program = "import sys\\n" + program + "\\nsys.stdout.flush()"
    if sys.version_info >= (3, 13):
        interpreter = interpreters.create("isolated" if isolated else "legacy")
        failure = interpreters.exec(interpreter, program)
        assert failure is None, failure
    else:
        interpreter = interpreters.create(isolated=isolated)
        interpreters.run_string(interpreter, program)
    for _ in range(2000):  # threads that were stopped may be about to end
        try:
            return interpreters.destroy(interpreter)
        except RuntimeError:
            time.sleep(0.01)
    raise AssertionError("its threads do not end")
"""
REFUSED = (
    "ImportError: the compiled engine of pysched works in the main interpreter only; "
    "in sub-interpreters, set PYSCHED_ENGINE=pure\n"
)


def in_sub_interpreter(program, engine):
    process = run_python(IN_A_SUB_INTERPRETER + program, engine=engine)
    assert_quiet(process)
    return process.stdout


@pytest.mark.parametrize("isolated", [True, False], ids=["isolated", "legacy"])
@pytest.mark.parametrize("before", [True, False], ids=["after the main one", "before the main one"])
def test_the_compiled_engine_refuses_sub_interpreters(before, isolated):
    program = f"""
if {before}:
    import pysched
run("import pysched", {isolated})
run("import pysched._engine.heap", {isolated})
import pysched
from pysched.testing import ManualClock
clock = ManualClock()
with pysched.Engine(clock=clock) as engine:
    engine.call_later(1, print, "the main interpreter has it")
    clock.advance(1)
"""
    assert in_sub_interpreter(program, "native") == REFUSED * 2 + "the main interpreter has it\n"


@pytest.mark.parametrize("isolated", [True, False], ids=["isolated", "legacy"])
def test_the_twin_works_in_sub_interpreters(isolated):
    if isolated and sys.version_info[:2] == (3, 12):
        pytest.skip("zoneinfo of CPython 3.12 finds no datetime_CAPI in the second isolated interpreter")
    program = f"""
if {isolated}:
    import pysched
for _ in range(2):
    run('''
        import pysched
        from pysched.testing import ManualClock
        clock = ManualClock()
        scheduler = pysched.Scheduler(clock=clock, timezone="UTC")
        scheduler.cron("*/5 * * * *", lambda: print("cron"))
        scheduler.start_background()
        print(clock.advance("11m"))
        scheduler.shutdown()
    ''', {isolated})
"""
    assert in_sub_interpreter(program, "pure") == "cron\ncron\n2\n" * 2


def test_the_twin_starts_a_loop_in_a_sub_interpreter_that_has_daemon_threads():
    program = """
run('''
    import pysched, threading
    ran = threading.Event()
    for workers in (None, 2):
        with pysched.Engine(workers) as engine:
            engine.call_later(0.01, ran.set)
            print(ran.wait(20))
        ran.clear()
    scheduler = pysched.Scheduler()
    scheduler.every(0.01, ran.set)
    scheduler.start_background()
    print(ran.wait(20), scheduler.shutdown())
    for thread in threading.enumerate():
        if thread is not threading.current_thread():
            thread.join(20)
''', False)
print("it has ended")
"""
    assert in_sub_interpreter(program, "pure") == "True\nTrue\nTrue []\nit has ended\n"


def test_the_twin_says_so_in_one_that_has_none():
    program = """
run('''
    import pysched
    engine = pysched.Engine()
    engine.call_later(0.01, print, "never")
    try:
        engine.start()
    finally:
        print(engine.running, len(engine))
''', True)
"""
    out = in_sub_interpreter(program, "pure")
    assert out.startswith("False 1\nRuntimeError: ")
    assert ("daemon threads" if sys.version_info >= (3, 12) else "thread is not supported") in out
