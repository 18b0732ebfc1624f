"""Jobs of a `Scheduler`: at intervals, by cron, once; retried, timed out and cancelled, paused, and looked at.

Run it with `python examples/basic.py`; it takes three seconds.
"""

from __future__ import annotations

import time

from pysched import CancelToken, JobRun, Scheduler, current_run

BEGAN = time.monotonic()


def say(text: str) -> None:
    print(f"{time.monotonic() - BEGAN:4.1f} s  {text}", flush=True)


def failed(error: BaseException, run: JobRun) -> None:
    """Told of each attempt that fails; without it errors are logged with their tracebacks."""
    say(f"{run.job_id} failed: {error}")


scheduler = Scheduler(max_workers=4, on_error=failed)


@scheduler.every("400ms", id="heartbeat")
def heartbeat() -> None:
    """As a decorator; the function stays what it was."""
    say("heartbeat")


@scheduler.every("10m", immediate=True, max_retries=3, retry_backoff=0.1, id="fetch")
def fetch(ctx: JobRun) -> None:
    """Fails twice, and is tried again after a wait that doubles: one run of three attempts."""
    if ctx.attempt < 3:
        raise ConnectionError(f"no route, attempt {ctx.attempt}")
    say(f"fetched at attempt {ctx.attempt}")


def download(cancel: CancelToken) -> None:
    """Takes too long. Whoever declares `cancel` is told when its time is up; nothing is interrupted."""
    while not cancel.wait(0.05):  # instead of time.sleep()
        pass
    say("download is out of time")
    cancel.raise_if_cancelled()  # ends the run; it is not retried


def greet(name: str, *, greeting: str) -> None:
    run = current_run()  # what a parameter `ctx` would get
    assert run is not None
    say(f"{greeting}, {name}, says {run.job_id}")


def main() -> None:
    scheduler.cron("* * * * * *", lambda: say("cron, each second"), seconds=True)
    nightly = scheduler.cron("30 2 * * MON-FRI", print, timezone="Europe/Paris", name="nightly report")
    scheduler.after("700ms", greet, args=["world"], kwargs={"greeting": "hello"}, id="greeter")
    scheduler.after(0, download, timeout="500ms", id="download")
    unstable = scheduler.every(1, lambda: 1 / 0, id="unstable")

    with scheduler:  # starts it, and at the end shuts it down
        time.sleep(1.4)
        scheduler.pause_job("heartbeat")
        say("heartbeat is paused")
        scheduler.remove_job(unstable)
        for job in scheduler.list_jobs():
            ran = f"{job['run_count']} runs, {job['error_count']} errors"
            print(f"        {job['name']:<15} {job['schedule']:<22} {ran}")
        print("        nightly report next on", scheduler.next_runs(nightly, 1)[0].strftime("%a %d %b, %H:%M %Z"))
        time.sleep(0.8)
        scheduler.resume_job("heartbeat")
        say("heartbeat goes on")
        time.sleep(0.8)
    say("the end")


if __name__ == "__main__":
    main()
