"""The quick start: a small coding agent on a small model, captured and looked at."""
