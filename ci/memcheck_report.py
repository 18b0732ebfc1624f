"""Reads valgrind's XML: prints what has a frame in the engine, and exits with 1 if anything does.

CPython and the libraries that a test imports have findings of their own, which are none of ours.
"""

from __future__ import annotations

import sys
from xml.etree import ElementTree as ET

ENGINE = "/pysched/_engine/"


def main(report: str) -> int:
    """Exit status of the check."""
    found = 0
    for error in ET.parse(report).iter("error"):
        frames = error.findall("stack/frame")
        if any(ENGINE in frame.findtext("obj", "") for frame in frames):
            found += 1
            print(error.findtext("kind"), error.findtext("what") or error.findtext("xwhat/text"))
            for frame in frames:
                print("   ", frame.findtext("fn"), frame.findtext("file", ""), frame.findtext("line", ""))
    print(f"{report}: {found} findings in the engine")
    return min(found, 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
