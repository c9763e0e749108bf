# SPDX-License-Identifier: MIT
"""Loads emb into the connections of SQLAlchemy, 1.4 or 2.

    Engine       The event "connect" loads emb into each new connection of the pool.
                 Connections that the pool has already get it at the event "checkout",
                 when a user takes them next; `info` of a connection's record says
                 that it has emb.
    Session      It takes another connection for each transaction, so its Engine gets emb.
    Connection   Its one connection to the database gets emb.
"""

from typing import Any

from sqlalchemy import engine, event, exc, orm

from .errors import Error

LOADED = "sqlite_emb"


def load(target: object) -> bool:
    """Loads emb into an Engine, Connection or Session; returns False for anything else.

    Raises Error if the database is not SQLite's, or cannot load emb.
    """
    if isinstance(target, orm.scoped_session):
        target = target()
    if isinstance(target, engine.Engine):
        _load_engine(target)
    elif isinstance(target, engine.Connection):
        _load_connection(target)
    elif isinstance(target, orm.Session):
        _load_session(target)
    else:
        return False
    return True


def place(target: Any) -> Any:
    """Where a table is: the path of an Engine's database, because the Engine only lends its
    connections; the driver's connection of a Connection or Session; or the target.

    Raises Error if the database is not SQLite's, or an Engine's is no file.
    """
    if isinstance(target, engine.Engine):
        _check_dialect(target)
        path = target.url.database
        if path in (None, "", ":memory:"):
            raise Error("emb: this Engine has no database file: give one of its connections")
        return path
    if isinstance(target, orm.scoped_session):
        target = target()
    if isinstance(target, orm.Session):
        target = target.connection()
    if not isinstance(target, engine.Connection):
        return target
    _check_dialect(target)
    return target.connection.dbapi_connection


def _load_engine(target: engine.Engine) -> None:
    """An Engine that cannot load emb is left as it was."""
    _check_dialect(target)
    with target.connect() as connection:
        _load_connection(connection)
    for name, listener in (("connect", _connected), ("checkout", _taken)):
        if not event.contains(target, name, listener):
            event.listen(target, name, listener)


def _load_connection(target: engine.Connection) -> None:
    _check_dialect(target)
    _load_driver(target.connection.dbapi_connection)


def _load_session(target: orm.Session) -> None:
    try:
        bind = target.get_bind()
    except exc.UnboundExecutionError as error:
        raise Error("emb: this Session has no Engine, or several; give load() the Engine"
                    ) from error
    load(bind)
    if target.in_transaction():
        _load_connection(target.connection())


def _check_dialect(target: Any) -> None:
    if target.dialect.name != "sqlite":
        raise Error(f"emb: this database is {target.dialect.name}'s, and emb extends SQLite; "
                    'create the Engine with a URL that begins with "sqlite://"')


def _connected(connection: Any, record: Any) -> None:
    _load_driver(connection)
    record.info[LOADED] = True


def _taken(connection: Any, record: Any, proxy: Any) -> None:
    if LOADED not in record.info:
        _connected(connection, record)


def _load_driver(connection: Any) -> None:
    """Loads emb into the driver's connection."""
    from .extension import load as load_driver

    try:
        load_driver(connection)
    except TypeError as error:
        raise Error("emb: this Engine uses a driver that emb does not know; "
                    'create it with a URL that begins with "sqlite://"') from error
