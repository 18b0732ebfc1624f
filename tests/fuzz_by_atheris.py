"""Fuzzes one reader of text by atheris, which is guided by what each input covers (see ci/fuzz).

Usage: fuzz_by_atheris.py READER RUNS. Ends with status 0 after so many runs; an input that breaks a promise ends it at
once, is printed, and is kept in build/.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import atheris  # type: ignore[import-not-found]

with atheris.instrument_imports(include=["pysched"]):
    import fuzzing

from test_fuzz_parsers import COMPILED

SEEDS = {
    "duration": ["250ms", "1h30m", "1d2h3m4s5ms", " 10s "],
    "cron": ["*/5 9-17 1,15 JAN-MAR mon-fri", "0 0 L * 5#2", "H H(2-5)/2 * * 7", "@daily", "0 0 29 2 */8"],
    "six": ["*/5 0 9-17 1,15 * *", "@hourly", "H 0 0 L 2 1#5"],
    "zone": ["UTC", "Europe/Berlin", "a/b", "../x"],
    "setting": ["EST5EDT,M3.2.0,M11.1.0", ":<-03>3<-02>,M3.5.0/-1,M10.5.0/0", "AAA-1BBB-3,J100,J300", "AAA24"],
    "file": [],
}


def check(reader: str, data: bytes) -> None:
    if reader == "file":
        fuzzing.check_zone_file(data)
        return
    text = data.decode("utf-8", "surrogateescape")
    if reader == "duration":
        fuzzing.check_duration(text)
    elif reader == "zone":
        fuzzing.check_zone(text)
    elif reader == "setting":
        fuzzing.check_setting(text)
    else:
        fuzzing.check_cron(text, seconds=reader == "six", hashed="a job")


def main() -> None:
    reader, runs = sys.argv[1:]
    seeds = COMPILED if reader == "file" else [seed.encode() for seed in SEEDS[reader]]
    kept = Path(__file__).parent.parent / "build" / f"fuzz-{reader}"
    # Removed before, not after: atheris ends the process when the runs are over.
    corpus = kept.with_suffix(".seeds")
    shutil.rmtree(corpus, ignore_errors=True)
    corpus.mkdir(parents=True)
    for number, seed in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    options = [
        f"-atheris_runs={runs}",
        "-seed=1",
        "-timeout=10",
        "-verbosity=0",
        f"-artifact_prefix={kept}-",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus)], lambda data: check(reader, data))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
