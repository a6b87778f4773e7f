"""What gpuscan remembers: the last verdict and the hold (last.json), and the archive of all runs
(SQLite).
"""
