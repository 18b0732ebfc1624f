"""The programs in examples/ run to their ends, and the monitor tells the truth about outages and lost checks."""

from __future__ import annotations

import argparse
import http.server
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest
from support import assert_quiet, run_python, wait_until

EXAMPLES = Path(__file__).parent.parent / "examples"
MONITOR = str(EXAMPLES / "monitor.py")

ENGINES = ["native", "pure"]


# The programs, as a user runs them


@pytest.mark.real_time
@pytest.mark.parametrize("engine", ENGINES)
def test_usage_shows_commands_once_repeated_replaced_and_cancelled(engine):
    process = run_python(str(EXAMPLES / "usage.py"), engine=engine)
    assert_quiet(process)
    said = [line.split("s  ", 1)[1] for line in process.stdout.splitlines()]
    assert said[0] == "once, at once"
    assert said.count("once, half a second later") == 1
    assert [line[:6] for line in said if line.startswith("poll")] == ["poll 1", "poll 2", "poll 3"]
    assert "heartbeat" in said
    assert "heartbeat" not in said[said.index("no more heartbeats") :]
    assert "the final version" in said
    assert not {"a draft, never seen", "never said"} & set(said)


@pytest.mark.real_time
@pytest.mark.parametrize("engine", ENGINES)
def test_errors_shows_where_each_error_goes(engine):
    process = run_python(str(EXAMPLES / "errors.py"), engine=engine)
    assert_quiet(process)
    lines = process.stdout.splitlines()
    fetched = lines.count("beta: fetched")
    assert fetched >= 1
    assert lines == [
        "last error: ConnectionError('alpha: no route')",
        *["handler: beta raised ConnectionError('beta: no route')"] * 2,
        *["beta: fetched"] * fetched,
        "engine: error 1, ZeroDivisionError('division by zero')",
        "engine: error 2, ZeroDivisionError('division by zero')",
        "engine: 2 errors, 0 timers left",
    ]


@pytest.mark.real_time
@pytest.mark.parametrize("engine", ENGINES)
def test_basic_shows_what_jobs_can_do(engine):
    process = run_python(str(EXAMPLES / "basic.py"), engine=engine)
    assert_quiet(process, warning="job download (download) timed out after 0.5 s")
    lines = process.stdout.splitlines()
    said = [line.split("s  ", 1)[1] for line in lines if "s  " in line[:9]]
    assert [line for line in said if "fetch" in line] == [
        *(f"fetch failed: no route, attempt {attempt}" for attempt in (1, 2)),
        "fetched at attempt 3",
    ]
    assert said.count("hello, world, says greeter") == 1
    assert said.count("download is out of time") == 1
    assert "unstable failed: division by zero" in said
    assert 2 <= said.count("cron, each second") <= 4
    paused, resumed = said.index("heartbeat is paused"), said.index("heartbeat goes on")
    assert said.count("heartbeat") >= 2
    # A run that had begun before the pause may end after it.
    assert said[paused + 1 : resumed].count("heartbeat") <= 1
    assert said[-1] == "the end"
    listed = [line.split() for line in lines if "runs, " in line]
    assert [(words[0], words[-2]) for words in listed] == [
        ("heartbeat", "0"),
        ("fetch", "0"),
        ("<lambda>", "0"),
        ("nightly", "0"),
    ]
    assert re.search(r"^ +nightly report next on \w{3} \d\d \w{3}, 02:30 CES?T$", process.stdout, re.MULTILINE)


@pytest.mark.real_time
@pytest.mark.slow
@pytest.mark.parametrize("engine", ENGINES)
def test_the_monitor_finds_the_outage_and_loses_no_check(engine):
    process = run_python(MONITOR, "--seconds", 6, engine=engine)
    assert_quiet(process)
    assert "\x1b" not in process.stdout, "it is drawn once where stdout is no terminal"
    assert process.stdout.count("targets  checks") == 1
    assert re.search(r"^checks  3,000 due: .* 0 failed in themselves, 0 lost$", process.stdout, re.MULTILINE)
    assert re.search(
        r"^drill   outage found .* ms after the service went down, its end .* ms after it came back$",
        process.stdout,
        re.MULTILINE,
    )


