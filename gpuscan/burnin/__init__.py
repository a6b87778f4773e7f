"""The burn-in: what to exercise, and how it is run and watched."""
