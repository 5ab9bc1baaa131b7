"""Translates the expressions of `expressions.py`, which are for PostgreSQL, into dialects of other databases.

They are tested as texts, and on DuckDB and SQLite. None was tested on a server of MySQL, SQL Server, Snowflake or
BigQuery, and no connection to these is opened.
"""

from __future__ import annotations

from typing import Any

from lookalike.errors import SchemaError

OTHER_DIALECTS = ("duckdb", "sqlite", "mysql", "tsql", "snowflake", "bigquery")
"""Dialects to which expressions are translated, as sqlglot names them. That of MySQL is for MariaDB, too."""
_BINARY = {
    "duckdb": '{} COLLATE "C"', "sqlite": "{} COLLATE BINARY", "mysql": "CAST({} AS BINARY)",
    "tsql": "({} + NCHAR(1)) COLLATE Latin1_General_100_BIN2", "snowflake": "{} COLLATE 'utf8'",
    "bigquery": "COLLATE({}, '')",
}  # fmt: skip
"""How a text is compared character by character, trailing spaces included: SQL Server ignores these at the very end."""
_POSTGRES_ALONE = (" ~ ", "regexp", "FILTER", "OFFSET 0")


def rendered(expression: str, dialect: str) -> str:
    """The expression in another dialect. A SchemaError where it uses what only PostgreSQL has."""
    import sqlglot

    for word in _POSTGRES_ALONE:
        if word in expression:
            raise SchemaError(f"An expression uses {word.strip()}, which is rendered for PostgreSQL alone.")
    parsed = sqlglot.parse_one(expression, read="postgres")
    return parsed.transform(_without_collation, dialect).transform(_without_buckets).sql(dialect)


def _without_collation(node: Any, dialect: str) -> Any:
    """Comparisons of texts as the dialect makes them."""
    import sqlglot
    from sqlglot import exp

    if not isinstance(node, exp.Binary) or isinstance(node, exp.Collate) or not isinstance(node.this, exp.Collate):
        return node
    text = sqlglot.parse_one(_BINARY[dialect].format(node.this.this.sql(dialect)), read=dialect)
    other = node.expression.sql(dialect)
    if dialect == "tsql":
        other = f"N{other} + NCHAR(1)"
    return type(node)(this=text, expression=sqlglot.parse_one(other, read=dialect))


def _without_buckets(node: Any) -> Any:
    """`width_bucket` over a list of rising edges as a CASE."""
    from sqlglot import exp

    if not isinstance(node, exp.WidthBucket):
        return node
    value, edges = node.this, node.args["threshold"]
    kind = edges.to.expressions[0]
    found = exp.Case().when(exp.Is(this=value.copy(), expression=exp.Null()), exp.Null())
    listed = [text.strip('"') for text in edges.this.this.strip("{}").split(",")]
    for code, text in enumerate(listed):
        number = exp.Literal.number(text) if kind.is_type("bigint") else exp.cast(exp.Literal.string(text), kind)
        found = found.when(exp.LT(this=value.copy(), expression=number), exp.Literal.number(code))
    return found.else_(exp.Literal.number(len(listed)))
