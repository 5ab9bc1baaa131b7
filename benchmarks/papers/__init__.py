"""The experiments of the papers, repeated with the methods as they are here."""
