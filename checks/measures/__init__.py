"""What checks need of tokens, folded batch by batch into small frames, so that no log has to fit in memory."""
