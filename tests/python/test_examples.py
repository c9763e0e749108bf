# SPDX-License-Identifier: MIT
"""The programs of sql/examples/torch/ on few samples: tables learn what nn.Embedding learns,
also with a tenth of the memory."""

import difflib
import json
import subprocess
import sys
import xml.etree.ElementTree
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

FOLDER = Path(__file__).parents[2] / "sql" / "examples" / "torch"
FEW = ["--ratings=40000", "--clicks=20000", "--users=100000"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: Any) -> Any:
    """The folder of training.py, and what it printed."""
    out = tmp_path_factory.mktemp("training")
    command = [sys.executable, FOLDER / "training.py", out, *FEW]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return out, done.stdout


@pytest.mark.parametrize("model, steps", [("factorize", 40), ("dlrm", 20)])
@pytest.mark.parametrize("how", ["", "--part0.1"])
def test_tables_learn_what_torch_learns(trained: Any, model: str, steps: int, how: str) -> None:
    def figures(name: str) -> Any:
        return json.loads((trained[0] / f"{name}.json").read_text())

    nn, emb = figures(f"{model}_nn"), figures(model + how)
    assert len(nn["losses"]) == len(emb["losses"]) == steps
    assert emb["losses"] == pytest.approx(nn["losses"], rel=1e-3)
    assert emb["held_out"] == pytest.approx(nn["held_out"], rel=1e-3)
    assert sum(emb["losses"][-5:]) < 0.97 * sum(emb["losses"][:5])


def test_the_output_and_the_picture(trained: Any) -> None:
    out, text = trained
    assert text.count("held-out loss") == 7  # six programs, and the head of the table
    assert "of the speed of nn.Embedding" in text
    picture = xml.etree.ElementTree.parse(out / "training.svg")
    assert len(picture.findall(".//{*}polyline")) == 6


@pytest.mark.parametrize("model", ["factorize", "dlrm"])
def test_the_programs_differ_in_few_lines(model: str) -> None:
    one, other = ((FOLDER / f"{model}{end}.py").read_text().splitlines() for end in ("", "_nn"))
    changes = list(difflib.ndiff(one, other))
    assert sum(line.startswith("- ") for line in changes) <= 20
    assert sum(line.startswith("+ ") for line in changes) <= 20


def test_a_difference_is_found() -> None:
    code = (
        "import training; run = lambda *losses: {'losses': losses}; "
        "print(training.difference([run(1, 2), run(1, 2)]), "
        "training.difference([run(1, 2), run(1, 2), run(1, 2.5)]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=FOLDER, capture_output=True, text=True
    )
    assert done.stdout.split() == ["0.0", "0.25"], done.stderr
