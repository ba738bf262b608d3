"""Checks: what is wrong in a rollout log, found by pure functions from frames to findings. Imports collector only."""
