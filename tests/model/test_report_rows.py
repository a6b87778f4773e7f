"""The records of the report and its schema describe the same fields."""

from __future__ import annotations

import json
from typing import Any

import pytest
from paths import ROOT
from report_keys import FIELDS, NOT_REQUIRED, RECORDS

from gpuscan.model import Driver, Host
from gpuscan.model.kernel import Echo, Incident
from gpuscan.model.report_rows import OMITTED_IF_NONE, ProfileInfo

SCHEMA: dict[str, Any] = json.loads(
    (ROOT / "gpuscan" / "schemas" / "report.schema.json").read_text("utf-8")
)["properties"]
INCIDENT = SCHEMA["incidents"]["items"]["properties"]


@pytest.mark.parametrize(
    ("record", "keys"),
    [
        (Host, SCHEMA["host"]["properties"]),
        (Driver, SCHEMA["software"]["properties"]),
        (Incident, INCIDENT),
        (Echo, INCIDENT["echoes"]["items"]["properties"]),
    ],
)
def test_the_schema_has_every_field_of_a_record_of_the_node(
    record: Any, keys: dict[str, Any]
) -> None:
    assert set(record._fields) == keys.keys()


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: str(record.__name__))
def test_what_the_schema_is_generated_from_names_no_field_that_there_is_not(record: Any) -> None:
    defined = {name for name, kind in record.__annotations__.items() if kind is not ProfileInfo}
    assert FIELDS[record].keys() == defined
    absent = {*NOT_REQUIRED.get(record, ()), *OMITTED_IF_NONE.get(record, ())}
    assert absent <= set(record._fields)
