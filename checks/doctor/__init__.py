"""Whether a model folder, an engine and a trainer's settings give exact capture, before anything was captured."""
