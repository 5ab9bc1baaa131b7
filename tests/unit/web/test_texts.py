"""Every text that a page asks for exists, and every text is used."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import lookalike
from lookalike.web.pages import text, texts

WEB = Path(lookalike.__file__).parent / "web"
USED = re.compile(r"""(?<![\w.])(?:t\.|pages\.text\(["'])((?:\w+\.)+\w+)""")
WHOLE = re.compile(r"""(?<![\w.])t\.(\w+(?:\.\w+)*)(?:\[|\.items)|texts\(\)\["(\w+)"\]""")


def leaves(found: Any, name: str = "") -> set[str]:
    if not isinstance(found, dict):
        return {name}
    return set().union(*(leaves(value, f"{name}.{key}" if name else str(key)) for key, value in found.items()))


def test_texts_and_templates_agree() -> None:
    code = "\n".join(path.read_text() for path in [*WEB.glob("*.py"), *WEB.glob("templates/*.html")])
    groups = {name for pair in WHOLE.findall(code) for name in pair if name}
    named = {name.removesuffix(".items") for name in USED.findall(code)}
    known = leaves(texts())
    for name in named - groups:
        assert text(name) is not None
    unused = {name for name in known - named if not any(name.startswith(f"{group}.") for group in groups)}
    assert unused == set()


def test_names_of_texts_are_no_methods_of_mappings() -> None:
    for name in leaves({**texts(), "schema": {**texts()["schema"], "facts": {}}}):  # facts are looked up by item
        assert not set(name.split(".")) & set(dir(dict)), name
