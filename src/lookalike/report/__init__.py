"""HTML pages without scripts or network: charts, templates, and the public report of a release."""
