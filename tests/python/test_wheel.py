# SPDX-License-Identifier: MIT
"""The wheel: what it contains, what it says of itself, and which systems can load it."""

import base64
import csv
import hashlib
import importlib.util
import io
import os
import re
import sqlite3
import struct
import subprocess
import sys
import venv
import zipfile
from collections.abc import Iterator
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest

import sqlite_emb

REPOSITORY = Path(__file__).parents[2]
SOURCE = REPOSITORY / "ext" / "python"
WHEEL = Path(os.environ["EMB_WHEEL"])
GLIBC = {"libc.so.6", "libm.so.6", "libpthread.so.0", "ld-linux-x86-64.so.2"}


def version() -> str:
    header = (REPOSITORY / "engine" / "emb.h").read_text()
    return next(line.split('"')[1] for line in header.splitlines() if "EMB_VERSION " in line)


def content(name: str) -> bytes:
    with zipfile.ZipFile(WHEEL) as wheel:
        return wheel.read(name)


def info(name: str) -> bytes:
    return content(f"sqlite_emb-{version()}.dist-info/{name}")


def metadata() -> Message:
    return message_from_bytes(info("METADATA"))


# ---- the library -------------------------------------------------------------


class Elf:
    """A shared library of 64 bits, little-endian, read by the format's description."""

    def __init__(self, data: bytes) -> None:
        assert data[:6] == b"\x7fELF\x02\x01"
        self.data = data
        self.machine = struct.unpack_from("<H", data, 18)[0]
        offset, = struct.unpack_from("<Q", data, 40)
        size, count, names = struct.unpack_from("<HHH", data, 58)
        self.sections = [
            struct.unpack_from("<IIQQQQIIQQ", data, offset + i * size) for i in range(count)
        ]
        self.names = [self.text(names, section[0]) for section in self.sections]

    def text(self, section: int, offset: int) -> str:
        start = self.sections[section][4] + offset
        return self.data[start:self.data.index(b"\0", start)].decode()

    def of_type(self, kind: int) -> tuple[int, int, int]:
        """The offset, size and table of strings of the only section of this type."""
        section, = (section for section in self.sections if section[1] == kind)
        return section[4], section[5], section[6]

    def needed(self) -> set[str]:
        """DT_NEEDED of SHT_DYNAMIC."""
        offset, size, strings = self.of_type(6)
        entries = struct.iter_unpack("<QQ", self.data[offset:offset + size])
        return {self.text(strings, value) for tag, value in entries if tag == 1}

    def needed_versions(self) -> Iterator[tuple[str, str]]:
        """Pairs of a library and a version of its symbols: SHT_GNU_verneed."""
        need, _, strings = self.of_type(0x6FFFFFFE)
        while True:
            _, count, library, first, following = struct.unpack_from("<HHIII", self.data, need)
            entry = need + first
            for _ in range(count):
                name, skip = struct.unpack_from("<8xII", self.data, entry)
                yield self.text(strings, library), self.text(strings, name)
                entry += skip
            if following == 0:
                return
            need += following

    def exported(self) -> set[str]:
        """The defined symbols of SHT_DYNSYM."""
        offset, size, strings = self.of_type(11)
        symbols = struct.iter_unpack("<IBBHQQ", self.data[offset:offset + size])
        return {self.text(strings, name) for name, _, _, section, _, _ in symbols if section}


@pytest.fixture(scope="module")
def library() -> Elf:
    return Elf(content("sqlite_emb/emb.so"))


def test_needs_glibc_only(library: Elf) -> None:
    assert library.needed() <= GLIBC
    assert {name for name, _ in library.needed_versions()} <= GLIBC


def test_tag_is_the_glibc_that_has_all_symbols(library: Elf) -> None:
    versions = [name.split("_")[1] for _, name in library.needed_versions()]
    newest = max(tuple(map(int, text.split("."))) for text in versions)[:2]
    assert library.machine == 62  # x86-64
    tag = f"py3-none-manylinux_{newest[0]}_{newest[1]}_x86_64"
    assert WHEEL.name == f"sqlite_emb-{version()}-{tag}.whl"
    assert message_from_bytes(info("WHEEL"))["Tag"] == tag


def test_shows_its_entry_points_only(library: Elf) -> None:
    assert library.exported() == {
        "sqlite3_emb_init", "sqlite3_emb_data_init", "sqlite3_emb_nofile_init"
    }


def test_is_stripped(library: Elf) -> None:
    assert [name for name in library.names if "debug" in name or name == ".symtab"] == []


