"""The kernel log: bytes become records, and records become events. Only `live` reads files."""
