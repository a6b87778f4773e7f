"""The part of the burn-in that runs beside a GPU, a process each."""
