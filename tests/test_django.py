"""`pysched.django`: a scheduler that a Django project starts, once in each process that serves."""

from __future__ import annotations

import atexit
import os
import pkgutil
import signal
import socket
import sys
import textwrap
import threading
from pathlib import Path

import django
import django.core.management
import psutil
import pytest
from support import WAIT, assert_quiet, in_threads, run_python, start_python, wait_until

import pysched.django
from pysched import Scheduler
from pysched.django import start_in_background


@pytest.fixture
def scheduler():
    scheduler = Scheduler(1)
    yield scheduler
    scheduler.shutdown()
    scheduler._check()


@pytest.fixture
def registered(monkeypatch):
    """What is given to `atexit.register`, which does nothing."""
    calls = []
    monkeypatch.setattr(atexit, "register", lambda *args, **kwargs: calls.append((args, kwargs)))
    return calls


def test_whether_to_register_is_a_bool(scheduler, registered):
    with pytest.raises(TypeError, match="^register_atexit must be a bool, got str$"):
        start_in_background(scheduler, "no")
    assert not scheduler.running
    assert registered == []


# One start a process and a scheduler


def test_only_the_first_call_starts_it(scheduler, registered):
    ran = threading.Event()
    scheduler.every("5ms", ran.set)
    assert [start_in_background(scheduler) for _ in range(3)] == [True, False, False]
    assert scheduler.running
    assert ran.wait(WAIT)
    assert registered == [((scheduler.shutdown,), {})]


def test_each_scheduler_is_started_for_itself(scheduler, registered):
    with Scheduler(1) as other:
        assert start_in_background(scheduler)
        assert not start_in_background(other), "the test has started it"
    third = Scheduler(1)
    assert start_in_background(third)
    third.shutdown()
    assert registered == [((scheduler.shutdown,), {}), ((third.shutdown,), {})]


def test_nothing_is_registered_if_it_is_not_to_be(scheduler, registered):
    assert start_in_background(scheduler, register_atexit=False)
    assert not start_in_background(scheduler)
    assert registered == []


def test_of_many_threads_one_starts_it(scheduler, registered):
    results = []
    in_threads(*[lambda: results.append(start_in_background(scheduler))] * 8)
    assert sorted(results) == [False] * 7 + [True]
    assert len(registered) == 1


@pytest.mark.parametrize("started", [True, False])
def test_what_was_shut_down_does_not_start_again(scheduler, registered, logged, started):
    assert not started or start_in_background(scheduler)
    scheduler.shutdown()
    assert not start_in_background(scheduler)
    assert not scheduler.running
    assert len(registered) == started
    assert [level for level, *_ in logged] == ([] if started else ["WARNING"])


def test_a_start_that_fails_is_told_and_may_be_tried_again(registered):
    class Failing:
        starts = 0

        def start_background(self):
            self.starts += 1
            if self.starts == 1:
                raise RuntimeError("no thread left")

        def shutdown(self):
            pass

    failing = Failing()
    with pytest.raises(RuntimeError, match="no thread left"):
        start_in_background(failing)
    assert registered == []
    assert [start_in_background(failing), start_in_background(failing)] == [True, False]


def test_a_scheduler_that_is_started_is_not_kept_alive_by_it():
    program = """
        import gc, weakref
        from pysched import Scheduler
        from pysched.django import _started, start_in_background
        scheduler = Scheduler()
        assert start_in_background(scheduler, register_atexit=False)
        scheduler.shutdown()
        gone = weakref.ref(scheduler)
        del scheduler
        gc.collect()
        assert gone() is None and not _started
    """
    assert_quiet(run_python(program))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_starts_it_for_itself():
    program = """
        import os, sys, threading, warnings
        warnings.filterwarnings("ignore", ".*fork.*", DeprecationWarning)
        import pysched.django
        from pysched import Scheduler
        from pysched.django import start_in_background

        scheduler = Scheduler(1)
        ran = threading.Event()
        scheduler.every("5ms", ran.set)
        assert start_in_background(scheduler)
        assert ran.wait(20)
        pysched.django._lock.acquire()  # as another thread might at the time of the fork
        if os.fork() == 0:
            assert not scheduler.running
            ran.clear()
            assert start_in_background(scheduler) and not start_in_background(scheduler)
            assert ran.wait(20)
            sys.exit(7)
        assert os.waitstatus_to_exitcode(os.wait()[1]) == 7
        pysched.django._lock.release()
        assert not start_in_background(scheduler)
        assert scheduler.running
    """
    assert_quiet(run_python(program))


def test_the_end_of_the_program_waits_for_callbacks():
    program = """
        import threading
        from pysched import Scheduler
        from pysched.django import start_in_background

        started = threading.Event()

        def callback(cancel):
            started.set()
            assert cancel.wait(20)
            print("came to its end")

        scheduler = Scheduler(1)
        scheduler.after(0, callback)
        assert start_in_background(scheduler)
        assert started.wait(20)
    """
    process = run_python(program)
    assert_quiet(process)
    assert process.stdout == "came to its end\n"


def test_it_needs_no_django():
    program = """
        import sys
        sys.modules["django"] = None
        sys.argv = ["manage.py", "migrate"]
        from pysched import Scheduler
        from pysched.django import start_in_background
        assert start_in_background(Scheduler())
    """
    assert_quiet(run_python(program))


