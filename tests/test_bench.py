"""The bench itself: every contender does its work at a tiny size, and known measurements give the right report.

Peers that are not installed are skipped here, as the bench leaves them out.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

# The bench is no part of the package. Last, so that pysched is the one that is installed.
sys.path.append(str(Path(__file__).parent.parent))

beside, growth, measure, plots, probe, report, result, row, rows, table, together, workload = (
    importlib.import_module(f"bench.{name}")
    for name in (
        *("beside", "growth", "measure", "plots", "probe", "report", "result", "row", "rows", "table", "together"),
        "workload",
    )
)
program = importlib.import_module("bench.__main__")
idle = importlib.import_module("bench.rows.idle")
lateness = importlib.import_module("bench.rows.lateness")
pending = importlib.import_module("bench.rows.pending")
event_loop = importlib.import_module("bench.peers.event_loop")

Result, Goal, Unavailable = result.Result, result.Goal, measure.Unavailable


# Adapters: every contender of every row


def each(contenders: dict[str, Any]) -> Any:
    return pytest.mark.parametrize("contender", [pytest.param(what, id=who) for who, what in contenders.items()])


TIMED = {
    f"{one.name}-{who}": contender for one in rows.TIMED for who, contender in {**one.contenders, **one.others}.items()
}
RUNS = {**lateness.CONTENDERS, **lateness.LOOPS, **lateness.JOBS}
FILLS = {**pending.PENDING, **pending.PEERS}


def attempt(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except Unavailable as reason:
        return pytest.skip(str(reason))


@pytest.mark.real_time
@each(TIMED)
def test_an_operation_is_timed(contender: Any) -> None:
    assert attempt(lambda: measure.cost_ns(contender, 30)) > 0.0


@pytest.mark.real_time
@each(RUNS)
def test_lateness_is_one_number_a_timer(contender: Any) -> None:
    plan = workload.Plan(rate=100, seconds=0.2, pending=3)
    late = attempt(lambda: contender(plan))
    assert len(late) >= plan.count
    assert min(late) > -0.003  # uvloop counts in milliseconds


@pytest.mark.real_time
@pytest.mark.parametrize("who", rows.ROWS[-1].everyone[:5])
def test_lateness_gives_percentiles_in_order(who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lateness, "Plan", lambda rate, _seconds, pending: workload.Plan(rate, 0.1, pending // 1000))
    found = rows.ROWS[-1].numbers(who, 200)
    assert 0.0 <= found["p50"] <= found["p99"] <= found["p99.9"]
    assert found["early"] == 0.0


def test_lateness_of_who_cannot_keep_up_is_unavailable() -> None:
    measured = lateness.lateness(lambda plan: [0.0] * (plan.count - 1), lateness.alone, 0)
    with pytest.raises(Unavailable, match=r"cannot keep up: 1 of 2,000 did not run"):
        measured(1000)


@each(FILLS)
def test_pending_timers_have_a_size_and_a_pause(contender: Any) -> None:
    assert set(attempt(lambda: pending.collection(contender)(50))) == {"ms"}
    assert set(pending.memory(contender)(50)) == {"bytes"}


@pytest.mark.real_time
@pytest.mark.parametrize("who", rows.ROWS[[one.name for one in rows.ROWS].index("idle")].everyone)
def test_idle_counts_waits(who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle, "IDLE_SECONDS", 0.02)
    found = attempt(lambda: idle.ROWS[0].numbers(who, 10))
    assert found.get("wakeups", 0) == 0
    assert found["cpu_ms"] >= 0.0


def test_an_absent_peer_is_left_out_with_its_name() -> None:
    absent = event_loop.LoopPeer("no_such_module")
    one = row.timed("some", "some work", {"pysched": NOTHING, "absent": absent.register}, count=20)
    (found,) = together.measured(one, rounds=2)
    assert list(found.values) == ["pysched"]
    assert found.absent == {"absent": "no_such_module is not installed"}
    assert "(absent: no_such_module is not installed)" in table.text([found])


class Nothing:
    """An operation that does nothing."""

    def __call__(self, count: int) -> Nothing:
        return self

    def __enter__(self) -> Callable[[], None]:
        return lambda: None

    def __exit__(self, *details: object) -> None:
        pass


NOTHING = Nothing()


# A process for each side


def test_a_process_measures_one_side() -> None:
    found = probe.measure("register", "pysched", 100)
    assert found.numbers["ns"] > 0.0
    assert found.seconds > 0.0
    assert found.peak_bytes > 1_000_000


def test_the_twin_is_behind_the_whole_of_its_process() -> None:
    assert probe.measure("every", probe.TWIN, 20).numbers["ns"] > 0.0
    with pytest.raises(Unavailable, match="runs on the engine that is native"):
        importlib.import_module("bench.peers.schedulers").OURS_PURE.make()


@pytest.mark.parametrize(
    ("who", "count", "limit_s", "reason"),
    [("pysched", 10_000_000, 0.3, "took more than 0 s"), ("nobody", 1, None, "failed: KeyError: 'nobody'")],
)
def test_what_a_process_cannot_do_is_unavailable(who: str, count: int, limit_s: float | None, reason: str) -> None:
    with pytest.raises(Unavailable, match=reason):
        probe.measure("register", who, count, limit_s)


# Rounds and sizes, with processes that only pretend

ROW = row.timed("some", "some work", {"pysched": NOTHING, "peer": NOTHING}, count=100, sizes=(10, 100, 1000))
GENEROUS = beside.Limits(process_s=100.0, row_s=1000.0)


class Processes:
    """Stands for `probe.measure`: takes down who is asked, answers with what it was told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, int]] = []
        self.seconds: dict[str, float] = {}
        self.peak_bytes: dict[str, int] = {}
        self.unable: dict[tuple[str, int], str] = {}
        monkeypatch.setattr(probe, "measure", self)

    def __call__(self, row: str, who: str, count: int, limit_s: float) -> Any:
        self.asked.append((who, count))
        if (who, count) in self.unable:
            raise Unavailable(self.unable[who, count])
        return probe.Found({"ns": float(count)}, self.seconds.get(who, 0.0), self.peak_bytes.get(who, 0))


