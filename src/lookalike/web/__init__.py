"""The local page of `lookalike serve`: choose a table, declare facts, spend a budget, look at the release.

Server-rendered HTML over the library's own functions; docs/page.md says why, and what protects it.
"""