def test_tag_is_refused_if_another_library_is_needed() -> None:
    needs_more = Path(sys.modules["_sqlite3"].__file__ or "")
    result = subprocess.run(
        [sys.executable, SOURCE / "platform_tag.py", needs_more],
        capture_output=True, text=True,
    )
    assert result.returncode == 1
    assert result.stderr == f"{needs_more} needs libsqlite3.so.0: link them statically\n"


# ---- the package -------------------------------------------------------------


def test_files() -> None:
    source = {
        str(path.relative_to(SOURCE))
        for path in (SOURCE / "sqlite_emb").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    about = {
        f"sqlite_emb-{version()}.dist-info/{name}"
        for name in ("LICENSE", "LICENSE.uring", "LICENSE.xxhash", "LICENSE.zstd", "METADATA",
                     "WHEEL", "RECORD", "top_level.txt")
    }
    assert "sqlite_emb/py.typed" in source and "sqlite_emb/extension.py" in source
    assert set(zipfile.ZipFile(WHEEL).namelist()) == source | about | {"sqlite_emb/emb.so"}


def test_record() -> None:
    with zipfile.ZipFile(WHEEL) as wheel:
        recorded = {row[0]: row[1] for row in csv.reader(io.StringIO(info("RECORD").decode()))}
        assert set(recorded) == set(wheel.namelist())
        for name, text in recorded.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(wheel.read(name)).digest())
            assert name.endswith("/RECORD") or text == f"sha256={digest.decode().rstrip('=')}"


def test_licences() -> None:
    assert info("LICENSE") == (REPOSITORY / "LICENSE").read_bytes()
    assert b"MIT" in info("LICENSE.uring") or b"Expat" in info("LICENSE.uring")
    assert b"Yann Collet" in info("LICENSE.xxhash")
    assert b"BSD" in info("LICENSE.zstd")


def test_metadata() -> None:
    about = metadata()
    assert about["Name"] == "sqlite-emb"
    assert about["Version"] == version()
    assert about["License"] == "MIT"
    assert about["Requires-Python"] == ">=3.11"
    assert [re.sub(r"[ ()]", "", text) for text in about.get_all("Requires-Dist", [])] == [
        "numpy>=1.22"
    ]
    assert about["Description-Content-Type"] == "text/markdown"
    assert message_from_bytes(info("WHEEL"))["Root-Is-Purelib"] == "false"


def test_version() -> None:
    db = sqlite_emb.load(sqlite3.connect(":memory:"))
    assert db.execute("SELECT emb_version()").fetchone() == (version(),)
    assert sqlite_emb.__version__ == version()


def test_page() -> None:
    """The page is the index's, so it has no links into the repository; it names all files."""
    page = (SOURCE / "README.md").read_text()
    assert str(metadata().get_payload()).strip() == page.strip()
    assert re.findall(r"\]\((?!https:)", page) == []
    left = [
        str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*")
        if path.is_file() and not {"__pycache__", ".mypy_cache"} & set(path.parts)
        and path.name not in page
    ]
    assert left == [] or left == ["README.md"]


def test_examples_of_the_page(tmp_path: Path) -> None:
    page = (SOURCE / "README.md").read_text()
    blocks = re.findall(r"```(?:python|text)\n(.*?)```", page, re.DOTALL)
    assert len(blocks) == 4
    for code, printed in zip(blocks[::2], blocks[1::2]):
        if "import torch" in code and importlib.util.find_spec("torch") is None:
            continue
        result = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True
        )
        assert (result.stderr, result.stdout) == ("", printed)


def test_nothing_is_left_in_the_source() -> None:
    for pattern in ("build", "*.egg-info", "**/*.so", "**/emb.h", "**/*.whl"):
        assert list(SOURCE.glob(pattern)) == []


def test_without_numpy(tmp_path: Path) -> None:
    """A bare environment: the module loads emb, and pip misses numpy."""
    venv.create(tmp_path / "venv", symlinks=True)
    bare = tmp_path / "venv" / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--isolated", "--python", str(bare)]
    subprocess.run([*pip, "install", "-q", "--no-index", "--no-deps", str(WHEEL)], check=True)
    result = subprocess.run(
        [bare, "-I", "-c", """
import importlib.util, sqlite3, sqlite_emb
assert importlib.util.find_spec("numpy") is None
db = sqlite_emb.load(sqlite3.connect(":memory:"))
print(db.execute("SELECT emb_to_json('[1,2]')").fetchone()[0], sqlite_emb.loadable_path())
"""],
        capture_output=True, text=True,
    )
    assert result.stderr == ""
    path = next((tmp_path / "venv").rglob("emb.so"))
    assert result.stdout == f"[1,2] {path}\n"
    check = subprocess.run([*pip, "check"], capture_output=True, text=True)
    assert "sqlite-emb" in check.stdout and "requires numpy" in check.stdout
