"""Readers: logs of other frameworks turned into the rows that checks read."""
