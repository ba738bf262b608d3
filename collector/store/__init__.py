"""The store: journals of hot rows, sealed Parquet segments, and the readers over both."""