@pytest.mark.real_time
def test_the_monitor_checks_the_targets_of_a_file(tmp_path):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler) as server:
        server.RequestHandlerClass.log_message = lambda *args: None
        threading.Thread(target=server.serve_forever, args=[0.01]).start()
        with socket.socket() as unanswered:  # bound, not listening: refuses connections
            unanswered.bind(("127.0.0.1", 0))
            up = f"http://127.0.0.1:{server.server_port}"
            down = f"http://127.0.0.1:{unanswered.getsockname()[1]}"
            file = tmp_path / "targets"
            file.write_text(f"# mine\n\n{up}/\n{up}/missing\n{down}/\n")
            options = ["--targets", file.name, "--seconds", 0.5, "--interval", 0.1]
            process = run_python(MONITOR, *options, cwd=tmp_path)
        server.shutdown()
    assert_quiet(process)
    assert re.search(rf"^{up} +2 .* DOWN since .* s, 1 of 2: status 404$", process.stdout, re.MULTILINE)
    assert re.search(rf"^{down} +1 .* DOWN since .*: Connection refused$", process.stdout, re.MULTILINE)
    assert re.search(r"^checks  15 due: .* 0 lost$", process.stdout, re.MULTILINE)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("ftp://example.org/", "targets, line 1: not an http or https URL: 'ftp://example.org/'"),
        ("http://localhost:1\nhttp://\n", "targets, line 2: not an http or https URL: 'http://'"),
        ("http://localhost:port/", "targets, line 1: "),
        ("# none\n", "targets names no targets"),
    ],
)
def test_the_monitor_refuses_a_file_that_it_cannot_use(tmp_path, content, message):
    (tmp_path / "targets").write_text(content)
    process = run_python(MONITOR, "--targets", "targets", cwd=tmp_path)
    assert process.returncode == 2
    assert message in process.stderr


@pytest.mark.real_time
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_the_table_is_drawn_over_on_a_terminal(tmp_path):
    import pty

    (tmp_path / "targets").write_text("http://127.0.0.1:9/\n")
    ours, theirs = pty.openpty()
    command = [sys.executable, MONITOR, "--targets", tmp_path / "targets", "--seconds", "1", "--interval", "0.2"]
    process = subprocess.Popen(
        command, stdout=theirs, stderr=subprocess.PIPE, text=True, env=os.environ | {"TERM": "xterm"}
    )
    os.close(theirs)
    shown = b""
    try:
        while part := os.read(ours, 4096):
            shown += part
    except OSError:
        pass  # how Linux says that the other end is closed
    os.close(ours)
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode == 0
    assert shown.count(b"\x1b[J") >= 2


@pytest.mark.real_time
@pytest.mark.skipif(sys.platform == "win32", reason="needs a signal that Windows has not")
def test_ctrl_c_ends_the_monitor_and_its_services_without_a_traceback():
    command = [sys.executable, MONITOR]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    # The main thread, the engine's loop, the drill's, and a worker: then the checks are under way.
    assert wait_until(lambda: psutil.Process(process.pid).num_threads() >= 4), "it did not start"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)  # its pipes end only when the services have ended too
    assert (process.returncode, err) == (130, "")
    assert out.count("targets  checks") == 1


# Its parts


@pytest.mark.real_time
@pytest.mark.parametrize(
    ("method", "complaint"),
    [("take_down", "was MISSED"), ("bring_back", "its end MISSED")],
)
def test_an_outage_that_is_missed_or_does_not_end_is_a_failure(monkeypatch, capsys, method, complaint):
    monkeypatch.syspath_prepend(EXAMPLES)
    import monitor
    from uptime.probe import Url
    from uptime.services import Services

    monkeypatch.setattr(Services, method, lambda self, index: None)
    options = argparse.Namespace(seconds=1.2, interval=0.2, timeout=2.0, workers=2)
    with Services(3) as services:
        assert monitor.run(options, [Url.parse(url) for url in services.urls], services) == 1
    assert complaint in capsys.readouterr().out


