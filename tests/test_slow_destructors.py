"""What a run leaves to be released may have a slow destructor: that occupies one thread, and holds up nothing else."""

from __future__ import annotations

import threading
import time

import pytest
from sample_commands import schedulers
from support import WAIT, nothing, pause, wait_until

from pysched.commands import Command


class Held:
    """A callback whose destructor waits, on the thread that ends its run, until `out` is set.

    The run does not end before `let_go` is set: when whoever registered it holds it no more, whose thread it would be
    otherwise.
    """

    def __init__(self, let_go, inside, out, in_time):
        self.let_go, self.inside, self.out, self.in_time = let_go, inside, out, in_time

    def __call__(self):
        assert self.let_go.wait(WAIT)

    def __del__(self):
        self.inside.set()
        self.in_time.append(self.out.wait(WAIT))


class Call(Command):
    """Calls `function`, which goes with it."""

    def __init__(self, function):
        self.function = function

    def execute(self, context):
        self.function()


def hold_up(call_soon):
    """Lets one of three workers be in a destructor until the other two have met; whether they did."""
    let_go, inside, out, in_time = threading.Event(), threading.Event(), threading.Event(), []
    three, two = threading.Barrier(3), threading.Barrier(2, out.set)
    for _ in range(3):  # so that all workers are there, and free
        call_soon(lambda: three.wait(WAIT))
    call_soon(Held(let_go, inside, out, in_time))
    let_go.set()
    assert inside.wait(WAIT)
    for _ in range(2):
        call_soon(lambda: two.wait(WAIT))
    assert wait_until(lambda: in_time, 2 * WAIT)
    return in_time[0]


def test_of_a_command(impl):
    with schedulers(impl) as make:
        scheduler = make(max_workers=3)
        scheduler.start()
        assert hold_up(lambda function: scheduler.submit(Call(function), 0.005))
        scheduler.stop(WAIT)
        scheduler._check()


@pytest.mark.parametrize("options", [{}, {"daemon": True}], ids=["pool", "daemon"])
class TestOfAJob:
    def test_it_occupies_one_worker(self, make_scheduler, options):
        with make_scheduler(3, **options) as scheduler:
            assert hold_up(lambda function: scheduler.after(0.005, function))
            scheduler._check()

    def test_jobs_that_leave_meanwhile_are_not_looked_for_over_and_over(self, make_scheduler, options):
        """By the time on a CPU: a thread that polls would have most of 0.3 s, unless the machine is busy."""
        let_go, inside, out, in_time = threading.Event(), threading.Event(), threading.Event(), []
        with make_scheduler(3, **options) as scheduler:
            scheduler.after(0, Held(let_go, inside, out, in_time))
            let_go.set()
            assert inside.wait(WAIT)
            for count in (2, 3):  # of daemon workers another waits for the next deadline each time
                scheduler.after(0, nothing)
                assert wait_until(lambda count=count: scheduler.stats().started == count)
            before = time.process_time()
            pause(0.3)
            used = time.process_time() - before
            out.set()
            assert wait_until(lambda: in_time == [True] and not scheduler.list_jobs())
        assert used < 0.05
