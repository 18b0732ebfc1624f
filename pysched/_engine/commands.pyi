from collections.abc import Callable, Hashable
from typing import Any, Protocol, SupportsFloat, SupportsIndex, TypeAlias, type_check_only

from typing_extensions import disjoint_base

from pysched.clock import Clock

_Seconds: TypeAlias = SupportsFloat | SupportsIndex

# A command: whatever has this method. `key` and `repeat_interval_s` may be missing.
@type_check_only
class SupportsExecute(Protocol):
    def execute(self, context: Any, /) -> object: ...

@disjoint_base
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
    def submit(self, command: SupportsExecute, delay_s: _Seconds = 0.0) -> None: ...
    def schedule(
        self, command: SupportsExecute, interval_s: _Seconds, delay_s: _Seconds = 0.0, key: Hashable | None = None
    ) -> None: ...
    def remove(self, key: Hashable) -> None: ...
    def _check(self) -> None: ...
