"""The pages name files and functions that exist, and build into a site without a warning."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

import lookalike

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "lookalike"
# Laboratory notes describe the code of their time.
PAGES = sorted(
    {ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", ROOT / "benchmarks" / "README.md"}
    | set(PACKAGE.rglob("README.md"))
    | {page for page in (ROOT / "docs").rglob("*.md") if "laboratory" not in page.parts}
)
FENCED = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`([^`\n]+)`")
FILE = re.compile(r"(?<![\w./-])([\w-]+(?:/[\w.-]+)*\.(?:py|json|jsonl|md|svg|yaml|toml))(?::(\w+))?(?![\w/])")
DOTTED = re.compile(r"(?<![\w./])((?:\w+\.)+\w+)")
LINK = re.compile(r"\]\(([^)\s#]+)[^)]*\)")
# Written by a run or a user, so not in the repository.
MADE = {"people.yaml", "schema.yaml", "sizes.json", "model.json", "ledger.jsonl", "mine.yaml", "workload.json"}


def inline_code(page: Path) -> list[str]:
    """The pieces of inline code on a page; of the table of moved files only what stands in its second column."""
    text = FENCED.sub("", page.read_text())
    if page.name == "layout.md":
        text = re.sub(r"^\|[^|\n]*\|", "", text, flags=re.MULTILINE)
    return CODE.findall(text)


@cache
def names_of(path: Path) -> dict[str, set[str]]:
    """What a module defines: every name at its top level, with the members of those that are classes."""
    found: dict[str, set[str]] = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = set(defined(node.body)) | attributes(node)
        else:
            found.update({name: set[str]() for name in defined([node])})
    return found


def defined(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))


def attributes(node: ast.ClassDef) -> set[str]:
    """The names that methods of a class assign on `self`."""
    stored = [n for n in ast.walk(node) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)]
    return {n.attr for n in stored if isinstance(n.value, ast.Name) and n.value.id == "self"}


@cache
def modules() -> dict[str, list[Path]]:
    """The modules and folders of the package by name."""
    found: dict[str, list[Path]] = {}
    for path in PACKAGE.rglob("*.py"):
        place = path.parent if path.name == "__init__.py" else path
        found.setdefault(place.stem, []).append(place)
    return found


@cache
def classes() -> dict[str, set[str]]:
    """The members of every class of the package by the class's name."""
    found: dict[str, set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        for name, members in names_of(path).items():
            if name[0].isupper():
                found.setdefault(name, set()).update(members)
    return found


@cache
def files() -> set[str]:
    """The name of every file of the repository's own folders."""
    found = [*ROOT.glob("*.*")]
    for folder in ("src", "tests", "benchmarks", "docs", "examples"):
        found += (ROOT / folder).rglob("*.*")
    return {path.name for path in found}


def file_problem(page: Path, path: str, name: str | None) -> str | None:
    """Why a path on a page is wrong, if it is. A bare name may be that of any file."""
    if "/" not in path and path in files() | MADE:
        return None
    places = (page.parent, ROOT, PACKAGE, *(ROOT / "tests" / folder for folder in ("unit", "privacy")))
    place = next((base / path for base in places if (base / path).exists()), None)
    if place is None:
        return f"no file {path}"
    return f"no {name} in {path}" if name and name not in names_of(place) else None


def name_problem(dotted: str) -> str | None:
    """Why a dotted name on a page is wrong, if it is: it begins with a module, a folder or a class of the package."""
    owner, *rest = dotted.removeprefix("lookalike.").split(".")
    if owner in dir(lookalike) and dotted.startswith("lookalike."):
        return None
    if owner in classes() and rest and owner[0].isupper():
        return None if rest[0] in classes()[owner] else f"{owner} has no {rest[0]}"
    places = modules().get(owner, [])
    for part in rest if places else []:
        if any(place.suffix == ".py" and part in names_of(place) for place in places):
            return None
        places = [p for place in places for p in (place / part, place / f"{part}.py") if p.exists()]
        if not places:
            return f"no {dotted}"
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_files_and_functions_exist(page: Path) -> None:
    problems = []
    for code in inline_code(page):
        problems += [file_problem(page, *found.groups()) for found in FILE.finditer(code)]
        problems += [name_problem(name) for name in DOTTED.findall(FILE.sub("", code))]
    assert [problem for problem in problems if problem] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_to_files(page: Path) -> None:
    targets = [target for target in LINK.findall(FENCED.sub("", page.read_text())) if "://" not in target]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_files_named_in_comments_and_docstrings_exist() -> None:
    modules = [path for folder in ("src", "tests", "benchmarks") for path in (ROOT / folder).rglob("*.py")]
    problems = [
        f"{path.relative_to(ROOT)}: {problem}"
        for path in modules
        if path != Path(__file__)
        for code in CODE.findall(path.read_text())
        for found in FILE.finditer(code)
        if (problem := file_problem(path, *found.groups()))
    ]
    assert problems == []


@pytest.mark.parametrize(
    ("code", "wrong"),
    [
        ("privacy/kernel/door.py", False),
        ("models/model.py:Model", False),
        ("privacy/door.py", True),
        ("models/model.py:NoSuchModel", True),
        ("steps.allocate", False),
        ("GuardedTable.measure", False),
        ("lookalike.pipeline.synthesize", False),
        ("steps.nothing", True),
        ("GuardedTable.nothing", True),
        ("privacy.kernel.nothing", True),
        ("numpy.random.Generator", False),
    ],
)
def test_wrong_names_are_found(code: str, wrong: bool) -> None:
    found = FILE.search(code)
    problem = file_problem(ROOT / "README.md", *found.groups()) if found else name_problem(code)
    assert (problem is not None) == wrong


@pytest.mark.skipif(find_spec("mkdocs") is None or find_spec("mkdocstrings") is None, reason="needs the docs extra")
def test_the_site_builds_without_a_warning_or_a_network(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    assert 'id="lookalike.pipeline.synthesize"' in (tmp_path / "api" / "library.html").read_text()
    for page in tmp_path.rglob("*.html"):
        loaded = re.findall(r'<(?:script|img|iframe|source)[^>]*\ssrc="(https?:[^"]*)"', page.read_text())
        loaded += re.findall(r'<link[^>]*rel="(?:stylesheet|preconnect)"[^>]*href="(https?:[^"]*)"', page.read_text())
        assert loaded == []
