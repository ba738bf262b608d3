"""When a reply ends: stop strings, stop tokens, the length limit, in the order in which SGLang looks at them."""

from collections.abc import Callable

from collector.engine.wire import Finish, SamplingParams

Decode = Callable[[list[int]], str]
"""Text of token ids, special tokens included."""


class StopRule:
    """What ends one reply. Source: `update_finish_state` in `srt/managers/schedule_batch.py` of sglang 0.5.23."""

    def __init__(self, params: SamplingParams, eos_ids: frozenset[int], decode: Decode | None) -> None:
        assert decode is not None or not params.stop
        self._params = params
        self._decode = decode
        self.stop_ids = eos_ids | frozenset(params.stop_token_ids)
        """Every token that ends the reply, unless `ignore_eos`."""
        # A token stands for at least one byte of text, so a match that ends in the last token begins within these.
        self._tail_tokens = max((len(text.encode()) for text in params.stop), default=0) + 4

    def finish(self, output: list[int]) -> Finish | None:
        """Why the reply ends with its latest token; None if it goes on."""
        matched = self.matched_string(output)
        if matched is not None:
            return Finish(type="stop", matched=matched)
        if not self._params.ignore_eos and output[-1] in self.stop_ids:
            return Finish(type="stop", matched=output[-1])
        if len(output) >= self._params.max_new_tokens:
            return Finish(type="length", length=self._params.max_new_tokens)
        return None

    def matched_string(self, output: list[int]) -> str | None:
        """The stop string that the latest token completed."""
        if not self._params.stop or self._decode is None:
            return None
        tail = self._decode(output[-self._tail_tokens :])
        return next((text for text in self._params.stop if text in tail), None)
