"""What a run gives back: a synthetic table, the model that made it, and the account of what it cost.

A model file is a zip archive of `model.json` (format version, kind, schema, provenance) and one `.npy` per array. It
needs no pickle to load, so opening a file from a stranger runs no code.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from dataclasses import asdict, dataclass
from fractions import Fraction
from html import escape
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa

from lookalike.errors import InputError, ModelFileError
from lookalike.estimate.answers import AnsweredQuestion, answer_question
from lookalike.estimate.diagnosis import Diagnosis, diagnose
from lookalike.estimate.intervals import ErrorBars
from lookalike.generate.conditional import rows_where
from lookalike.generate.kinds import model_from_parts
from lookalike.generate.model import Model
from lookalike.privacy.budget import Accounting, epsilon_spent
from lookalike.privacy.ledger import NO_GUARANTEE, Charge
from lookalike.schema import codec
from lookalike.schema.conditions import parse_question
from lookalike.schema.schema import Schema
from lookalike.sources.frames import CsvStyle, TableForm, kind_of_path, to_frame, write_file, write_table
from lookalike.synthesizers.base import PlannedStep
from lookalike.tables.measurement import NoisyMarginal, NoisyResidual

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Spent:
    """What a run was allowed to spend, and every charge it made. Public once the release is.

    Attributes:
        threshold_delta: part of delta that went into noisy thresholds.
        private: False when the noise was reproducible (`insecure_rng`) or a release had none: then nothing is
        guaranteed.
    """

    method: str
    settings: dict[str, Any]
    epsilon: float
    delta: float
    accounting: Accounting
    neighbours: str
    charges: tuple[Charge, ...]
    private: bool = True
    threshold_delta: float = 0.0

    @property
    def rho(self) -> Fraction:
        return sum((charge.rho for charge in self.charges), Fraction(0))

    @property
    def epsilon_spent(self) -> float:
        """Epsilon of the charges made; never above the configured one, unless a release had no guarantee at all."""
        if not self.charges:
            return 0.0
        if any(charge.mechanism == NO_GUARANTEE for charge in self.charges):
            return float("inf")
        return min(self.epsilon, epsilon_spent(self.rho, self.delta - self.threshold_delta, self.accounting))

    def by_step(self) -> dict[str, Fraction]:
        """Total rho of each step, in the order of first use."""
        totals: dict[str, Fraction] = {}
        for charge in self.charges:
            totals[charge.step] = totals.get(charge.step, Fraction(0)) + charge.rho
        return totals

    def to_json(self) -> dict[str, Any]:
        charges = [{**asdict(charge), "rho": str(charge.rho)} for charge in self.charges]
        return {**{name: getattr(self, name) for name in self.__slots__}, "charges": charges}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Spent:
        charges = tuple(Charge(**{**charge, "rho": Fraction(charge["rho"])}) for charge in values["charges"])
        return cls(**{**values, "charges": charges})

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr><td>{step}</td><td>{float(rho):.6g}</td></tr>" for step, rho in self.by_step().items())
        head = f"epsilon {self.epsilon_spent:.4g} of {self.epsilon:g}, delta {self.delta:g}, {self.neighbours}"
        return f"<table><caption>{head}</caption><tr><th>step</th><th>rho</th></tr>{rows}</table>"


@dataclass(frozen=True, slots=True)
class FittedModel:
    """A model with the schema that turns its codes into values: sampling from it needs no data and no budget.

    Attributes:
        measurements: the noisy marginals that the run paid for; error bars come from them.
        residuals: noisy distances of marginals from public references; they narrow the bounds of what was not measured.
    """

    schema: Schema
    model: Model
    spent: Spent
    form: TableForm
    measurements: tuple[NoisyMarginal, ...] = ()
    residuals: tuple[NoisyResidual, ...] = ()

    @property
    def rows(self) -> int:
        """Estimated number of rows of the private table: how many are made unless told otherwise."""
        return max(1, round(self.model.total))

    def sample(self, rows: int | None = None, *, seed: int | None = None, where: str | None = None) -> Any:
        """A synthetic table of the same frame type, columns and formats as the private one.

        `where` is a condition such as "age >= 65 and sex = F": rows then come from the model given that condition, by
        default as many as it expects among the real ones.
        """
        return to_frame(self.sample_arrow(rows, seed=seed, where=where), self.form)

    def write(
        self, path: str | Path, rows: int | None = None, *, seed: int | None = None, where: str | None = None
    ) -> int:
        """Write a synthetic table to a file of the kind its name says, and return its number of rows."""
        table = self.sample_arrow(rows, seed=seed, where=where)
        write_table(table, path, csv=self.form.csv if self.form.kind == "csv" else None)
        return table.num_rows

    def sample_arrow(self, rows: int | None = None, *, seed: int | None = None, where: str | None = None) -> pa.Table:
        """A synthetic table as an Arrow table."""
        check_rows(rows)
        rng = np.random.default_rng(seed)
        if where is None:
            codes = self.model.sample(self.rows if rows is None else rows, rng)
        else:
            codes = rows_where(self.model, parse_question(f"count where {where}", self.schema), rows, rng)
        return codec.decode(self.schema, codes, rng=rng)

    def diagnosis(self) -> Diagnosis:
        """How well the model explains the noisy marginals of the run. From released values, so it costs nothing."""
        return diagnose(self.model, self.measurements)

    def error_bars(self) -> ErrorBars:
        """Intervals for counts, from the recorded noise alone."""
        return ErrorBars(self.schema.domain, self.measurements, self.residuals)

    def query(self, question: str, *, level: float = 0.9) -> AnsweredQuestion:
        """Counts such as `count by sex where age >= 30`, with intervals for the true ones. Costs nothing."""
        return answer_question(question, self.schema, self.model, self.error_bars(), level)

    def report(self, rows: int | None = None) -> str:
        """The public report as one self-contained HTML page, made from released values only."""
        from lookalike.report.public import public_numbers, public_report

        return public_report(public_numbers(self.schema, self.model, self.spent, self.error_bars(), rows=rows))

    def save(self, path: str | Path) -> None:
        """Write the model as an open archive, whole or not at all."""
        meta, arrays = self.model.to_parts()
        document = {
            "format": FORMAT,
            "kind": self.model.kind,
            "schema": self.schema.to_dict(),
            "spent": self.spent.to_json(),
            "form": {"kind": self.form.kind, "csv": asdict(self.form.csv)},
            "model": meta,
            "measurements": [
                {"attrs": m.attrs, "stddev": m.stddev, "ledger_entry": m.ledger_entry, "contrasts": m.contrasts}
                for m in self.measurements
            ],
            "residuals": [{"attrs": r.attrs, "value": r.value, "stddev": r.stddev} for r in self.residuals],
        }
        for i, measurement in enumerate(self.measurements):
            arrays[f"measured-{i}"] = measurement.values
            if measurement.groups is not None:
                arrays[f"measured-{i}-groups"] = measurement.groups
        for i, residual in enumerate(self.residuals):
            arrays[f"reference-{i}"] = residual.reference

        def write(stream: BinaryIO) -> None:
            with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("model.json", json.dumps(document, indent=1))
                for name, array in arrays.items():
                    buffer = io.BytesIO()
                    np.save(buffer, array, allow_pickle=False)
                    archive.writestr(f"{name}.npy", buffer.getvalue())

        write_file(Path(path), write)

    def _repr_html_(self) -> str:
        title = f"{self.spent.method} model of {len(self.schema.domain)} columns, about {self.rows:,} rows"
        return f"<p><b>{title}</b></p>{self.spent._repr_html_()}"


def load(path: str | Path) -> FittedModel:
    """The model stored at `path` by `FittedModel.save`."""
    try:
        with zipfile.ZipFile(path) as archive:
            document = json.loads(archive.read("model.json"))
            if document.get("format") != FORMAT:
                raise ModelFileError(
                    f"{path} has model format {document.get('format')!r}; this version reads format {FORMAT}. "
                    "Use the version of lookalike that wrote it."
                )
            arrays = {
                name.removesuffix(".npy"): np.load(io.BytesIO(archive.read(name)), allow_pickle=False)
                for name in archive.namelist()
                if name.endswith(".npy")
            }
        return FittedModel(
            schema=Schema.from_dict(document["schema"]),
            model=model_from_parts(document["kind"], document["model"], arrays),
            spent=Spent.from_json(document["spent"]),
            form=TableForm(document["form"]["kind"], CsvStyle(**document["form"]["csv"])),
            measurements=tuple(
                NoisyMarginal(
                    tuple(entry["attrs"]),
                    arrays[f"measured-{i}"],
                    entry["stddev"],
                    arrays.get(f"measured-{i}-groups"),
                    entry["ledger_entry"],
                    tuple(entry["contrasts"]) if entry.get("contrasts") else None,
                )
                for i, entry in enumerate(document.get("measurements", ()))
            ),
            residuals=tuple(
                NoisyResidual(tuple(entry["attrs"]), arrays[f"reference-{i}"], entry["value"], entry["stddev"])
                for i, entry in enumerate(document.get("residuals", ()))
            ),
        )
    except FileNotFoundError:
        raise ModelFileError(f"There is no model file {path}.") from None
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, TypeError) as error:
        raise ModelFileError(
            f"{path} is not a lookalike model or is damaged ({type(error).__name__}). Make it again with "
            "'lookalike synth ... --model FILE'."
        ) from error


def check_rows(rows: int | None, most: int | None = None) -> None:
    """Refuse a senseless number of rows to make, or one above what the method's settings give."""
    if rows is not None and rows < 1:
        raise InputError(f"{rows} rows were asked for; ask for at least 1.")
    if rows is not None and most is not None and rows > most:
        raise InputError(f"{rows:,} rows were asked for, but these settings make {most:,}; set seeded_rows={rows}.")