# In a project


@pytest.fixture
def project(tmp_path):
    """A project whose ready() starts a scheduler and tells the file `told` of it, as a job of it does."""
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "__init__.py").touch()
    (tmp_path / "jobs" / "apps.py").write_text(
        textwrap.dedent("""
        import os
        from django.apps import AppConfig
        from pysched import Scheduler
        from pysched.django import start_in_background

        def tell(what):
            with open(os.path.join(os.path.dirname(__file__), "..", "told"), "a") as file:
                file.write(f"{what} {os.getpid()}\\n")

        scheduler = Scheduler(1)
        scheduler.every("50ms", tell, args=["ran"], max_runs=1)

        class JobsConfig(AppConfig):
            name = "jobs"

            def ready(self):
                tell(f"ready {start_in_background(scheduler)} {start_in_background(scheduler)}")
        """)
    )
    commands = tmp_path / "jobs" / "management" / "commands"
    commands.mkdir(parents=True)
    command = """
        from django.core.management.base import BaseCommand
        from jobs.apps import scheduler
        from pysched.django import start_in_background

        class Command(BaseCommand):
            def handle(self, *args, **options):
                print(scheduler.running, start_in_background(scheduler))
    """
    for name in ("work", "flush"):  # one of its own, and one that replaces one of Django's
        (commands / f"{name}.py").write_text(textwrap.dedent(command))
    (tmp_path / "manage.py").write_text(
        textwrap.dedent("""
        import sys
        from django.conf import settings
        from django.core.management import execute_from_command_line

        settings.configure(
            DEBUG=True, SECRET_KEY="of the test", DATABASES={}, INSTALLED_APPS=["jobs.apps.JobsConfig"],
            ROOT_URLCONF=sys.modules[__name__], USE_TZ=True,
        )
        urlpatterns = []
        execute_from_command_line()
        """)
    )
    return tmp_path


def told(project):
    """What the file of the project says, as (words, process)."""
    file = project / "told"
    lines = file.read_text().splitlines() if file.exists() else []
    return [(line.rpartition(" ")[0], int(line.rpartition(" ")[2])) for line in lines]


@pytest.mark.parametrize("command", [["check"], ["shell", "-c", "1"], ["test"], ["--version"], []], ids=str)
def test_commands_that_serve_nothing_start_nothing(project, command):
    process = run_python(str(project / "manage.py"), *command, cwd=project)
    assert process.returncode == 0, process.stderr
    assert [what for what, _ in told(project)] == ["ready False False"]


@pytest.mark.parametrize(
    ("command", "in_ready", "then"),
    [("work", "ready True False", "True False"), ("flush", "ready False False", "False True")],
)
def test_a_command_of_the_projects_own_may_start_it(project, command, in_ready, then):
    process = run_python(str(project / "manage.py"), command, cwd=project)
    assert_quiet(process)
    assert process.stdout == f"{then}\n"
    assert told(project)[0][0] == in_ready


@pytest.mark.parametrize("program", ["manage.py", "/a/manage.py", "/bin/django-admin", "/x/django/__main__.py"])
def test_the_programs_that_take_commands(monkeypatch, scheduler, registered, program):
    monkeypatch.setattr(django.apps.apps, "ready", False)
    monkeypatch.setattr(sys, "argv", [program, "migrate"])
    assert not start_in_background(scheduler)
    monkeypatch.setattr(sys, "argv", [program, "runserver", "8000", "--noreload"])
    assert start_in_background(scheduler)


@pytest.mark.parametrize("argv", [["gunicorn", "test"], ["/x/uvicorn/__main__.py", "test"], ["celery", "shell"], [""]])
def test_other_programs_start_it(monkeypatch, scheduler, registered, argv):
    monkeypatch.setattr(django.apps.apps, "ready", False)
    monkeypatch.setattr(sys, "argv", argv)
    assert start_in_background(scheduler)


def test_all_commands_of_django_are_known():
    found = set()
    for path in Path(django.__file__).parent.rglob("management/commands"):
        found |= {module.name for module in pkgutil.iter_modules([str(path)]) if not module.name.startswith("_")}
    assert "migrate" in found
    assert found - pysched.django._SERVE_NOTHING == {"runserver", "testserver"}


@pytest.mark.real_time
@pytest.mark.skipif(sys.platform == "win32", reason="needs process groups")
@pytest.mark.parametrize("reload", [True, False])
def test_under_runserver_one_process_runs_the_jobs(project, reload):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    options = [] if reload else ["--noreload"]
    process = start_python(
        str(project / "manage.py"), "runserver", address, *options, cwd=project, start_new_session=True
    )
    try:
        # The job may run before the line is written that says that it was started.
        assert wait_until(lambda: {"ran", "ready True False"} <= {what for what, _ in told(project)}), told(project)
        lines = told(project)
        [server] = psutil.Process(process.pid).children() if reload else [psutil.Process(process.pid)]
        assert [pid for what, pid in lines if what == "ran"] == [server.pid]
        assert ("ready True False", server.pid) in lines
        assert (("ready False False", process.pid) in lines) is reload
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=WAIT)
