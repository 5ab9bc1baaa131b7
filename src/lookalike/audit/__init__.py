"""Attempts to break the guarantee: whole runs on neighbouring tables, distinguished by anything that they write.

An audit can show that a guarantee is false, never that it is true; for that see docs/privacy_argument.md.
"""
