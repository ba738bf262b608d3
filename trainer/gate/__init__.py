"""Whether a candidate may take sessions: every criterion with its numbers, and one verdict. Imports no torch."""
