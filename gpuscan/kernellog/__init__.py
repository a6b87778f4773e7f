"""The kernel log: from bytes to records, from records to events; pure but for the reading of a
file.
"""
