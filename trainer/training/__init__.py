"""From batches of work to the next checkpoint of each adapter: scoring, updates, and the records they leave."""
