"""The schema that Jenkins' xunit plugin validates JUnit files by, where others keep it beside this repository."""

from __future__ import annotations

from paths import SHARED

SCHEMA = SHARED / "public" / "junit-10.xsd"
