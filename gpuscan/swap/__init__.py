"""Changing a part: what is expected, what became of each part, and the proof of the swap."""
