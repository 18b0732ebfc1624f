"""Waits that signal handlers and destructors may end."""

from __future__ import annotations

import signal
import threading
import time

import pytest
from support import WAIT, in_other_thread, wait_until

from pysched.waiting import Waiters, WakeEvent


def test_an_event_is_set_until_it_is_cleared():
    event = WakeEvent()
    assert not event.is_set()
    event.set()
    event.set()
    assert event.is_set()
    assert event.wait(0)
    assert event.wait()
    event.clear()
    assert not event.is_set()
    assert not event.wait(0)


def test_a_set_before_the_wait_is_not_lost():
    event = WakeEvent()
    for _ in range(100):
        event.clear()
        event.set()
        assert event.wait(WAIT)


def test_setting_ends_a_wait_on_another_thread():
    event = WakeEvent()
    threading.Timer(0.01, event.set).start()
    assert event.wait(WAIT)


@pytest.mark.parametrize("timeout", [-1, 0, 0.001])
def test_a_wait_ends_with_its_timeout(timeout):
    assert not WakeEvent().wait(timeout)


def test_a_timeout_beyond_what_the_platform_can_wait_is_cut():
    event = WakeEvent()
    threading.Timer(0.01, event.set).start()
    assert event.wait(1e300)


def test_ping_pong_between_threads_loses_nothing():
    ping, pong = WakeEvent(), WakeEvent()

    def answer():
        for _ in range(1000):
            assert ping.wait(WAIT)
            ping.clear()
            pong.set()

    def ask():
        for _ in range(1000):
            ping.set()
            assert pong.wait(WAIT)
            pong.clear()

    thread = threading.Thread(target=answer)
    thread.start()
    ask()
    thread.join(WAIT)
    assert not thread.is_alive()


@pytest.mark.parametrize("waiting", ["event", "waiters"])
def test_a_signal_handler_may_end_the_wait_that_it_interrupts(waiting):
    event, waiters, came = WakeEvent(), Waiters(), []

    def handler(number, frame):
        came.append(number)
        event.set()
        waiters.notify()

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        main = threading.main_thread().ident
        assert main is not None
        threading.Timer(0.02, signal.pthread_kill, (main, signal.SIGUSR1)).start()
        if waiting == "event":
            assert event.wait(WAIT)
        else:
            assert waiters.wait_for(lambda: bool(came), WAIT)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_ctrl_c_ends_a_wait_and_leaves_nobody_listed():
    waiters = Waiters()
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.02, signal.pthread_kill, (main, signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        waiters.wait_for(lambda: False, WAIT)
    timer.join()
    assert not waiters


def test_who_waits_looks_first():
    asked = []
    waiters = Waiters()
    assert waiters.wait_for(lambda: not asked.append(1), 0)
    assert asked == [1]
    assert not waiters


@pytest.mark.parametrize("timeout", [0, 0.001])
def test_a_condition_that_does_not_come_about_is_false_in_time(timeout):
    begin = time.monotonic()
    assert not Waiters().wait_for(lambda: False, timeout)
    assert time.monotonic() - begin < WAIT


def test_what_the_condition_raises_is_passed_on():
    def broken():
        raise ZeroDivisionError("mine")

    waiters = Waiters()
    with pytest.raises(ZeroDivisionError, match="mine"):
        waiters.wait_for(broken, WAIT)
    assert not waiters


@pytest.mark.parametrize("timeout", [None, WAIT])
def test_every_waiter_looks_again_after_an_announcement(timeout):
    waiters, state, results = Waiters(), [], []
    threads = [
        threading.Thread(target=lambda: results.append(waiters.wait_for(lambda: bool(state), timeout)))
        for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    assert wait_until(lambda: len(waiters._semaphores) == 5)
    waiters.notify()
    waiters.notify()
    assert results == []
    state.append(1)
    waiters.notify()
    for thread in threads:
        thread.join(WAIT)
    assert results == [True] * 5
    assert not waiters


def test_announcing_to_nobody_does_nothing():
    assert in_other_thread(Waiters().notify)
