"""A `Scheduler` that is started by a Django project, from `AppConfig.ready()`.

Nothing of Django is imported, neither with this module nor later: it is looked at if it is there.

    class JobsConfig(AppConfig):
        name = "jobs"

        def ready(self):
            from .schedule import scheduler

            start_in_background(scheduler)
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from pathlib import PurePath
from typing import TYPE_CHECKING
from weakref import WeakSet

from pysched.options import check_flag
from pysched.reports import logger

if TYPE_CHECKING:
    from pysched.scheduler import Scheduler

__all__ = ["start_in_background"]

# All commands that come with Django but runserver and testserver.
_SERVE_NOTHING = frozenset(
    {
        *("check", "compilemessages", "createcachetable", "dbshell", "diffsettings", "dumpdata", "flush"),
        *("help", "inspectdb", "loaddata", "makemessages", "makemigrations", "migrate", "optimizemigration"),
        *("sendtestemail", "shell", "showmigrations", "sqlflush", "sqlmigrate", "sqlsequencereset"),
        *("squashmigrations", "startapp", "startproject", "test", "version"),
        # of django.contrib
        *("changepassword", "clearsessions", "collectstatic", "createsuperuser", "findstatic", "ogrinspect"),
        "remove_stale_contenttypes",
    }
)

_lock = threading.Lock()
_started: WeakSet[Scheduler] = WeakSet()  # by this process; guarded by the lock


def start_in_background(scheduler: Scheduler, register_atexit: bool = True) -> bool:
    """Start `scheduler`, unless it has been started in this process: True only for the call that started it.

    `register_atexit`: `scheduler.shutdown` is registered with `atexit`, so that the end of the program waits for
    callbacks in progress. May be called any number of times, from any thread; after a fork the child may start the
    scheduler for itself. A scheduler that was shut down does not start again.

    Until Django is set up, so in `AppConfig.ready()`, nothing is started, and False returned, where nothing is going
    to be served: in the parent process of ``runserver``'s autoreload, whose child is the server, and in Django's
    commands for other ends, such as ``migrate``, ``shell``, ``test`` and ``check``. Commands of other names start
    it, and so does a call that comes later, from a command's own code. Every worker process of a server has a
    scheduler of its own, which runs every job.
    """
    check_flag(register_atexit, "register_atexit")
    if reason := _reason_against():
        logger().info("not started %s: %r", reason, scheduler)
        return False
    with _lock:
        if scheduler in _started:
            return False
        try:
            scheduler.start_background()
        except RecursionError:  # which says nothing of the kind
            raise
        except RuntimeError:
            if getattr(scheduler, "running", False):  # somebody else has started it
                return False
            raise
        if not getattr(scheduler, "running", True):  # it was shut down before; a stand-in of a test may not tell
            return False
        _started.add(scheduler)
    if register_atexit:
        atexit.register(scheduler.shutdown)
    return True


def _reason_against() -> str | None:
    """Why nothing should be started; None if Django is not there, or set up already, or is going to serve."""
    registry = getattr(sys.modules.get("django.apps"), "apps", None)
    if registry is None or registry.ready or not _is_management(PurePath(sys.argv[0])):
        return None
    command = sys.argv[1] if len(sys.argv) > 1 else "help"
    if command == "runserver" and os.environ.get("RUN_MAIN") != "true":
        if not any(option.startswith("--nor") for option in sys.argv[2:]):  # --noreload, or what argparse takes for it
            return "in the parent of the autoreload"
    elif command in _SERVE_NOTHING or command.startswith("-"):
        return f"by the command {command}"
    return None


def _is_management(program: PurePath) -> bool:
    """Whether that is a program whose first argument is a management command."""
    if program.name == "__main__.py":
        return program.parent.name == "django"
    return program.stem in ("manage", "django-admin")


def _after_fork_in_child() -> None:
    global _lock
    _lock = threading.Lock()  # a thread of the parent's may have held it
    _started.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
