"""The embedded engine: a torch server that speaks the part of SGLang's HTTP API that this project uses.

Where it differs from SGLang 0.5.23, on purpose:

- streams are always deltas, one prompt and one reply a request; an error before the first token has its own status;
- what would change a reply and is not served (grammars, prompt log-probabilities, ...) is refused, not ignored;
- prompt ids outside the vocabulary are refused;
- `sampling_seed` is always honoured, and the draw of a token depends on the seed and its position alone;
- penalties count every sampled token, at once, and no prompt token;
- an unloaded adapter's name stays refused until it is loaded again; more adapters than slots are refused, none is
  evicted; DoRA, rank patterns and tensors that do not fit are refused;
- after a weight update that asked for a flush no later request reads older keys, also when the answer was 400
  because running requests keep theirs;
- `/health` asks the torch thread without generating, so it answers in a pause; `/ready` says 503 in a pause;
- `/abort_request` takes whole request ids, not beginnings of them.
"""
