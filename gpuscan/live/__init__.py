"""The only door to the machine."""
