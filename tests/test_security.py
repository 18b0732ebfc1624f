"""What SECURITY.md says of the package, and that its limits hold."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from support import assert_quiet, nothing, run_python

from pysched import preview
from pysched.schedule import parse_duration

ROOT = Path(__file__).parent.parent

FORBIDDEN_MODULES = {
    *("pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "copyreg"),
    *("subprocess", "socket", "ssl", "http", "urllib", "ftplib", "smtplib", "ctypes", "runpy", "code", "codeop"),
}
"""What would read state back from bytes, run text, or reach out of the process; `ctypes` but in signals.py."""
FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__", "execfile"}
MAY_USE = {("signals.py", "ctypes")}
CODE = ["__import__('os').system('x')", "{0.__class__}", "%s%n", "1" * 10_000, "1" * 5000 + "s"]
PYTHON = sorted((ROOT / "pysched").rglob("*.py"))
COMPILED = sorted([*(ROOT / "engine").glob("*.pyx"), *(ROOT / "engine").glob("*.pxd")])


@pytest.mark.parametrize("source", PYTHON, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_no_module_unpickles_runs_text_or_leaves_the_process(source):
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        modules = set()
        if isinstance(node, ast.Import):
            modules = {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            modules = {(node.module or "").split(".")[0]}
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in FORBIDDEN_CALLS, f"line {node.lineno} calls {node.func.id}"
        found = {module for module in modules & FORBIDDEN_MODULES if (source.name, module) not in MAY_USE}
        assert not found, f"it imports {found}"


@pytest.mark.parametrize("source", COMPILED, ids=lambda path: path.name)
def test_no_compiled_module_does(source):
    text = re.sub(r'""".*?"""|#[^\n]*', "", source.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert not re.findall(rf"(?<![\w.])(?:{'|'.join(FORBIDDEN_CALLS)})\(", text)
    imported = re.findall(r"^\s*(?:from|c?import)\s+(\w+)", text, re.MULTILINE)
    assert not set(imported) & FORBIDDEN_MODULES


def test_what_is_looked_for_would_be_found():
    """The same look at a module that does it all."""
    text = "import pickle\nfrom subprocess import run\neval('1')\n"
    nodes = list(ast.walk(ast.parse(text)))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    names |= {node.func.id for node in nodes if isinstance(node, ast.Call)}
    assert names == {"pickle", "subprocess", "eval"}
    assert names <= FORBIDDEN_MODULES | FORBIDDEN_CALLS


def test_nothing_can_be_pickled_that_runs(make_engine, make_scheduler, impl):
    import pickle

    for made in (make_engine(), make_scheduler(), impl.CommandScheduler()):
        with pytest.raises(TypeError, match="pickle"):
            pickle.dumps(made)


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "UTC\0", "", "a" * 10_000, "\ud800", ".", "~"])
def test_a_name_of_a_zone_leads_to_no_file(make_scheduler, name):
    scheduler = make_scheduler()
    with pytest.raises(ValueError, match="timezone"):
        scheduler.cron("* * * * *", nothing, timezone=name)
    assert len(scheduler) == 0


@pytest.mark.parametrize(
    "text", ["__import__('os').system('x')", "{0.__class__}", "%s%n", "1" * 10_000, "1" * 5000 + "s"]
)
def test_texts_that_look_like_code_are_only_refused(make_scheduler, text):
    scheduler = make_scheduler()
    with pytest.raises(ValueError, match="expression"):
        scheduler.cron(text, nothing)
    with pytest.raises(ValueError, match="interval"):
        scheduler.every(text, nothing)
    with pytest.raises(ValueError, match="expression"):
        preview(text, 1)
    with pytest.raises(ValueError, match=r"^x "):
        parse_duration(text, "x")


@pytest.mark.parametrize("text", ["../x", "a\nb", "\ud800", "x" * 10_000, "%s", "{}", "__class__"])
def test_ids_are_only_compared(scheduler, clock, text):
    runs = []
    assert scheduler.every("1s", lambda: runs.append(1), id=text, name=text, tags=[text]) == text
    clock.advance(2)
    assert len(runs) == 2
    assert [info["id"] for info in scheduler.list_jobs(tag=text)] == [text]
    assert str(scheduler)
    assert scheduler.remove_job(text) is True


def test_an_import_opens_nothing_and_starts_nothing(engine_name):
    """Neither a descriptor, a thread nor a process: those come with `start`."""
    program = """
        import os, threading
        descriptors = "/proc/self/fd"
        before = set(os.listdir(descriptors)) if os.path.isdir(descriptors) else set()
        import pysched
        pysched.Scheduler(timezone="UTC").every("1s", print)
        pysched.Engine(2).call_later(1, print)
        after = set(os.listdir(descriptors)) if os.path.isdir(descriptors) else set()
        assert after == before, after - before
        assert threading.active_count() == 1
    """
    assert_quiet(run_python(program, engine=engine_name))
