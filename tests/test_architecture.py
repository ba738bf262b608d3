"""What may import what, and what a command may load before it is needed."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("collector", "checks", "trainer", "console")
TORCH = {"torch", "transformers", "peft"}
HEAVY = TORCH | {"polars", "duckdb", "pyarrow", "textual", "starlette", "aiohttp", "openai", "msgspec", "rich"}


def loaded_by(code: str) -> set[str]:
    """Top-level modules that a fresh interpreter holds after running `code`."""
    probe = f"{code}\nimport sys\nprint('MODULES', *sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.rpartition("MODULES ")[2].split())


def modules(*folders: str) -> list[str]:
    """Dotted names of every module under the folders."""
    return [
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for folder in folders
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path.name != "__main__.py"
    ]


def test_imports_point_one_way() -> None:
    lint = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([lint, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr


def test_help_of_the_command_loads_nothing_heavy() -> None:
    assert not HEAVY & loaded_by("import console.cli; console.cli.main([])")


def test_collector_and_checks_load_no_torch() -> None:
    assert not TORCH & loaded_by("\n".join(f"import {name}" for name in modules("collector", "checks")))


def test_the_life_of_adapters_needs_no_torch() -> None:
    parts = ("adapters", "adapter_rules", "adapter_standing", "blast_radius", "rollback_due", "served_versions")
    assert not TORCH & loaded_by("\n".join(f"import trainer.{part}" for part in parts))


def test_collecting_what_to_train_on_loads_no_torch() -> None:
    assert not TORCH & loaded_by("\n".join(f"import {name}" for name in ["trainer.config", *modules("trainer/batch")]))


def test_settings_evaluation_and_gate_load_no_torch() -> None:
    names = ["trainer.config", "trainer.gate_statistics", *modules("trainer/evaluation", "trainer/gate")]
    assert not TORCH & loaded_by("\n".join(f"import {name}" for name in names))


@pytest.mark.parametrize("name", ["trainer.training_config", "trainer.config"])
def test_settings_of_the_trainer_load_no_torch(name: str) -> None:
    assert not TORCH & loaded_by(f"import {name}")


def test_what_the_trainer_says_of_precision_loads_no_torch() -> None:
    assert not TORCH & loaded_by("import trainer.config, trainer.precision")


def test_publishing_and_withdrawing_load_no_torch() -> None:
    torch_free = [name for name in modules("trainer/publish") if name != "trainer.publish.policy_probe"]
    assert not TORCH & loaded_by("\n".join(f"import {name}" for name in torch_free))


def test_a_trainer_that_waits_loads_no_torch() -> None:
    with_model = {f"trainer.cycle.{name}" for name in ("model_side", "orders", "follower")}
    light = [name for name in modules("trainer/cycle", "console/train") if name not in with_model]
    assert not TORCH & loaded_by("\n".join(f"import {name}" for name in light))


@pytest.mark.parametrize("name", modules("console/commands"))
def test_a_command_module_loads_nothing_heavy_before_it_runs(name: str) -> None:
    # By name, as the command line does it: `import` is a command and no word for a module to be imported by.
    loading = f"from importlib import import_module\nimport_module({name!r})"
    assert not (TORCH | {"polars", "duckdb", "pyarrow", "openai"}) & loaded_by(loading)


def test_package_roots_hold_a_docstring_and_nothing_else() -> None:
    for path in (file for package in PACKAGES for file in (ROOT / package).rglob("__init__.py")):
        text = path.read_text().strip()
        assert text.startswith('"""'), path
        assert text.index('"""', 3) == len(text) - 3, path


def test_every_test_module_stands_for_a_module() -> None:
    """A test file's place and name tell which module it tests, unless it names a flow in its docstring."""
    for path in (ROOT / "tests").rglob("test_*.py"):
        assert path.read_text().startswith('"""'), f"{path} has no docstring that says what it holds"
