"""Importers: the output of other tools, logs and files, as the readings that a scan would make."""
