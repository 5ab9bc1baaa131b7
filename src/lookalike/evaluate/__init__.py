"""How good a release is, by the papers' measures. NOT PRIVATE: all of it compares with the real rows."""
