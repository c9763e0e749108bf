# SPDX-License-Identifier: MIT
"""Prints the platform tag of a wheel that contains a shared library.

    python3 platform_tag.py emb.so        prints manylinux_2_34_x86_64

The tag names the oldest glibc that has all symbols which the library needs, as
readelf shows them.  Refuses a library that needs any other library than those of
glibc, because a wheel for every distribution must not.
"""

import re
import subprocess
import sys

ALLOWED = {"libc.so.6", "libm.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2"}
MACHINES = {"Advanced Micro Devices X86-64": "x86_64"}


def readelf(option: str, path: str) -> str:
    """What readelf prints, in English."""
    return subprocess.run(
        ["readelf", "-W", option, path],
        check=True,
        capture_output=True,
        text=True,
        env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"},
    ).stdout


def check_libraries(path: str) -> None:
    """Exits if the library needs one that is not allowed."""
    needed = re.findall(r"\(NEEDED\) .*\[(.+)\]", readelf("-d", path))
    others = sorted(set(needed) - ALLOWED)
    if others:
        sys.exit(f"{path} needs {', '.join(others)}: link them statically")


def machine(path: str) -> str:
    """The processor, as a tag names it."""
    found = re.search(r"Machine: +(.+)", readelf("-h", path))
    name = found[1].strip() if found else "unknown"
    if name not in MACHINES:
        sys.exit(f"{path} is for the processor {name}: emb supports x86-64 only")
    return MACHINES[name]


def glibc(path: str) -> tuple[int, int]:
    """The newest version of glibc that one of the needed symbols has."""
    versions = re.findall(r"Name: GLIBC_(\d+)\.(\d+)", readelf("-V", path))
    if not versions:
        sys.exit(f"{path} needs no symbol of glibc: is it a stub?")
    return max((int(major), int(minor)) for major, minor in versions)


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: platform_tag.py LIBRARY")
    path = sys.argv[1]
    check_libraries(path)
    major, minor = glibc(path)
    print(f"manylinux_{major}_{minor}_{machine(path)}")


if __name__ == "__main__":
    main()
