"""The engine's HTTP surface: its wire structs and the one client for SGLang and the embedded engine."""