@pytest.fixture
def watch(monkeypatch):
    """The module of the monitor proper."""
    monkeypatch.syspath_prepend(EXAMPLES)
    import uptime.watch

    return uptime.watch


@pytest.fixture
def start_monitor(watch, engine):
    """Starts a Monitor of four targets, on two services, for five seconds, with a probe of the test's."""
    from uptime.probe import Url

    def start(probe):
        urls = [Url.parse(f"http://{host}/{page}") for page in "xy" for host in ("a.example", "b.example")]
        return watch.Monitor(engine, urls, probe, interval=1.0, seconds=5.0)

    return start


def test_all_checks_are_made_and_accounted_for(start_monitor, clock):
    from uptime.probe import Outcome

    checked = []
    monitor = start_monitor(lambda url: (checked.append((clock.time(), url.path)), Outcome(True, 0.001))[1])
    assert clock.advance(4.9) == 20
    assert [at for at, _ in checked[:4]] == [0.0, 0.25, 0.5, 0.75], "spread over the interval"
    assert monitor.finished()
    books = monitor.close()
    assert (books.planned, books.due, books.done, books.lost) == (20, 20, 20, 0)
    assert all(not service.outages for service in monitor.services.values())


def test_an_outage_lasts_from_the_first_failure_until_all_targets_answer(start_monitor, clock):
    from uptime.probe import Outcome

    def probe(url):
        return Outcome(not (url.service == "http://a.example" and 1 < clock.time() < 3.2), 0.001, "refused")

    monitor = start_monitor(probe)
    clock.advance(5)
    books = monitor.close()
    [outage] = monitor.services["http://a.example"].outages
    assert (outage.began, outage.ended, outage.reason) == (1.5, 4.0, "refused")
    assert monitor.services["http://b.example"].outages == []
    assert books.lost == 0


def test_a_slow_check_skips_slots_and_loses_none(start_monitor, clock):
    from uptime.probe import Outcome

    def probe(url):
        clock.sleep(2.6 if clock.time() == 1.0 else 0)
        return Outcome(True, 0.0)

    monitor = start_monitor(probe)
    clock.advance(10)
    books = monitor.close()
    assert books.skipped > 0
    assert (books.missing, books.lost, books.errors) == (0, 0, 0)
    assert books.done + books.skipped == books.due >= books.planned == 20


def test_a_check_that_fails_in_itself_is_told_from_one_that_found_its_target_down(start_monitor, clock, logged):
    monitor = start_monitor(lambda url: 1 / 0)
    clock.advance(5)
    books = monitor.close()
    assert (books.errors, books.done, books.lost) == (20, 0, 0)
    assert len(logged) == 20


def test_a_timer_that_is_lost_on_the_way_is_noticed(start_monitor, clock):
    from uptime.probe import Outcome

    monitor = start_monitor(lambda url: Outcome(True, 0.0))
    clock.advance(2)
    lost = monitor.services["http://a.example"].targets[0].timer
    lost.cancel()  # behind the monitor's back
    clock.advance(10)
    books = monitor.close()
    assert (books.planned, books.due, books.missing, books.lost) == (20, 18, 2, 2)


FINE = {"planned": 10, "due": 10, "missing": 0, "started": 9, "skipped": 1, "unstarted": 0, "done": 8, "errors": 1}


@pytest.mark.parametrize(
    ("entry", "lost"),
    [
        ({}, 0),
        ({"missing": 2}, 2),
        ({"due": 12}, 2),
        ({"due": 12, "unstarted": 1}, 1),
        ({"due": 12, "unstarted": 3}, 0),
        ({"due": 9}, 1),
        ({"done": 6}, 2),
        ({"done": 10}, 2),
    ],
)
def test_books_that_do_not_balance_are_lost_checks(watch, entry, lost):
    assert watch.Books(**(FINE | entry)).lost == lost
