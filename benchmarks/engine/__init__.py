"""The engine against another library, and its stopping rule. `compare` starts `mbi_worker`."""
