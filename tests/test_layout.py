"""How the package is laid out: what it exports, which way its modules import, and what an import brings in."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import importlib.util
import pkgutil
import re
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from support import assert_quiet, run_python

import pysched

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "pysched"

# The names of the reference, by the module that has them; the top level has them too, but for the last.
COMMAND_NAMES = {
    "commands": {"BasicSchedulerContext", "Command", "ErrorCallback", "ScheduledCommand", "SchedulerContext"},
    "scheduler_queue": {"QueuedCommand", "TimedCommandQueue"},
    "worker": {"ErrorCallback", "SchedulerWorker"},
    "scheduler": {"CommandScheduler", "ScheduledCommand"},
    "cancellation": {"CancellationRegistry"},
}
ENGINE_NAMES = {
    *("Clock", "Engine", "EngineStats", "Lateness", "SystemClock", "TimerHandle", "TimerLimitError"),
    *("__version__", "engine_name", "preview"),
}

JOB_NAMES = {
    *("CancelToken", "Decision", "Duration", "EventName", "JobCancelled", "JobEvent", "JobInfo", "JobRun"),
    *("Scheduler", "current_run"),
}

# At import time a module imports only what stands above it here, never its own line. What a function imports
# when it is called is free: it happens later. `testing` is for users' tests; nobody imports it.
LAYERS = (
    {"refusals"},
    {"apart", "attributes", "awaitables", "current", "errors", "interpreters", "offsets", "reports", "text", "tzif"},
    {"callbacks", "zones"},
    {"clock", "lifecycle", "stats", "waiting"},
    {"_engine", "_pure"},
    {"engine"},
    {"coroutines", "events", "private_loop", "schedule", "token", "virtual_loop"},
    {"job", "job_run", "options", "schedules"},
    {"announcer", "book", "commands", "explanations", "forecast", "runner", "signals", "table", "trigger"},
    {"cancellation", "idle", "scheduler_queue", "views"},
    {"owner", "worker"},
    {"registry"},
    {"life"},
    {"scheduler"},
    {"__init__"},
    {"django", "fastapi"},
)
RANK = {module: rank for rank, layer in enumerate(LAYERS) for module in layer} | {"testing": 4}
NEVER_IMPORTED = {"testing"}

MODULES = sorted({"pysched", *(module.name for module in pkgutil.walk_packages([str(PACKAGE)], "pysched."))})


def imports_of(source: Path) -> set[str]:
    """The modules that `source` imports when it is imported: neither in functions nor for type checkers."""
    found = set()
    pending: list[ast.AST] = [ast.parse(source.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            package = ".".join(source.relative_to(ROOT).parent.parts)
            module = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            # Of `from pysched import x`, x is the module, or so we say: no value lies in our own top level.
            found |= {f"pysched.{alias.name}" for alias in node.names} if module == "pysched" else {module}
        elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            pending += node.orelse
        elif not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            pending += ast.iter_child_nodes(node)
    return found


def part(name: str) -> str | None:
    """The module or subpackage of pysched that the dotted `name` lies in."""
    return name.split(".")[1] if name.startswith("pysched.") else None


@pytest.mark.parametrize("source", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_one_way(source):
    me = source.relative_to(PACKAGE).parts[0].removesuffix(".py")
    for name in imports_of(source):
        module = part(name)
        if module is None or (module == me and source.parent != PACKAGE):
            continue  # not ours, or within a subpackage
        assert module not in NEVER_IMPORTED, f"{me} imports {name}"
        assert RANK[module] < RANK[me], f"{me} imports {name}, which is not below it"


def test_the_engine_imports_only_what_is_below_it():
    for source in [*(ROOT / "engine").glob("*.pyx"), *(ROOT / "engine").glob("*.pxd")]:
        text = source.read_text(encoding="utf-8")
        names = set(re.findall(r"^(?:from|cimport|import) (pysched\.[\w.]+)", text, re.MULTILINE))
        names |= {f"pysched.{name}" for name in re.findall(r"^from pysched c?import (\w+)$", text, re.MULTILINE)}
        for name in names:
            module = part(name)
            assert module == "_engine" or RANK[module] < RANK["_engine"], f"{source.name} imports {name}"


def test_the_modules_of_the_engine_cimport_each_other_in_one_direction():
    graph = {}
    for source in sorted((ROOT / "engine").glob("*.p[yx][xd]")):
        text = source.read_text()
        needs = set(re.findall(r"^\s*(?:from|cimport)\s+pysched\._engine\.(\w+)", text, re.MULTILINE))
        for names in re.findall(r"^\s*from\s+pysched\._engine\s+cimport\s+([\w, ]+)", text, re.MULTILINE):
            needs |= {name.strip() for name in names.split(",")}
        graph.setdefault(source.stem, set()).update(needs - {source.stem})
    assert list(TopologicalSorter(graph).static_order()), "there is no engine"  # raises CycleError


@pytest.mark.parametrize("module", MODULES)
def test_each_module_can_be_imported_alone(module):
    command = [sys.executable, "-I", "-W", "error", "-c", f"import {module}"]
    assert_quiet(subprocess.run(command, capture_output=True, text=True, timeout=60))


@pytest.mark.parametrize("engine", ["native", "pure"])
def test_an_import_brings_in_little(engine):
    """What takes long to import, or is needed by few, waits until it is used."""
    program = """
        import sys
        before = set(sys.modules)
        import pysched
        heavy = {"asyncio", "concurrent.futures.thread", "croniter", "datetime", "dateutil", "decimal", "email",
                 "logging.handlers", "multiprocessing", "pysched.testing", "socket", "subprocess", "unittest"}
        assert not heavy & (set(sys.modules) - before), heavy & set(sys.modules)
        other = {"native": "pysched._pure", "pure": "pysched._engine"}[pysched.engine_name]
        assert other not in sys.modules
    """
    assert_quiet(run_python(program, engine=engine))


def test_the_top_level_names_everything_that_is_public():
    commands = set().union(*COMMAND_NAMES.values()) - COMMAND_NAMES["cancellation"]
    assert set(pysched.__all__) == commands | ENGINE_NAMES | JOB_NAMES
    assert len(pysched.__all__) == len(set(pysched.__all__))
    assert set(pysched.__all__) <= set(dir(pysched))
    assert not {"TYPE_CHECKING", "annotations"} & set(dir(pysched))
    for name in pysched.__all__:
        assert hasattr(pysched, name)


@pytest.mark.parametrize("module", COMMAND_NAMES)
def test_the_names_of_the_reference_can_be_imported_from_its_modules(module):
    where = importlib.import_module(f"pysched.{module}")
    for name in COMMAND_NAMES[module]:
        assert getattr(where, name) is getattr(pysched, name, getattr(where, name))
        assert name in where.__all__


@pytest.mark.parametrize("engine", ["native", "pure"])
def test_the_environment_chooses_the_engine(engine):
    module = {"native": "pysched._engine", "pure": "pysched._pure"}[engine]
    program = f"import pysched, {module} as e; print(pysched.engine_name, pysched.Engine is e.Engine)"
    process = run_python(program, engine=engine)
    assert_quiet(process)
    assert process.stdout == f"{engine} True\n"


def test_native_is_the_default_and_an_unknown_engine_an_error():
    program = "import os; os.environ.pop('PYSCHED_ENGINE', None); import pysched; print(pysched.engine_name)"
    assert run_python(program).stdout == "native\n"
    process = run_python("import pysched", engine="fast")
    assert process.returncode == 1
    assert process.stderr.splitlines()[-1].startswith("ValueError:")
    assert "PYSCHED_ENGINE" in process.stderr.splitlines()[-1]


def test_a_native_engine_that_cannot_be_imported_is_never_replaced():
    program = "import sys; sys.modules['pysched._engine'] = None; import pysched"
    process = run_python(program, engine="native")
    assert process.returncode == 1
    assert "pysched._engine" in process.stderr.splitlines()[-1]


def test_the_version_is_the_same_everywhere():
    declared = re.search(r'^version = "([^"]+)"', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert declared is not None
    assert pysched.__version__ == declared[1] == importlib.metadata.version("pysched")
    assert f"## {pysched.__version__}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.fixture
def unbuilt(tmp_path):
    """A clone in which nothing was built."""
    for path in PACKAGE.rglob("*.py"):
        copy = tmp_path / "clone" / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    return tmp_path / "clone"


def test_where_nothing_is_built_the_import_says_so_in_words(unbuilt):
    """Python looks there first when it is started there, so this also hides what is installed."""
    process = run_python("import pysched", engine="native", cwd=unbuilt)
    assert process.returncode == 1
    said = process.stderr.splitlines()
    assert "ModuleNotFoundError: No module named 'pysched._engine.fork'" in said  # what it is chained to
    [words] = [line for line in said if line.startswith("ImportError: ")]
    told = ("is not built", str(unbuilt), "leave the folder", "ci/demo", "pip install -e .", "PYSCHED_ENGINE=pure")
    assert [text for text in told if text not in words] == []
    assert said[-1] == words


def test_where_nothing_is_built_the_twin_works(unbuilt):
    process = run_python("import pysched; print(pysched.__file__)", engine="pure", cwd=unbuilt)
    assert_quiet(process)
    assert process.stdout.strip() == str(unbuilt / "pysched" / "__init__.py")


def test_what_else_is_missing_is_told_as_it_is(unbuilt):
    (unbuilt / "pysched" / "_engine" / "fork.py").write_text("import missing_altogether\n", encoding="utf-8")
    process = run_python("import pysched", engine="native", cwd=unbuilt)
    assert process.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'missing_altogether'"
