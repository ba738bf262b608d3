"""Publishing a version: load it on the engines, prove that it is what they serve, withdraw the one before it."""