def check_target(path: Path, *, table: bool) -> None:
    """Refuse a place that cannot be written to, before any budget is spent on what should go there."""
    if table:
        kind_of_path(path)
    folder = path.parent
    if not folder.is_dir():
        raise InputError(
            f"There is no folder {folder} to write {path.name} to. Make it first, or choose another place."
        )
    if path.is_dir():
        raise InputError(f"{path} is a folder. Give the name of a file.")
    if not os.access(folder, os.W_OK):
        raise InputError(f"No permission to write to {folder}. Choose another place, or change its permissions.")


def write_page(path: Path, page: str) -> None:
    """Write a page of HTML, whole or not at all."""
    write_file(path, lambda stream: stream.write(page.encode()))


@dataclass(frozen=True, slots=True)
class Release:
    """A synthetic table, ready to be given away, with its model and its bill.

    Attributes:
        rows: the synthetic rows as an Arrow table.
        fitted: the model behind it, for more rows, queries and storage.
        plan: what the run said beforehand that it would spend.
        notes: what the user should know of the fit; empty where it explains what was measured.
    """

    rows: pa.Table
    fitted: FittedModel
    plan: tuple[PlannedStep, ...]
    notes: tuple[str, ...] = ()

    @property
    def table(self) -> Any:
        """The synthetic rows in the same kind of frame as the private ones; an Arrow table for files."""
        return to_frame(self.rows, self.fitted.form)

    def write(self, path: str | Path) -> None:
        """Write the rows to a file of the kind its name says, whole or not at all."""
        form = self.fitted.form
        write_table(self.rows, path, csv=form.csv if form.kind == "csv" else None)

    def report(self) -> str:
        """The public report as one self-contained HTML page, made from released values only."""
        return self.fitted.report(self.rows.num_rows)

    @property
    def model(self) -> Model:
        return self.fitted.model

    @property
    def spent(self) -> Spent:
        return self.fitted.spent

    @property
    def schema(self) -> Schema:
        return self.fitted.schema

    def _repr_html_(self) -> str:
        return self.fitted._repr_html_() + "".join(f"<p>{escape(note)}</p>" for note in self.notes)
