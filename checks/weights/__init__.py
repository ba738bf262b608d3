"""Importance weights: their numbers, why they are off, where, and their plots."""
