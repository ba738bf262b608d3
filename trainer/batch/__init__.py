"""From the store to update batches: what every captured turn is worth to its adapter, and why it is worth nothing."""
