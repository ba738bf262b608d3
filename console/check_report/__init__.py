"""The report of a check run for people and for CI: text, HTML and JUnit."""
