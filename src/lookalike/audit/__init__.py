"""Attempts to break the guarantee, on made-up tables: each mechanism of the door, and whole runs of each method.

An audit refutes a guarantee, or shows how much of it is used up. Why the guarantees are true is in
docs/privacy_argument.md.
"""
