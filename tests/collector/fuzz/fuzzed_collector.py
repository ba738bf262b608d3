"""A collector with a real store behind a scripted engine, as a process of its own.

`python -m tests.collector.fuzz.fuzzed_collector STORE` says its URL on standard output and ends with standard input.
"""

import asyncio
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from collector.config import CollectorConfig, StoreConfig
from collector.engine.wire import Finish, GenerateRequest
from collector.fakes import ScriptedEngine, Step, deltas
from collector.past import StoredPast
from collector.store.writer import Writer
from tests.collector.loopback import serve
from tests.collector.published import small_renderer

END = "<|im_end|>"
CALL = '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'
REPLIES = (
    f"Hi.{END}",
    f"<think>\nHm.\n</think>\n\nGrüße, 世界 🙂{END}",
    f"{CALL}\n{CALL}{END}",
    END,
    "<think>\nnever ends",
    f"{'word ' * 60}{END}",
    f"<tool_call>\nno json\n</tool_call>{END}",
)
"""What is sampled; which of them depends on the prompt."""


async def run(store: Path) -> None:
    """Serves until standard input ends."""
    renderer = small_renderer()
    replies = [renderer.tokenizer.encode(text) for text in REPLIES]

    def script(request: GenerateRequest) -> Sequence[Step]:
        ids = replies[sum(request.input_ids) % len(replies)]
        limit = request.sampling_params.max_new_tokens
        count = len(request.input_ids)
        if limit < len(ids):
            cut = Finish(type="length", length=limit)
            return deltas(ids[:limit], finish=cut, size=7, prompt_tokens=count)
        return deltas(ids, size=7, prompt_tokens=count)

    config = StoreConfig(seal_rows=2_000, seal_interval_s=2, grace_s=1)
    with Writer(store, "collector", config) as writer:
        served = serve(
            renderer,
            ScriptedEngine(script),
            journal=writer,
            past=StoredPast(store),
            config=CollectorConfig(index_sessions=500, max_request_bytes=2**20, request_idle_timeout_s=0.3),
            context_tokens=8192,
        )
        async with served as collector:
            print(collector.url, flush=True)
            await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
    logging.getLogger("asyncio").setLevel(logging.INFO)
    asyncio.run(run(Path(sys.argv[1])))
