"""Kernel sources in Triton; they are compiled ahead of time by `nox -s kernels`, and Triton is
needed nowhere else.
"""
