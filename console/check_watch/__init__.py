"""`roundhouse check --watch`: a store checked again and again while it is written."""
