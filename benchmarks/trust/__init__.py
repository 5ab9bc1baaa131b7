"""What others can check: audits of the guarantee, attacks on releases, planted bugs, faults."""
