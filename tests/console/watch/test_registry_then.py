"""The registry made again from its audit equals what a reader saw at that time."""

import time
from pathlib import Path

from collector.store.registry import Registry
from collector.store.registry_rows import RegistrySnapshot, read_audit
from console.watch.registry_then import registry_then
from tests.trainer.adapter_lines import WHY, add_bot, add_version, loads
from trainer.adapters import add_adapter, canary, hold, promote, release, rollback


def test_every_moment_of_a_life_is_made_again(tmp_path: Path) -> None:
    seen: list[RegistrySnapshot] = []
    with Registry(tmp_path) as registry:

        def look() -> None:
            seen.append(registry.snapshot())
            time.sleep(0.001)

        add_bot(registry)
        look()
        add_version(registry, tmp_path, 1)
        look()
        promote(registry, "bot", 1, load=loads, **WHY)
        look()
        add_version(registry, tmp_path, 2)
        look()
        canary(registry, "bot", 2, 0.25, load=loads, **WHY)
        look()
        hold(registry, "bot", **WHY)
        look()
        rollback(registry, "bot", load=loads, **WHY)
        look()
        release(registry, "bot", **WHY)
        look()
        add_adapter(registry, "other", tenant="zeta", base_model="base", **WHY)
        look()
        now, audit = registry.snapshot(), read_audit(tmp_path)
    at = {row.revision: row.at for row in audit}
    for then in seen:
        assert registry_then(now, audit, at[then.revision]) == then


def test_before_the_first_change_there_is_nothing(tmp_path: Path) -> None:
    with Registry(tmp_path) as registry:
        add_bot(registry)
        now, audit = registry.snapshot(), read_audit(tmp_path)
    then = registry_then(now, audit, audit[0].at.replace(year=2000))
    assert (then.revision, then.adapters, then.versions, then.routes) == (0, (), (), ())
