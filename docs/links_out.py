"""A hook of MkDocs: links from a page to files outside of docs/ are shown as names of files, which is all a site has.

In a checkout the same links lead to the files.
"""

from __future__ import annotations

import posixpath
import re
from typing import Any

_LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Return the page with every link that leaves docs/ replaced by its text."""
    folder = posixpath.dirname(page.file.src_uri)

    def shown(found: re.Match[str]) -> str:
        text, target = found.groups()
        leaves = "://" not in target and posixpath.normpath(posixpath.join(folder, target)).startswith("..")
        return text if leaves else found[0]

    return _LINK.sub(shown, markdown)
