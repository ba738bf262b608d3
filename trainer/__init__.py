"""Training: the embedded engine and everything else that needs torch. Imports checks and collector."""
