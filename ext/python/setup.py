# SPDX-License-Identifier: MIT
"""What pyproject.toml cannot say: the version and the platform of the wheel.

`make wheel` runs it in a copy of this folder, to which it adds emb.h and emb.so.
"""

import re
import subprocess
import sys
from pathlib import Path

from setuptools import Distribution, setup
from wheel.bdist_wheel import bdist_wheel

HERE = Path(__file__).resolve().parent
EMB_SO = HERE / "sqlite_emb" / "emb.so"


def version() -> str:
    """EMB_VERSION of emb.h."""
    header = HERE / "emb.h"
    if not header.exists() or not EMB_SO.exists():
        sys.exit("sqlite-emb: this folder has no emb.so; run `make wheel` in the repository")
    found = re.search(r'#define EMB_VERSION "(.+)"', header.read_text())
    if found is None:
        sys.exit(f"sqlite-emb: {header} defines no EMB_VERSION")
    return found[1]


class Wheel(bdist_wheel):
    """A wheel for any Python 3, on the systems that can load emb.so."""

    def get_tag(self) -> tuple[str, str, str]:
        tag = subprocess.run(
            [sys.executable, str(HERE / "platform_tag.py"), str(EMB_SO)],
            check=True,
            capture_output=True,
            text=True,
        )
        return "py3", "none", tag.stdout.strip()


class Binary(Distribution):
    """Has compiled code, so it is installed where such code belongs."""

    def has_ext_modules(self) -> bool:
        return True


setup(version=version(), cmdclass={"bdist_wheel": Wheel}, distclass=Binary)
