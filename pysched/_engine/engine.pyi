from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Executor
from types import TracebackType
from typing import Any, Protocol, SupportsFloat, SupportsIndex, TypeAlias, type_check_only

from typing_extensions import Buffer, Self, TypeVarTuple, Unpack, disjoint_base

from pysched._engine.handle import TimerHandle
from pysched.clock import Clock
from pysched.stats import EngineStats

_Ts = TypeVarTuple("_Ts")
_Seconds: TypeAlias = SupportsFloat | SupportsIndex

# What is used of a `concurrent.futures.Future`.
@type_check_only
class FutureLike(Protocol):
    def cancelled(self) -> bool: ...
    def exception(self) -> BaseException | None: ...
    def add_done_callback(self, fn: Callable[[Any], object], /) -> object: ...

# An executor, whether or not it is a `concurrent.futures.Executor`.
@type_check_only
class SupportsSubmit(Protocol):
    def submit(self, fn: Callable[..., Any], /, *args: Any) -> FutureLike: ...

@disjoint_base
class Engine:
    name: str
    def __init__(
        self,
        executor: Executor | SupportsSubmit | int | None = None,
        *,
        daemon: bool = False,
        clock: Clock | None = None,
        name: str = "pysched",
        on_error: Callable[[BaseException, TimerHandle], object] | None = None,
        spin: _Seconds = 0,
    ) -> None: ...
    def call_later(
        self,
        delay: _Seconds,
        callback: Callable[[Unpack[_Ts]], object],
        *args: Unpack[_Ts],
        key: Hashable | None = None,
    ) -> TimerHandle: ...
    def call_at(
        self, when: _Seconds, callback: Callable[[Unpack[_Ts]], object], *args: Unpack[_Ts], key: Hashable | None = None
    ) -> TimerHandle: ...
    def call_every(
        self,
        interval: _Seconds,
        callback: Callable[[Unpack[_Ts]], object],
        *args: Unpack[_Ts],
        delay: _Seconds | None = None,
        key: Hashable | None = None,
    ) -> TimerHandle: ...
    def call_many(
        self,
        delays: Buffer | Iterable[_Seconds],
        callback: Callable[..., object],
        args: Iterable[tuple[Any, ...]] | None = None,
    ) -> int: ...
    def cancel_key(self, key: Hashable) -> bool: ...
    def start(self) -> None: ...
    def run(self) -> None: ...
    def stop(self, timeout: _Seconds | None = None) -> bool: ...
    def wait_idle(self, timeout: _Seconds | None = None) -> bool: ...
    def time(self) -> float: ...
    @property
    def running(self) -> bool: ...
    def __len__(self) -> int: ...
    def next_deadline(self) -> float | None: ...
    def stats(self) -> EngineStats: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None: ...
    def _check(self) -> None: ...
    def _set_order(self, order: int) -> None: ...
