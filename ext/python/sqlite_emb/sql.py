# SPDX-License-Identifier: MIT
"""Names and values in the texts of SQL."""

from collections.abc import Mapping
from typing import Any

import numpy as np

__all__ = ["create_table", "literal", "option", "options", "quoted"]


def create_table(
    place: str,
    vectors: Mapping[str, int],
    *,
    dtype: str,
    text_keys: bool,
    key: str,
    columns: Mapping[str, str],
    if_not_exists: bool,
    settings: Mapping[str, Any],
) -> str:
    """CREATE VIRTUAL TABLE; place is the quoted name, with its schema."""
    kind = {"float32": "FLOAT", "float16": "FLOAT16"}[dtype]
    parts = [f"{quoted(key)} {'TEXT' if text_keys else 'INTEGER'} PRIMARY KEY"]
    parts += [f"{quoted(column)} {kind}[{dim}]" for column, dim in vectors.items()]
    parts += [f"+{quoted(column)} {what}" for column, what in columns.items()]
    parts += [f"{name}={literal(value)}" for name, value in settings.items()]
    exists = "IF NOT EXISTS " if if_not_exists else ""
    return f"CREATE VIRTUAL TABLE {exists}{place} USING emb({', '.join(parts)})"


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def literal(value: Any) -> str:
    """A value in the text of CREATE VIRTUAL TABLE."""
    if isinstance(value, (bool, np.bool_)):
        return "'on'" if value else "'off'"
    return "'" + str(value).replace("'", "''") + "'"


def option(value: Any) -> str:
    """A value in a text of options."""
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    text = str(value)
    return f'"{text}"' if any(c in text for c in ', "=') else text


def options(options: Mapping[str, Any]) -> str | None:
    return ", ".join(f"{name}={option(value)}" for name, value in options.items()) or None