@pytest.fixture
def processes(monkeypatch: pytest.MonkeyPatch) -> Processes:
    return Processes(monkeypatch)


def test_sides_alternate_and_sizes_rise(processes: Processes) -> None:
    found = beside.measured(ROW, 2, [100, 10], GENEROUS)
    once = [("pysched", 10), ("peer", 10), ("pysched", 100), ("peer", 100)]
    assert processes.asked == once * 2
    assert [(one.title, one.values) for one in found] == [
        ("some work, 10", {"pysched": [10.0, 10.0], "peer": [10.0, 10.0]}),
        ("some work, 100", {"pysched": [100.0, 100.0], "peer": [100.0, 100.0]}),
    ]


def test_who_fails_at_a_size_is_not_asked_again(processes: Processes) -> None:
    processes.unable["peer", 100] = "cannot"
    found = beside.measured(ROW, 3, ROW.sizes, GENEROUS)
    assert [(who, count) for who, count in processes.asked if who == "peer"] == [("peer", 10), ("peer", 100)] + [
        ("peer", 10)
    ] * 2
    assert [one.absent for one in found] == [{}, {"peer": "cannot"}, {"peer": "cannot"}]
    assert [list(one.values) for one in found] == [["pysched", "peer"], ["pysched"], ["pysched"]]


def test_a_later_round_in_which_somebody_fails_does_not_count(processes: Processes) -> None:
    state = beside.Measured(ROW, [10], GENEROUS)
    state.round()
    processes.unable["peer", 10] = "is busy"
    state.round()
    del processes.unable["peer", 10]
    state.round()
    (found,) = state.results()
    assert {who: len(values) for who, values in found.values.items()} == {"pysched": 2, "peer": 2}


def test_a_size_that_pysched_cannot_do_is_told_at_the_others(processes: Processes) -> None:
    processes.unable["pysched", 1000] = "would not fit"
    found = beside.measured(ROW, 1, ROW.sizes, GENEROUS)
    assert [one.absent for one in found] == [{"pysched, 10^3": "would not fit"}] * 2
    assert ("peer", 1000) not in processes.asked


def test_what_would_take_too_long_is_left_out(processes: Processes) -> None:
    processes.seconds["peer"] = 23.0
    found = beside.measured(ROW, 1, ROW.sizes, GENEROUS)
    assert found[1].absent == {"peer": "would take about 203 s"}
    assert ("peer", 100) not in processes.asked


