"""A folder of small tables that is served."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from .serving import Served, serving

SECRET = "Zaphod-Beeblebrox-4711"
"""A value of a row that must never be seen outside a release."""
ROWS = 400


def people() -> str:
    rng = np.random.default_rng(3)
    ages, sexes = rng.integers(18, 90, ROWS), rng.choice(["F", "M"], ROWS)
    towns = rng.choice(["Ulm", "Graz", "Bern"], ROWS)
    lines = [f"{age},{sex},{town},{age + 7}" for age, sex, town in zip(ages, sexes, towns, strict=True)]
    return "\n".join(["age,sex,town,weight", *lines, f"33,F,{SECRET},40"]) + "\n"


SCHEMA = """\
fields:
- {name: age, type: integer, constraints: {required: true, minimum: 0, maximum: 99}, dp: {bins: 5}}
- {name: sex, type: string, constraints: {required: true, enum: [F, M]}}
- {name: town, type: string, constraints: {required: true, enum: [Ulm, Graz, Bern]}}
- {name: weight, type: integer, constraints: {required: true, minimum: 0, maximum: 120}, dp: {bins: 5}}
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    base = tmp_path_factory.mktemp("served")
    folder, outside = base / "folder", base / "outside"
    (folder / "inner").mkdir(parents=True)
    outside.mkdir()
    (outside / "hidden.csv").write_text("a\n1\n")
    (folder / "people.csv").write_text(people())
    (folder / "people.yaml").write_text(SCHEMA)
    (folder / "inner" / "more.csv").write_text("x,y\n1,2\n")
    (folder / "linked.csv").symlink_to(outside / "hidden.csv")
    (folder / "linked").symlink_to(outside)
    (folder / "alias.csv").symlink_to(folder / "people.csv")
    (folder / ".secret.csv").write_text("a\n1\n")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("LOOKALIKE_LEDGERS", str(base / "ledgers"))
        patched.setenv("LOOKALIKE_NUMBA", "0")
        with serving(folder) as running:
            yield running
