"""Each Python example of the README runs as it stands, and without a warning."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from support import assert_quiet, run_python

from pysched import Scheduler

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
OF_SCHEDULER, OF_COROUTINES, OF_LISTENERS, OF_ENGINE, OF_COMMANDS, OF_CLOCK = BLOCKS

# What None stands for, where the table says so instead.
TOLD_DEFAULTS = {"a short one", "the callback's", "the scheduler's", "now"}


def printed(block: str, engine: str, warning: str | None = None) -> list[str]:
    process = run_python(block, engine=engine)
    assert_quiet(process, warning=warning)
    return process.stdout.splitlines()


@pytest.mark.real_time
@pytest.mark.parametrize("engine", ["native", "pure"])
def test_the_example_of_jobs_does_what_its_words_say(engine):
    said = printed(OF_SCHEDULER, engine, "(<lambda>) timed out after 0.05 s")
    polls = said.count("poll")
    assert 1 <= polls <= 4
    assert said.count("told to end: True") == 1
    assert said[-1].endswith(" runs")


@pytest.mark.real_time
@pytest.mark.parametrize("engine", ["native", "pure"])
def test_the_example_of_coroutines_does_what_its_words_say(engine):
    [said] = printed(OF_COROUTINES, engine)
    assert said in ("1 runs", "2 runs", "3 runs", "4 runs")


@pytest.mark.real_time
@pytest.mark.parametrize("engine", ["native", "pure"])
def test_the_example_of_listeners_does_what_its_words_say(engine):
    said = printed(OF_LISTENERS, engine)
    assert said.count("error pop pop from empty list") >= 1
    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?[+-]\d\d:\d\d"
    assert [line for line in said if re.fullmatch(rf"{time} ran \(slot {time}, \d+\.\d{{6}} s late\)", line)]


@pytest.mark.real_time
@pytest.mark.parametrize("engine", ["native", "pure"])
def test_the_examples_do_what_their_words_say(engine):
    of_engine, of_commands, of_clock = (printed(block, engine) for block in (OF_ENGINE, OF_COMMANDS, OF_CLOCK))

    assert of_engine.count("once") == 1
    assert of_engine.count("session expired") == 1
    assert "replaced" not in of_engine
    assert 1 <= of_engine.count("poll") <= 3
    assert of_engine[-1].startswith("EngineStats(scheduled=1004, ")

    assert of_commands.count("once") == 1
    assert of_commands.count("again") >= 2

    assert of_clock == []


def test_the_table_of_options_names_each_with_its_default_and_what_takes_it():
    [options] = re.findall(r"^### Options of a job\n(.*?)^###", README, re.MULTILINE | re.DOTALL)
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| [^|]+ \| ([^|]+) \|", options, re.MULTILINE)
    table = {name: (methods.replace("`", ""), default.strip(" `").replace('"', "'")) for name, methods, default in rows}
    methods = {"every": Scheduler.every, "cron": Scheduler.cron, "after": Scheduler.after, "at": Scheduler.at}
    takes: dict[str, dict[str, object]] = {}
    for method, function in methods.items():
        for name, parameter in list(inspect.signature(function).parameters.items())[3:]:  # after self, when, callback
            takes.setdefault(name, {})[method] = parameter.default
    assert set(table) == set(takes)
    for name, (of, default) in table.items():
        assert of == ("all" if len(takes[name]) == 4 else ", ".join(takes[name])), name
        [real] = {repr(value) for value in takes[name].values()}
        assert default == real or (real == "None" and default in TOLD_DEFAULTS), name


@pytest.mark.parametrize("command", ["ci/demo", "ci/test"])
def test_the_commands_exist(command):
    assert (Path(__file__).parent.parent / command).stat().st_mode & 0o111
    assert command in README


SAFE_CALLS = """
    import asyncio, gc, itertools, logging, signal, threading, time
    from pysched import BasicSchedulerContext, Command, CommandScheduler, Engine

    class Nothing(Command):
        def execute(self, context):
            pass

    logging.getLogger("pysched").setLevel("ERROR")  # a start right after a stop may warn that it took it back
    engine = Engine(2)
    scheduler = CommandScheduler(BasicSchedulerContext())
    rounds = itertools.count()

    def use():
        number = next(rounds)
        handle = engine.call_later(0.001, int, key=number % 7)
        assert isinstance(handle.when(), float) and not handle.cancelled()
        engine.call_at(engine.time() + 1, int).cancel()
        engine.call_every(0.01, int, key="periodic")
        engine.call_many([0, 0.001], int)
        engine.cancel_key(number % 5)
        handle.done(), len(engine), engine.running, engine.next_deadline(), engine.stats()
        scheduler.submit(Nothing())
        scheduler.schedule(Nothing(), 0.01, key=number % 3)
        scheduler.remove(number % 2)

    def start():
        engine.start()
        scheduler.start()

    def in_a_coroutine():
        async def main():
            start()
            use()
            assert await asyncio.to_thread(engine.stop)
            await asyncio.to_thread(scheduler.stop)
        asyncio.run(main())

    def in_a_callback():
        done = threading.Event()
        refused = []
        def callback():
            use()
            start()
            for call in (engine.wait_idle, engine.run):
                try:
                    call()
                except RuntimeError:
                    refused.append(call)
            engine.stop()
            scheduler.stop()
            done.set()
        engine.call_later(0, callback)
        assert done.wait(20) and len(refused) == 2

    def in_a_signal_handler():
        handled = []
        def handler(number, frame):
            use()
            handled.append(number)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
        deadline = time.monotonic() + 20
        while len(handled) < 200 and time.monotonic() < deadline:
            use()
        signal.setitimer(signal.ITIMER_REAL, 0)
        assert len(handled) >= 200, len(handled)

    def in_a_destructor():
        class Using:
            def __del__(self):
                if over:
                    return  # one that was left: when the interpreter ends, little of anything works
                use()
                if next(rounds) % 10 == 0:
                    engine.stop()
                    scheduler.stop()
        for _ in range(50):
            start()
            engine.call_later(0, id, Using())
            engine.call_later(1, int, Using()).cancel()
            garbage = Using()
            garbage.cycle = garbage
            del garbage
            gc.collect()

    def in_other_threads():
        threads = [threading.Thread(target=lambda: [(start(), use()) for _ in range(50)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        threads = [threading.Thread(target=stop) for stop in (engine.stop, engine.stop, scheduler.stop)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    over = False
    start()
    {place}()
    over = True
    assert engine.stop(20)
    scheduler.stop(20)
    engine._check()
    assert engine.stats().errors == 0, engine.stats()
"""


@pytest.mark.real_time
@pytest.mark.parametrize("engine", ["native", "pure"])
@pytest.mark.parametrize("place", ["other_threads", "a_callback", "a_coroutine", "a_signal_handler", "a_destructor"])
def test_calls_are_safe_where_the_table_says(engine, place):
    assert_quiet(run_python(SAFE_CALLS.replace("{place}", f"in_{place}"), engine=engine))
