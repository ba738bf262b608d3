"""The settings of the demo's children can be read by them, and belong together."""

from pathlib import Path

from collector.keys import sha256_of
from console.config import load_config
from console.demo.settings import ADAPTER, AGENTS, TENANT, WINDOW_S, updates_of, write_settings


def test_the_file_is_read_and_its_parts_belong_together(tmp_path: Path) -> None:
    suite = tmp_path / 'held "out".jsonl'
    path = write_settings(tmp_path, suite, "a key", updates=3)
    config = load_config(path)
    assert config.collector.keys == {sha256_of("a key"): TENANT}
    assert {name: adapter.tenant for name, adapter in config.trainer.adapters.items()} == {ADAPTER: TENANT}
    assert config.trainer.evaluation.suites == {ADAPTER: (str(suite),)}
    assert config.engine.max_running == config.trainer.evaluation.concurrency == AGENTS
    assert config.trainer.training.updates_per_batch == 3
    assert config.trainer.reward.window_s == WINDOW_S
    assert list(config.trainer.reward.kinds) == ["accept"]


def test_the_honest_round_before_sabotage_leaves_something_to_lie_about() -> None:
    assert [updates_of(number, sabotage=False) for number in (1, 2)] == [4, 4]
    assert [updates_of(number, sabotage=True) for number in (1, 2, 3)] == [1, 8, 8]
