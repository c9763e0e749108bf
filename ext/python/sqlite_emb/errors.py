# SPDX-License-Identifier: MIT
"""The exceptions of sqlite_emb."""

import sqlite3


class Error(sqlite3.DatabaseError):
    """Anything that emb refuses."""
