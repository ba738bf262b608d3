"""From sampled token ids to the assistant message a client sees."""
