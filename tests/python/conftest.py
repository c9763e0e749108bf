# SPDX-License-Identifier: MIT
"""The frame of the tests: fixtures that they share, and the sums that run.tcl adds up."""

import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest

import sqlite_emb

if not Path(sqlite_emb.__file__).is_relative_to(sys.prefix):
    pytest.exit(f"{sqlite_emb.__file__} is not the installed package", returncode=2)


@pytest.fixture
def db(tmp_path: Path) -> Any:
    """A connection with emb to a new database, tmp_path/test.db."""
    connection = sqlite_emb.load(sqlite3.connect(tmp_path / "test.db"))
    yield connection
    connection.close()


def pytest_unconfigure(config: pytest.Config) -> None:
    """The last line, in the form of all suites."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:
        return
    counts = {name: len(reports) for name, reports in reporter.stats.items()}
    failed = counts.get("failed", 0) + counts.get("error", 0)
    line = f"{counts.get('passed', 0)} passed, {failed} failed"
    if counts.get("skipped"):
        line += f", {counts['skipped']} skipped"
    print(line, flush=True)
