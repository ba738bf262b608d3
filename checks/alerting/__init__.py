"""Alerts: rules, the state of each alert, incidents, the records of both, and delivery."""
