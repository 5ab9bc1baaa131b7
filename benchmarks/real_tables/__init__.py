"""Tables of strangers, as a new user brings them: a CSV file and an epsilon, no schema, no preparation.

python -m benchmarks.real_tables build                     # the tables, out of packages, into LOOKALIKE_TABLES
python -m benchmarks.real_tables run --label LABEL [--tables actg weather] [--epsilons 1] [--out FILE]
python -m benchmarks.real_tables show [--out FILE]         # a compact table of stored runs
python -m benchmarks.real_tables document                  # writes docs/real_tables.md
python -m benchmarks.real_tables declared run|table        # Adult: no schema against the public domain
"""
