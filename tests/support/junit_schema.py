"""The schema that the xunit plugin of Jenkins validates JUnit files by, if it is at hand."""

from __future__ import annotations

from paths import SHARED

SCHEMA = SHARED / "public" / "junit-10.xsd"
