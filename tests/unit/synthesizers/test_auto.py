"""`auto` chooses by public facts and says why."""

from __future__ import annotations

import json

from typer.testing import CliRunner

from lookalike.cli.main import app
from lookalike.schema.domain import Domain
from lookalike.synthesizers.auto import Auto, chosen_method
from lookalike.synthesizers.mosaic import Mosaic


def domain(*sizes: int) -> Domain:
    return Domain(tuple(f"a{i}" for i in range(len(sizes))), sizes)


def test_the_choice_follows_the_shape_of_the_table() -> None:
    assert chosen_method(domain(5))[0].name == "independent"
    assert chosen_method(domain(5, 1, 1))[0].name == "independent"
    assert chosen_method(domain(5, 4))[0].name == "mosaic"
    assert chosen_method(domain(*[3] * 100))[0].name == "mosaic"
    assert chosen_method(domain(*[3] * 200))[0].name == "mst"


def test_pairs_beyond_memory_leave_only_single_columns() -> None:
    method, why = chosen_method(domain(60_000, 70_000))
    assert method.name == "independent"
    assert "coarser" in why


def test_the_plan_is_the_chosen_methods_plan_and_the_reason_names_it() -> None:
    assert Auto().split(domain(3, 4, 5), 0.1) == Mosaic().split(domain(3, 4, 5), 0.1)
    assert "mosaic" in Auto().reason(domain(3, 4, 5))


def test_the_command_line_prints_the_reason(tmp_path) -> None:
    sizes = tmp_path / "domain.json"
    sizes.write_text('{"a": 2, "b": 3}')
    shown = CliRunner().invoke(app, ["plan", "--domain", str(sizes)])
    assert shown.exit_code == 0
    assert "auto chose mosaic" in " ".join(shown.output.split())
    machine = CliRunner().invoke(app, ["plan", "--domain", str(sizes), "--json"])
    assert json.loads(machine.output)["reason"].startswith("auto chose mosaic")


def test_a_target_reaches_the_chosen_method_and_must_be_a_column(tmp_path) -> None:
    assert Auto(target="a1").chosen(domain(3, 4)) == Mosaic(target="a1")
    assert Auto(target="a1").chosen(domain(*[3] * 200)).name == "mst"
    sizes = tmp_path / "domain.json"
    sizes.write_text('{"age": 2, "income": 3}')

    def said(*options: str) -> tuple[int, str]:
        shown = CliRunner().invoke(app, ["plan", "--domain", str(sizes), *options])
        return shown.exit_code, str(shown.exception)

    assert said("--target", "income")[0] == 0
    code, text = said("--target", "incom")
    assert code
    assert "Did you mean 'income'?" in text
    code, text = said("--target", "income", "--method", "mst")
    assert code
    assert "has no target" in text
