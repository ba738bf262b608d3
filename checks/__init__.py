"""Checks: pure functions from frames to findings. Imports collector only."""
