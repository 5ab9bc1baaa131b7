"""Hostile files, names and paths: refused, escaped or printed literally; inputs are never overwritten."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from lookalike.cli.terminal import shown
from lookalike.errors import InputError, ModelFileError, SchemaError
from lookalike.models.archive import write_archive
from lookalike.pipeline import synthesize
from lookalike.release import load
from lookalike.schema.schema import Schema
from lookalike.selection.workload import read_workload
from lookalike.sources.csvfiles import without_formulas

from .conftest import Call

MEGABYTE = 2**20
SCRIPT = "<script>alert(1)</script>"


def model_of(table: Path, domain: Path, path: Path) -> Path:
    sizes = json.loads(domain.read_text())
    synthesize(table, schema=sizes, epsilon=5.0, method="independent", ledger=path.with_name("l.jsonl")).fitted.save(
        path
    )
    return path


def edited(path: Path, change) -> Path:
    """The model file with its document changed."""
    with zipfile.ZipFile(path) as archive:
        document = json.loads(archive.read("model.json"))
        arrays = {name[:-4]: np.load(archive.open(name)) for name in archive.namelist() if name.endswith(".npy")}
    change(document)
    with open(path, "wb") as stream:
        write_archive(stream, document, arrays)
    return path


# Documents.

ALIASES = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [*{old}, *{old}, *{old}, *{old}, *{old}, *{old}, *{old}, *{old}, *{old}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
BOMBS = {
    "aliases": (ALIASES + "fields: *i\n", "anchor or alias"),
    "depth": ("fields: " + "[" * 5000, "nested"),
    "depth by lines": ("".join(" " * i + "a:\n" for i in range(2000)), "nested"),
    "many values": ("fields: [" + "1," * 300_000 + "]", "values"),
    "size": ("# " + "x" * (9 * MEGABYTE), "bytes"),
    "a key twice": ("fields: []\nfields: []\n", "twice"),
    "bins": (
        "fields:\n"
        + "".join(
            f"- {{name: c{i}, type: integer, constraints: {{minimum: 0, maximum: 100000000, required: true}}, "
            "dp: {bins: 90000}}\n"
            for i in range(100)
        ),
        "codes in all",
    ),
    "half a character": (r'fields: [{name: "\ud800"}]', "half a character|not YAML"),
    "beyond Unicode": (r'fields: [{name: "\UFFFFFFFF"}]', "not YAML"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_schema_bombs_are_refused(call: Call, table: Path, tmp_path: Path, name: str) -> None:
    text, message = BOMBS[name]
    path = tmp_path / "s.yaml"
    path.write_text(text)
    with pytest.raises(SchemaError, match=message):
        Schema.load(path)
    outcome = call("plan", table, "--schema", path)
    assert (outcome.code, "Traceback" in outcome.err) == (2, False)


@pytest.mark.parametrize("name", ["aliases", "depth", "many values", "size", "a key twice"])
def test_workload_bombs_are_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(BOMBS[name][0])
    with pytest.raises(InputError, match=BOMBS[name][1]):
        read_workload(str(path))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 100_000, "nested|values"),
        ('{"a": ' * 5000 + "1" + "}" * 5000, "nested"),
        ('{"a": ' + "9" * 5000 + "}", "JSON"),
        ('{"a": ' + "9" * 30 + "}", "64 bits"),
        ('{"a": NaN}', "finite"),
        ('{"a": 1e999}', "finite"),
        ('{"a": 2, "a": 3}', "twice"),
        (r'{"\ud800": 2}', "half a character"),
        ('{"a": 90000, "b": 90000' + "".join(f', "c{i}": 90000' for i in range(60)) + "}", "codes in all"),
    ],
)
def test_hostile_domain_files(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "d.json").write_text(text)
    with pytest.raises(SchemaError, match=message):
        Schema.from_domain_json(tmp_path / "d.json")


def test_what_a_schema_writes_has_no_aliases(tmp_path: Path) -> None:
    markers = ["?", "x"]
    fields = [{"name": n, "type": "string", "missingValues": markers, "constraints": {"enum": ["a"]}} for n in "ab"]
    schema = Schema.from_dict({"fields": fields})
    schema.save(tmp_path / "s.yaml")
    assert Schema.load(tmp_path / "s.yaml") == schema


# Model files.


def archive_of(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name.replace("__", "."), data)
    return path


def array_file(header: str, data: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data


HEADER = "{'descr': '<f8', 'fortran_order': False, 'shape': (%s,), }\n"


def test_a_zip_bomb_is_refused_without_the_memory(tmp_path: Path) -> None:
    zeros = 300 * MEGABYTE
    path = archive_of(tmp_path / "m", model__json=b"{}")
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("x.npy", "w") as member,
    ):
        member.write(array_file(HEADER % (zeros // 8)))
        for _ in range(zeros // MEGABYTE):
            member.write(bytes(MEGABYTE))
    assert path.stat().st_size < 2 * MEGABYTE
    program = (
        "import resource, sys; from lookalike.release import load; from lookalike.errors import LookalikeError\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try: load(sys.argv[1])\n"
        "except LookalikeError as error: print(error)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    message, growth = done.stdout.strip().rsplit("\n", 1)
    assert "max-model-mb" in message
    assert int(growth) < 50_000  # kilobytes


@pytest.mark.parametrize(
    "array",
    [
        array_file(HEADER % 10**12),
        array_file(HEADER % 3, bytes(8)),
        array_file("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n", b"cos\nsystem\n"),
        array_file("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }\n", bytes(8)),
        array_file("{'descr': '<f8', 'fortran_order': False, 'shape': (1,), } + [0] * 10**10\n", bytes(8)),
        b"not an array",
    ],
)
def test_arrays_that_are_not_what_they_say(tmp_path: Path, array: bytes) -> None:
    path = archive_of(tmp_path / "m", model__json=b"{}", x__npy=array)
    with pytest.raises(ModelFileError, match=r"x\.npy"):
        load(path)


@pytest.mark.parametrize("name", ["../evil.npy", "code.py", "a/b.npy", "MODEL.JSON"])
def test_members_that_are_no_part_of_a_model(tmp_path: Path, name: str) -> None:
    with zipfile.ZipFile(tmp_path / "m", "w") as archive:
        archive.writestr("model.json", "{}")
        archive.writestr(name, b"")
    with pytest.raises(ModelFileError, match="not part of a model"):
        load(tmp_path / "m")


def test_a_long_list_of_members_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "m", "w") as archive:
        archive.writestr("model.json", "{}")
    data = (tmp_path / "m").read_bytes()
    end = struct.Struct("<4s4H2LH")
    fields = list(end.unpack(data[-22:]))
    fields[5] = 2**31
    (tmp_path / "m").write_bytes(data[:-22] + end.pack(*fields))
    with pytest.raises(ModelFileError, match="members"):
        load(tmp_path / "m")


CHANGES = {
    "total of 1e18": lambda d: d["model"].update(total=1e18),
    "total of nothing": lambda d: d["model"].update(total=0),
    "negative epsilon": lambda d: d["spent"].update(epsilon=-1),
    "huge fraction": lambda d: d["spent"]["charges"][0].update(rho="1e999999999"),
    "more charged than allowed": lambda d: d["spent"]["charges"][0].update(rho="1000"),
    "private without noise": lambda d: d["spent"]["charges"][0].update(mechanism="none"),
    "another column": lambda d: d["schema"]["fields"][0].update(name="z"),
    "column of the measurement": lambda d: d["measurements"][0].update(attrs=["z"]),
    "no noise": lambda d: d["measurements"][0].update(stddev=0),
    "delimiter": lambda d: d["form"]["csv"].update(delimiter="\x1b"),
    "kind": lambda d: d["model"].update(kind=["graphical"]),
    "unknown kind": lambda d: d["model"].update(kind="views"),
    "an array used twice": lambda d: d["measurements"][0].update(values=d["measurements"][1]["values"]),
    "no array": lambda d: d["measurements"][0].update(values="nothing"),
    "settings": lambda d: d["spent"].update(settings=None),
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_contradicts_itself_is_no_model(table: Path, domain: Path, tmp_path: Path, name: str) -> None:
    path = edited(model_of(table, domain, tmp_path / "m.lookalike"), CHANGES[name])
    with pytest.raises(ModelFileError):
        load(path)


def test_a_model_of_many_rows_makes_them_only_on_request(call: Call, table: Path, domain: Path, tmp_path: Path) -> None:
    path = edited(model_of(table, domain, tmp_path / "m.lookalike"), lambda d: d["model"].update(total=5e9))
    out = tmp_path / "o.csv"
    outcome = call("sample", path, "-o", out)
    assert (outcome.code, "--rows" in outcome.err, out.exists()) == (2, True, False)
    assert call("sample", path, "-o", out, "--rows", 7).code == 0


def test_the_size_of_a_model_can_be_raised(call: Call, table: Path, domain: Path, tmp_path: Path) -> None:
    path = model_of(table, domain, tmp_path / "m.lookalike")
    refused = call("query", path, "count", "--max-model-mb", 0.00001)
    assert (refused.code, "max-model-mb" in refused.err) == (2, True)
    assert call("query", path, "count").code == 0


# Pages.


def test_no_markup_of_a_file_reaches_a_page(table: Path, domain: Path, tmp_path: Path) -> None:
    def inject(document: dict) -> None:
        spent = document["spent"]
        spent.update(method=SCRIPT, neighbours=SCRIPT, settings={SCRIPT: SCRIPT})
        spent["charges"][0].update(step=SCRIPT, mechanism=SCRIPT, detail=SCRIPT)

    fields = [
        {"name": SCRIPT, "type": "string", "missingValues": [SCRIPT + "?"], "constraints": {"enum": [SCRIPT, "b"]}},
        {"name": "a", "type": "integer", "constraints": {"minimum": 0, "maximum": 5}},
    ]
    rows = tmp_path / "t.csv"
    rows.write_text(f'"{SCRIPT}",a\n' + f"{SCRIPT},1\nb,2\n" * 50)
    path = tmp_path / "m.lookalike"
    made = synthesize(rows, schema={"fields": fields}, method="mst", epsilon=9.0, ledger=tmp_path / "l.jsonl")
    made.fitted.save(path)
    fitted = load(edited(path, inject))
    pages = (fitted._repr_html_(), fitted.spent._repr_html_(), fitted.schema._repr_html_(), fitted.report())
    for page in (*pages, made.report(), made._repr_html_()):
        # The report has one script, its own, and the policy in its head allows no other.
        assert page.count("<script") == page.count("script-src 'sha256-")
        assert SCRIPT not in page
    assert "&lt;script&gt;" in fitted._repr_html_()


# The terminal.

CONTROLS = ["\x1b[31m", "\x07", "\r", "\x08", "\x9b31m", "\u202e", "\u2066", "\u200b", "\x00", "\x7f"]


@pytest.mark.parametrize("text", CONTROLS)
def test_characters_that_control_a_terminal_are_shown_as_escapes(text: str) -> None:
    assert re.fullmatch(r"[ -~]+", shown(f"a{text}b"))
    assert shown("a\tb\nc[/b] é 東 [bold]") == "a\tb\nc[/b] é 東 [bold]"


@pytest.mark.parametrize(
    "name", ["[", "]", "[/b]", "[bold]x", "[/]", "\x1b[31m", "a\rb", "\u202ex", "[link=x]", ":smile:"]
)
def test_any_name_of_a_file_or_a_column_is_printed_literally(call: Call, tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.csv".replace("/", "_")
    with open(path, "w", newline="") as stream:
        csv.writer(stream).writerows([[name, "b"], *([name, "1"] for _ in range(60))])
    model, out = tmp_path / f"{name}.lookalike".replace("/", "_"), tmp_path / "o.csv"
    schema = tmp_path / "s.yaml"
    field = {"name": name, "type": "string", "constraints": {"enum": [name, "z"]}}
    number = {"name": "b", "type": "integer", "constraints": {"minimum": 0, "maximum": 3}}
    schema.write_text(json.dumps({"fields": [field, number]}))
    for arguments in (
        ("plan", path),
        ("plan", path, "--schema", schema),
        ("synth", path, "-o", out, "--schema", schema, "--model", model, "-m", "independent"),
        ("synth", path, "-o", tmp_path / "no" / f"{name}.csv"),
        ("ledger", path),
        ("sample", model, "-o", out),
        ("query", model, f"count by `{name}`"),
        ("query", model, f"count where {name}"),
        ("sample", f"{model}-{name}", "-o", out),
        ("synth", f"{path}-{name}.csv", "-o", out),
        (f"--{name}",),
        (name,),
        ("plan", path, "--set", name),
        ("plan", path, "-m", name),
        ("evaluate", path, out, "--schema", schema),
        ("schema", path),
    ):
        outcome = call(*arguments)
        assert outcome.code in (0, 2), outcome.err
        assert "Traceback" not in outcome.err
        if arguments[0] != "schema":
            assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", outcome.out + outcome.err)
    shown_name = shown(path.name)
    assert shown_name in call("ledger", path).out.replace("\n", "")


# Places.


def untouched(call: Call, path: Path, *arguments: object) -> None:
    before = path.read_bytes()
    outcome = call(*arguments)
    assert outcome.code == 2, outcome.out
    assert "overwrite" in outcome.err or "two places" in outcome.err
    assert path.read_bytes() == before


@pytest.mark.parametrize("option", ["-o", "--model", "--report", "--ledger"])
@pytest.mark.parametrize("way", ["same", "dots", "symlink", "hard link"])
def test_the_private_table_is_never_overwritten(
    call: Call, table: Path, domain: Path, tmp_path: Path, option: str, way: str
) -> None:
    other = tmp_path / "other.csv"
    if way == "symlink":
        other.symlink_to(table)
    elif way == "hard link":
        os.link(table, other)
    else:
        other = table if way == "same" else tmp_path / "x" / ".." / table.name
        (tmp_path / "x").mkdir()
    rest = () if option == "-o" else ("-o", tmp_path / "out.csv")
    untouched(call, table, "synth", table, "--domain", domain, "-m", "independent", option, other, *rest)
    assert json.loads(call("ledger", table, "--json").out)["runs"] == []


def test_no_input_and_no_other_output_is_overwritten(call: Call, table: Path, domain: Path, tmp_path: Path) -> None:
    out, model = tmp_path / "o.csv", tmp_path / "m.lookalike"
    run = ("synth", table, "--domain", domain, "-m", "independent")
    untouched(call, domain, *run, "-o", out, "--model", domain)
    untouched(call, table, *run, "-o", out, "--model", out)
    untouched(call, table, *run, "-o", out, "--model", model, "--report", model)
    ledger = tmp_path / "l.jsonl"
    assert call(*run, "-o", out, "--model", model, "--ledger", ledger).code == 0
    untouched(call, ledger, *run, "-o", out, "--model", ledger, "--ledger", ledger)
    untouched(call, model, "sample", model, "-o", model)
    untouched(call, table, "schema", table, "-o", table)
    page = tmp_path / "t.NOT-PRIVATE.csv"
    page.write_bytes(table.read_bytes())
    untouched(call, page, "evaluate", page, out, "--domain", domain, "--report", page)
    untouched(call, table, "compare", table, "--methods", "mst", "--domain", domain, "--results", table)


def test_the_library_does_not_overwrite_either(table: Path, domain: Path, tmp_path: Path) -> None:
    before, ledger = table.read_bytes(), tmp_path / "l.jsonl"
    made = synthesize(table, schema=json.loads(domain.read_text()), method="independent", ledger=ledger)
    (tmp_path / "link.csv").symlink_to(table)
    for path in (table, tmp_path / "link.csv", ledger):
        for write in (made.fitted.save, made.write if path.suffix == ".csv" else made.fitted.save):
            with pytest.raises(InputError, match="overwrite"):
                write(path)
    assert table.read_bytes() == before


# Formulas.


def test_formulas_are_escaped_on_request_only(call: Call, tmp_path: Path) -> None:
    values = ["=1+1", "+a", "-a", "@x", "plain", "-5", "+3.5", "-1e3"]
    rows, schema = tmp_path / "t.csv", tmp_path / "s.yaml"
    rows.write_text("=name,n\n" + "".join(f"{value},-1\n" for value in values) * 40)
    fields = [
        {
            "name": "=name",
            "type": "string",
            "constraints": {"enum": values, "required": True},
            "dp": {"outside": "absorb"},
        },
        {"name": "n", "type": "integer", "constraints": {"minimum": -1, "maximum": -1, "required": True}},
    ]
    schema.write_text(json.dumps({"fields": fields}))
    found = {}
    for options in ((), ("--escape-formulas",)):
        out, model = tmp_path / f"o{len(options)}.csv", tmp_path / f"m{len(options)}"
        run = ("synth", rows, "--schema", schema, "-e", 9, "-m", "independent", "-o", out, "--model", model)
        assert call(*run, *options).code == 0
        assert call("sample", model, "-o", out, *options).code == 0
        lines = list(csv.reader(io.StringIO(out.read_text())))
        found[options] = {cell for line in lines for cell in line}
    assert found[()] == {*values, "=name", "n", "-1"}
    assert found["--escape-formulas",] == {
        "'=1+1", "'+a", "'-a", "'@x", "plain", "-5", "+3.5", "-1e3", "'=name", "n", "-1",
    }  # fmt: skip


@pytest.mark.parametrize("text", ["=a", "+a", "-a", "@a", "\ta", "\ra", "-", "+", "--1", "=1", "-1+cmd|' /C calc'!A0"])
def test_what_starts_a_formula(text: str) -> None:
    assert without_formulas([text]) == [f"'{text}"]


@pytest.mark.parametrize("text", ["", "a", "-1", "+1.5", "-1,5", "1e5", "-1E-3", "2024-01-01", "'=a", " =a"])
def test_what_starts_none(text: str) -> None:
    assert without_formulas([text]) == [text]
