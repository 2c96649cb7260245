"""Rows for other programs: CSV, JSON lines and SQL. Lists are JSON text in CSV and SQL."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence

from spec_cli.bench.rows import Row
from spec_cli.render.options import Format


def rows_as(form: Format, rows: Sequence[Row], table: str) -> str:
    """`rows`, which all have the same columns, as `form`: one that lists rows."""
    if form is Format.JSONL:
        return "".join(f"{_json(row)}\n" for row in rows)
    return csv_of(rows) if form is Format.CSV else sql_of(rows, table)


def csv_of(rows: Sequence[Row]) -> str:
    """A header and a line for each row; nothing where there are no rows."""
    out = io.StringIO()
    if rows:
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(rows[0])
        writer.writerows([_flat(value) for value in row.values()] for row in rows)
    return out.getvalue()


def sql_of(rows: Sequence[Row], table: str) -> str:
    """Statements that make `table` where it is missing, and fill it."""
    if not rows:
        return ""
    columns = ", ".join(f'"{name}" {_type_of(name, rows)}' for name in rows[0])
    names = ", ".join(f'"{name}"' for name in rows[0])
    inserts = (
        f'INSERT INTO "{table}" ({names}) VALUES ({", ".join(map(_literal, row.values()))});\n'
        for row in rows
    )
    return "".join([f'CREATE TABLE IF NOT EXISTS "{table}" ({columns});\n', *inserts])


def _type_of(name: str, rows: Sequence[Row]) -> str:
    values = [_flat(row[name]) for row in rows if row[name] is not None]
    if not values or any(isinstance(value, str) for value in values):
        return "TEXT"
    return "REAL" if any(isinstance(value, float) for value in values) else "INTEGER"


def _literal(value: object) -> str:
    flat = _flat(value)
    if flat is None:
        return "NULL"
    if isinstance(flat, str):
        return "'" + flat.replace("'", "''") + "'"
    return repr(flat)


def _flat(value: object) -> str | int | float | None:
    return value if value is None or isinstance(value, str | int | float) else _json(value)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
