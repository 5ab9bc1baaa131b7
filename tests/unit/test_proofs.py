"""Every proof names the functions that it covers, and fails to hold when one of them changes and its page does not.

A page ends with a table of functions and hashes of their source. The hash is of the syntax tree without docstrings, so
that comments, layout and moves to other files do not matter. When code that a proof covers has changed: read the page,
say there why it still holds, then `python -m tests.unit.test_proofs` writes the new hashes.
"""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "lookalike"
PROOFS = ROOT / "docs" / "proofs"
PAGES = sorted(PROOFS.glob("*.md"))
LINE = re.compile(r"^\| `([\w.]+)` \| `([0-9a-f]{12}|)` \|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w/]+\.py)(?::(\w+))?`")


@cache
def definitions() -> dict[str, list[ast.AST]]:
    """All classes, functions and methods of the privacy folder, and what it needs of others, by qualified name."""
    found: dict[str, list[ast.AST]] = {}
    others = (PACKAGE / name for name in ("measurements.py", "schema/probes.py", "sources/streams.py"))
    for path in (*(PACKAGE / "privacy").rglob("*.py"), *others):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef | ast.FunctionDef):
                found.setdefault(node.name, []).append(node)
            for inner in node.body if isinstance(node, ast.ClassDef) else []:
                if isinstance(inner, ast.FunctionDef):
                    found.setdefault(f"{node.name}.{inner.name}", []).append(inner)
    return found


def source_hash(node: ast.AST) -> str:
    """The hash of a definition's syntax tree without docstrings."""
    copy = ast.parse(ast.unparse(node))
    for inner in ast.walk(copy):
        body = getattr(inner, "body", None)
        first = body[0] if isinstance(body, list) and body else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            body[0] = ast.Pass()  # type: ignore[index]
    return hashlib.sha256(ast.dump(copy).encode()).hexdigest()[:12]


def hash_of(name: str) -> str:
    nodes = definitions().get(name, [])
    if len(nodes) != 1:
        raise ValueError(f"{len(nodes)} definitions are called {name}; name a class or a method that is the only one")
    return source_hash(nodes[0])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_proofs_cover_the_code_as_it_is(page: Path) -> None:
    covered = LINE.findall(page.read_text())
    assert covered, "the page names no function"
    changed = [name for name, written in covered if hash_of(name) != written]
    assert not changed, f"{changed} changed: read {page.name}, say why it still holds, then write the new hashes"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_proofs_name_tests_that_exist(page: Path) -> None:
    found = TEST.findall(page.read_text())
    assert found
    for path, name in found:
        assert (ROOT / path).exists(), path
        assert not name or f"def {name}(" in (ROOT / path).read_text(), f"{path}:{name}"


def test_every_release_and_every_score_has_a_proof() -> None:
    covered = {name for page in PAGES for name, _ in LINE.findall(page.read_text())}
    releases = {"measure", "measure_contrasts", "noisy_scores", "choose", "frequent", "release_rows", "parts"}
    assert {f"GuardedTable.{name}" for name in releases} <= covered
    scores = [n for n in ast.parse((PACKAGE / "privacy" / "scores.py").read_text()).body if isinstance(n, ast.ClassDef)]
    assert {node.name for node in scores} <= covered


def test_comments_layout_and_docstrings_do_not_matter_and_code_does() -> None:
    right = ast.parse('def f(x: int) -> int:\n    """One."""\n    return x + 1  # why\n').body[0]
    moved = ast.parse('\n\ndef f(x: int) -> int:\n    """Two words."""\n    return (x\n            + 1)\n').body[0]
    wrong = ast.parse('def f(x: int) -> int:\n    """One."""\n    return x + 2\n').body[0]
    assert source_hash(right) == source_hash(moved) != source_hash(wrong)


if __name__ == "__main__":
    for place in PAGES:
        old = place.read_text()
        new = LINE.sub(lambda match: f"| `{match[1]}` | `{hash_of(match[1])}` |", old)
        if new != old:
            place.write_text(new)
            sys.stdout.write(f"{place.relative_to(ROOT)}: hashes written. Does the proof still hold?\n")
