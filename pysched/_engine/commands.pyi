from collections.abc import Callable, Hashable
from typing import Any, SupportsFloat, SupportsIndex, TypeAlias

from pysched.clock import Clock

_Seconds: TypeAlias = SupportsFloat | SupportsIndex

class CommandScheduler:
    name: str
    context: Any
    def __init__(
        self,
        context: Any = None,
        on_error: Callable[[BaseException, Any], object] | None = None,
        name: str = "scheduler",
        *,
        clock: Clock | None = None,
        max_workers: int = 1,
    ) -> None: ...
    def start(self) -> None: ...
    def stop(self, timeout: _Seconds | None = 2.0) -> None: ...
    def submit(self, command: Any, delay_s: _Seconds = 0.0) -> None: ...
    def schedule(
        self, command: Any, interval_s: _Seconds, delay_s: _Seconds = 0.0, key: Hashable | None = None
    ) -> None: ...
    def remove(self, key: Hashable) -> None: ...
    def _check(self) -> None: ...
