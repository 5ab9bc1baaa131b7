"""Self-contained pages: the public report of a release, the internal one of an evaluation. Made from plain numbers."""
