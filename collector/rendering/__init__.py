"""From messages to exact token ids: tokenizer, sandboxed chat template, and the splice that never re-renders."""
