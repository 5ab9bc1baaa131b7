"""Attempts to break the guarantee: whole runs on neighbouring tables, told apart by whatever they write.

An audit shows that a guarantee is false, or fails to show it. It never shows that one is true: that is an argument, in
docs/privacy_argument.md.
"""