def test_what_would_not_fit_into_memory_is_left_out(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside.psutil, "virtual_memory", lambda: SimpleNamespace(available=8_000_000_000))
    processes.peak_bytes["peer"] = 800_000_000
    found = beside.measured(ROW, 1, ROW.sizes, GENEROUS)
    assert found[1].absent == {"peer": "would need about 8 GB"}


def test_a_row_that_does_not_grow_is_not_predicted(processes: Processes) -> None:
    processes.seconds["peer"] = 23.0
    flat = row.Row("flat", ROW.columns, ROW.contenders, sizes=(10, 100), grows=False)
    assert [one.absent for one in beside.measured(flat, 1, flat.sizes, GENEROUS)] == [{}, {}]


def test_when_time_is_short_large_sizes_get_fewer_rounds(processes: Processes, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def measured(row: str, who: str, count: int, limit_s: float) -> Any:
        now[0] += count / 10
        return processes(row, who, count, limit_s)

    monkeypatch.setattr(probe, "measure", measured)
    monkeypatch.setattr(beside, "perf_counter", lambda: now[0])
    found = beside.measured(ROW, 9, [10, 100], beside.Limits(process_s=100.0, row_s=50.0))
    # 2 s and 20 s a round: 22, 44, then 46, 48 and 50 s.
    assert [len(one.values["peer"]) for one in found] == [5, 2]


def test_the_twin_is_measured_to_some_size_only(processes: Processes) -> None:
    slow = row.timed("slow", "slow", {"pysched": NOTHING, "twin": NOTHING}, sizes=(100_000, 1_000_000))
    found = beside.measured(slow, 1, slow.sizes, GENEROUS)
    assert [list(one.values) for one in found] == [["pysched", "twin"], ["pysched"]]


# Known measurements

COST = Goal("<= 1/4 of peer", 1 / 4, "peer")


def known(values: dict[str, list[float]], count: int = 100, **more: Any) -> Any:
    return Result("some", "some work", "ns", values, count=count, size=str(count), key="ns", **more)


def test_a_ratio_is_of_one_round() -> None:
    drifting = known({"pysched": [10.0, 20.0, 300.0], "peer": [100.0, 100.0, 1000.0]}, goal=COST)
    assert drifting.ratio("peer") == (0.2, 0.1, 0.3)
    assert drifting.multiple("peer") == 5.0
    assert drifting.met is True
    assert known({"pysched": [30.0], "peer": [100.0]}, goal=COST).met is False
    assert known({"pysched": [30.0]}, goal=COST).met is None


def test_the_table_of_a_known_result() -> None:
    found = known({"pysched": [10.0], "peer": [100.0], "other": [5.0]}, goal=COST, absent={"gone": "is not there"})
    assert table.markdown([found]).splitlines()[2:] == [
        "| some work, 100 | 10 ns | peer | 100 ns | 0.10x (0.10x .. 0.10x) | <= 1/4 of peer | yes |",
        "|  |  | other | 5 ns | 2.00x (2.00x .. 2.00x) |  |  |",
        "|   (gone: is not there) |  |  |  |  |  |  |",
    ]


@pytest.mark.parametrize(("load", "busy"), [(0.3, False), (9.0, True)])
def test_a_busy_machine_is_named_as_such(load: float, busy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table.os, "getloadavg", lambda: (load, load, load), raising=False)
    facts = table.environment(["some way"])
    assert any("BUSY" in fact for fact in facts) is busy
    assert "some way" in facts


def test_growth_is_from_the_smallest_size_to_the_largest() -> None:
    small = known({"pysched": [10.0, 20.0], "peer": [1.0, 1.0], "slow": [1.0, 1.0]}, count=100)
    middle = known({"pysched": [999.0, 999.0], "peer": [9.0, 9.0]}, count=1000)
    large = known({"pysched": [20.0, 60.0], "peer": [4.0, 4.0]}, count=10_000)
    (found,) = growth.growth([small, middle, large])
    assert found.title == "growth of the cost of some work, from 100 to 10^4"
    assert found.values == {"pysched": [2.0, 3.0], "peer": [4.0, 4.0]}
    assert found.met is True
    assert growth.growth([small]) == []


def test_the_report_of_known_results(tmp_path: Path) -> None:
    small = known({"pysched": [10.0], "peer": [100.0]}, absent={"gone": "is not there"})
    reasons = {"gone": "is not there", "peer": "would take about 9 s"}
    large = known({"pysched": [10.0]}, 1000, absent=reasons, goal=COST)
    goal = known({"pysched": [30.0], "peer": [100.0], "other": [1.0]}, 10_000, goal=COST, pair=True)
    report.write(tmp_path, ["a machine"], [small, large, goal, *growth.growth([small, large])], {})
    text = (tmp_path / "results.md").read_text()
    assert "\n- a machine\n" in text
    assert "## Goals: 1 met, 1 missed\n" in text
    assert "| some work, 10000 | 30 ns | peer | 100 ns | 0.30x (0.30x .. 0.30x) | <= 1/4 of peer | NO |\n" in text
    costs = ["|  | 100 | 1000 |", "| --- | --: | --: |", "| pysched | 10 ns | 10 ns |", "| peer | 100 ns (10.00x) |  |"]
    assert "\n".join([*costs, "| rounds | 1 | 1 |\n"]) in text
    assert "Not measured: gone (is not there); peer from 1000 on (would take about 9 s).\n" in text
    assert "| growth of the cost of some work | from 100 to 10^3 | 1.00x |  |\n" in text
    record = json.loads((tmp_path / "results.json").read_text())
    assert [one["count"] for one in record["results"]] == [100, 1000, 10_000, 1000]


@pytest.mark.parametrize(
    ("count", "text"), [(1, "1"), (999, "999"), (1000, "10^3"), (20_000, "2 x 10^4"), (12_345, "12,345")]
)
def test_sizes_read_well(count: int, text: str) -> None:
    assert importlib.import_module("bench.sizes").power(count) == text


def test_every_row_is_explained() -> None:
    explained = (Path(__file__).parent.parent / "docs" / "performance.md").read_text()
    assert [one.name for one in rows.ROWS if f"`{one.name}`" not in explained] == []


# Plots


def test_a_plot_for_what_has_several_sizes(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    several = [known({"pysched": [10.0], "peer": [100.0]}, count) for count in (100, 1000)]
    alone = Result("alone", "alone", "ns", {"pysched": [1.0]}, count=5, size="5", key="ns")
    assert plots.draw(tmp_path, [*several, alone]) == {"some work": tmp_path / "some.svg"}
    picture = (tmp_path / "some.svg").read_text()
    assert "some work" in picture
    assert len(picture) < 30_000


def test_a_plot_of_a_steady_load(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    seconds = [
        {"at_s": at, "runs_per_s": 100, "missed": 0, "cpu": 0.5, "p50_us": 10.0, "p99_us": 200.0, "rss_mb": 50.0}
        for at in (1.0, 2.0)
    ]
    plots.draw_steady(tmp_path / "steady.svg", [{"case": "engine-inline", "timers": 100, "seconds": seconds}])
    assert "engine-inline" in (tmp_path / "steady.svg").read_text()


def test_a_picture_has_its_paths_on_one_line_and_two_decimals() -> None:
    assert plots.compact('<path d="M 0.123456 1 \nL 2 10.5 \n"/>\n') == '<path d="M 0.12 1L 2 10.5"/>\n'


def test_without_matplotlib_there_is_a_report_and_no_plot(
    tmp_path: Path, processes: Processes, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    program.main(["--peers", "--only", "bulk", "--sizes", "10", "100", "--output", str(tmp_path)])
    assert "no plots: matplotlib is not installed" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["results.json", "results.md"]


# The program


def test_the_program_from_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--peers", "--quick", "--only", "bulk", "--sizes", "100", "--output", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "results.json").read_text())["results"]
    assert [(one["row"], one["count"]) for one in found] == [("bulk", 100)]
    assert {"pysched", "heapq.heapify", "twin"} <= set(found[0]["middles"])
    assert "call_many" in (tmp_path / "results.md").read_text()
    assert "each side in a process of its own" in capsys.readouterr().out


def test_the_table_in_one_process(capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--quick", "--only", "cron"]) == 0
    assert "next cron fire, 10^3" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--rounds", "4"], "--rounds must be at least 5, got 4"),
        (["--sizes", "10"], "--sizes needs --peers"),
        (["--peers", "--sizes", "0"], "--sizes must be positive, got 0"),
        (["--only", "nothing"], "invalid choice: 'nothing'"),
    ],
)
def test_wrong_arguments_are_refused(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        program.main(arguments)
    assert complaint in capsys.readouterr().err
