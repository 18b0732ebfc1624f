"""`Scheduler`: executors of the user's make that do not do what they were asked to."""

from __future__ import annotations

from concurrent.futures import Executor, Future

import pytest
from support import WAIT, nothing, wait_until


class Faithless(Executor):
    """Calls what it gets at once, but for that of number `missing`: then it answers as `how` says."""

    def __init__(self, missing, how):
        self.missing, self.how = missing, how
        self.count = 0
        self.missed = None

    def submit(self, fn, /, *args, **kwargs):
        self.count += 1
        future = Future()
        if self.count != self.missing:
            future.set_result(fn(*args, **kwargs))
            return future
        self.missed = lambda: fn(*args, **kwargs)
        if self.how == "cancelled":
            future.cancel()
            future.set_running_or_notify_cancel()
        elif self.how == "failed":
            future.set_exception(OSError("no worker"))
        elif self.how == "done":
            future.set_result(None)
        return None if self.how == "no future" else future


def failing():
    raise ValueError("an attempt")


pytestmark = pytest.mark.usefixtures("logged")  # some of the errors are
ANSWERS = ["cancelled", "failed", "done", "dropped", "no future"]


@pytest.mark.parametrize("how", ANSWERS)
def test_a_tick_whose_retry_is_not_called_ends(make_scheduler, how):
    executor = Faithless(2, how)
    scheduler = make_scheduler(executor=executor, on_error=nothing)
    scheduler.after(0, failing, id="once", max_retries=1, retry_backoff=0.001)
    scheduler.every(3600, nothing, id="other")
    scheduler.start_background()
    assert wait_until(lambda: [info["id"] for info in scheduler.list_jobs()] == ["other"])
    executor.missed()  # it has changed its mind: too late
    assert executor.count == 2
    assert scheduler.shutdown(timeout=WAIT) == []


@pytest.mark.parametrize("how", [how for how in ANSWERS if how != "cancelled"])
@pytest.mark.parametrize("options", [{"max_retries": 1}, {"timeout": 3600}], ids=["retries", "timeout"])
def test_a_run_that_is_not_called_is_an_error_and_its_job_goes_on(make_scheduler, how, options):
    ran = []
    executor = Faithless(1, how)
    scheduler = make_scheduler(executor=executor, on_error=nothing)
    scheduler.every(3600, lambda: ran.append(True), id="job", immediate=True, **options)
    scheduler.start_background()
    assert wait_until(lambda: scheduler.get_job("job").error_count == 1)
    executor.missed()
    assert not ran
    if how != "no future":  # which ends the loop
        assert scheduler.run_job("job")
        assert wait_until(lambda: ran)
    assert wait_until(lambda: scheduler.get_job("job").running == 0)
