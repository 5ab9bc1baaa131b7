"""Tables in SQL databases: only aggregated counts leave them. `sources/databases.py` says where they live."""
