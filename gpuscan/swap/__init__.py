"""Changing a part: before, after, and what became of each part."""
