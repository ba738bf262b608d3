"""Capture: records, the store, the engine client and the HTTP collector. Imports no other package of this project."""
