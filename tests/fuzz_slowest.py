"""Times the texts that take longest to read; over 10 ms, in the best of many tries, is a failure (see ci/fuzz)."""

from __future__ import annotations

import sys
from time import perf_counter

from pysched import schedule
from pysched.schedule import LONGEST_TEXT, parse_cron, parse_duration, parse_zone

LIMIT_S = 0.010
TRIES = 15


def listed(items: list[str], rest: str) -> str:
    """As many of the items as an expression may have."""
    text = ""
    for item in items:
        if len(text) + len(item) + 1 + len(rest) > LONGEST_TEXT:
            break
        text += f",{item}"
    return text[1:]


RANGES = [(low, high) for low in range(59) for high in range(low + 1, 60)]
OTHERS = " * * * *"
TEXTS = {
    "wide steps": listed([f"{low}-59/{step}" for step in range(1, 60) for low in range(10)], OTHERS) + OTHERS,
    "ranges": listed([f"{low}-{high}" for low, high in RANGES], OTHERS) + OTHERS,
    "hashed parts": " ".join([f"H({low}-{low + 1}),H({low}-{low + 2})/2" for low in range(1, 6)]),
    "too many hashed parts": listed([f"H({low}-{high})" for low, high in RANGES], OTHERS) + OTHERS,
    "n-th weekdays": "0 0 * * " + listed([f"{n % 8}#{n % 5 + 1}" for n in range(500)], "0 0 * * "),
    "one word": "x" * LONGEST_TEXT,
    "far too long": "1," * 10**7,
}


def best(call: object, text: str) -> float:
    times = []
    for _ in range(TRIES):
        schedule._fields.cache_clear()
        schedule._recent.clear()
        begin = perf_counter()
        try:
            call(text)  # type: ignore[operator]
        except ValueError:
            pass
        times.append(perf_counter() - begin)
    return min(times)


def main() -> int:
    slow = False
    calls = {name: (lambda text: parse_cron(text, hashed="a job"), text) for name, text in TEXTS.items()}
    for name, text in {"digits": "9" * LONGEST_TEXT, "far too long": "1h" * 10**7}.items():
        calls[f"duration: {name}"] = (lambda text: parse_duration(text, "interval"), text)
    for name, text in {"nested": "a/" * 127 + "b", "far too long": "a/" * 10**7}.items():
        calls[f"zone: {name}"] = (lambda text: parse_zone(text), text)
    for name, (call, text) in calls.items():
        taken = best(call, text)
        print(f"{name:24} {taken * 1000:8.3f} ms")
        slow = slow or taken > LIMIT_S
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
