"""Spoiled schema, domain and workload files: read, or refused with one error of ours."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from lookalike.errors import LookalikeError
from lookalike.pipeline import as_schema, plan_run
from lookalike.schema.decode import decode
from lookalike.schema.enforce import check_rules
from lookalike.selection.workload import as_workload, read_workload

from .mutations import many, spoil_bytes, spoil_tree, survive

FIELDS = """
- {name: id, type: string, dp: {pattern: 'p-######', person: true, max_rows: 2, repeats: [3, 1]}}
- name: age
  type: integer
  constraints: {minimum: 0, maximum: 99, required: true}
  dp: {bins: 10, outside: clamp, width: 3, hierarchy: [5, 2], rounding: {steps: [1, 5], shares: [0.5, 0.5]}}
- name: ward
  type: string
  constraints: {enum: [Surgery, Medicine, Maternity]}
  dp:
    outside: other
    other: rest
    hierarchy: [{cut: [Surgery], not: [Medicine, Maternity]}]
    provenance: {values: assumed}
- {name: sex, type: string, categoriesOrdered: true, constraints: {enum: [F, M]}}
- name: weight
  type: number
  decimalChar: ','
  constraints: {minimum: 0.5, maximum: 200}
  dp: {bins: [0.5, 50, 100], decimals: 2, least_decimals: 1, shape: {edges: [0.5, 50, 75, 100], weights: [1, 2, 3, 4]}}
- {name: height, type: number, constraints: {minimum: 0, maximum: 3}, dp: {bins: 4, storage: double}}
- name: born
  type: date
  format: '%d.%m.%Y'
  constraints: {minimum: 1900-01-01, maximum: 2020-12-31}
  dp: {bins: year}
- name: seen
  type: datetime
  constraints: {minimum: 2020-01-01, maximum: 2024-12-31}
  dp: {bins: 6, zone: Europe/Paris}
- name: left
  type: datetime
  constraints: {minimum: 2020-01-01, maximum: 2024-12-31}
  dp: {bins: month, resolution: minute}
- {name: code, type: integer, constraints: {minimum: 1, maximum: 3}, dp: {bins: 3, storage: int64}}
- {name: happy, type: boolean}
"""
RULES = """
- never: ward = Maternity and sex = M
- always: age >= code
- determines: {from: sex, to: happy, table: {F: true}}
"""
RULED = ("age", "ward", "sex", "code", "happy")
DOMAIN = {"age": 16, "sex": 2, "ward": 5}
WORKLOAD = [["age", "sex"], {"columns": ["age", "ward"], "weight": 2.5}, {"sets": "all-2way", "weight": 1}, "all-1way"]


def valid(rng: random.Random) -> dict[str, Any]:
    """A valid schema of some of the fields above: short, since the parser is slow."""
    fields = copy.deepcopy(_FIELDS)
    if rng.random() < 0.2:
        chosen = [field for field in fields if field["name"] in RULED]
        return {"fields": chosen, "dp": {"version": "1", "constraints": copy.deepcopy(_RULES)}}
    return {"missingValues": ["", "?"], "fields": rng.sample(fields, 2)}


_FIELDS = yaml.load(FIELDS, Loader=yaml.BaseLoader)
_RULES = yaml.load(RULES, Loader=yaml.BaseLoader)


def use(path: Path) -> None:
    """What happens to a schema before and after the data: planned, shown, stored, and rows written with it."""
    schema = as_schema(path)
    repr(schema)
    schema._repr_html_()
    check_rules(schema)
    plan_run(schema, epsilon=1.0, delta=1e-5, method="independent")
    path.write_text(schema.to_yaml(), encoding="utf-8")
    assert as_schema(path).fingerprint() == schema.fingerprint()
    if not schema.open_facts:
        sizes = np.array(schema.domain.sizes)
        ends = np.asfortranarray(np.stack([np.zeros_like(sizes), sizes // 2, sizes - 1]).astype(np.int32))
        decode(schema, ends, rng=np.random.default_rng(0))
        [column.labels() for column in schema.columns]


def attempt(path: Path, rng: random.Random) -> bool:
    tree = valid(rng)
    if rng.random() < 0.3:
        data = spoil_bytes(yaml.safe_dump(tree, default_flow_style=None).encode(), rng)
    else:
        data = json.dumps(spoil_tree(tree, rng), ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    path.write_bytes(data)
    try:
        use(path)
    except LookalikeError:
        return False
    return True


def attempt_small(folder: Path, rng: random.Random) -> bool:
    """A domain or a workload."""
    kind = rng.choice(("domain.json", "workload.json", "workload.yaml"))
    path = folder / kind
    text = json.dumps(DOMAIN if kind == "domain.json" else WORKLOAD)
    if rng.random() < 0.4:
        path.write_bytes(spoil_bytes(text.encode(), rng))
    else:
        path.write_text(json.dumps(spoil_tree(json.loads(text), rng)))
    try:
        if kind == "domain.json":
            as_schema(path)
        else:
            as_workload(read_workload(str(path)), as_schema(DOMAIN).domain)
    except LookalikeError:
        return False
    return True


def test_the_file_that_is_spoiled_is_valid(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    for number in range(60):
        path.write_text(json.dumps(valid(random.Random(number))))
        use(path)


def test_spoiled_schemas(tmp_path: Path) -> None:
    assert survive(250, 1, lambda rng: attempt(tmp_path / "s.yaml", rng)) > 5


def test_spoiled_domains_and_workloads(tmp_path: Path) -> None:
    assert survive(500, 2, lambda rng: attempt_small(tmp_path, rng)) > 20


@pytest.mark.slow
def test_thousands_of_schemas(tmp_path: Path) -> None:
    survive(many(), 3, lambda rng: attempt(tmp_path / "s.yaml", rng))


@pytest.mark.slow
def test_thousands_of_domains_and_workloads(tmp_path: Path) -> None:
    survive(many(), 4, lambda rng: attempt_small(tmp_path, rng))
