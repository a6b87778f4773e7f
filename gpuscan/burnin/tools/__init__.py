"""Other programs that a burn-in runs, and what they print."""
