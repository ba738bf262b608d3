"""Held-out suites: their tasks, how a version is sampled on them, and how its replies are judged. Imports no torch."""
