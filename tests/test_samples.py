"""What is in samples/ works as it stands. Run as a script it writes samples/roundhouse.toml anew."""

import ast
import asyncio
import inspect
import json
import os
import sys
import textwrap
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from collector.fakes import ScriptedEngine, deltas
from collector.rendering.renderer import Renderer
from console.config import RoundhouseConfig, load_config
from tests.collector.loopback import serve
from trainer.tiny_model import write_byte_tokenizer

SAMPLES = Path(__file__).parents[1] / "samples"
TOML = SAMPLES / "roundhouse.toml"


def field_meanings(struct: type[msgspec.Struct]) -> dict[str, str]:
    """The docstring below each field, on one line."""
    body = ast.parse(textwrap.dedent(inspect.getsource(struct))).body[0].body  # type: ignore[attr-defined]
    return {
        field.target.id: " ".join(below.value.value.split())
        for field, below in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(below, ast.Expr)
    }


def section(name: str, settings: msgspec.Struct) -> list[str]:
    """One table of the file, its own fields before its sub-tables."""
    meanings = field_meanings(type(settings))
    lines, tables = [f"[{name}]"], list[str]()
    for field in type(settings).__struct_fields__:
        value, meaning = getattr(settings, field), meanings[field]
        if isinstance(value, msgspec.Struct):
            tables += ["", *section(f"{name}.{field}", value)]
        elif isinstance(value, dict) and all(isinstance(each, msgspec.Struct) for each in value.values()) and value:
            tables += ["", f"# {meaning}"]
            for key, each in value.items():
                tables += [*section(f"{name}.{field}.{key}", each), ""]
            tables.pop()
        elif value == {}:
            tables += ["", f"# {meaning}", f"[{name}.{field}]"]
        elif value is None:
            lines += [f"# {meaning}", f"# {field} ="]
        else:
            lines += [f"# {meaning}", f"{field} = {json.dumps(value)}"]
    return lines + tables


def defaults() -> str:
    """roundhouse.toml with every setting at its default."""
    whole = RoundhouseConfig()
    parts = ["\n".join(section(name, getattr(whole, name))) for name in RoundhouseConfig.__struct_fields__]
    return "# Every setting at its default.\n\n" + "\n\n".join(parts) + "\n"


def test_the_sample_settings_are_the_defaults_with_their_meanings() -> None:
    assert TOML.read_text(encoding="utf-8") == defaults(), "run: python -m tests.test_samples"
    assert load_config(TOML) == RoundhouseConfig()


async def test_the_sample_agent_holds_a_conversation_and_judges_it(tmp_path: Path) -> None:
    write_byte_tokenizer(tmp_path)
    renderer = Renderer.from_folder(tmp_path)
    replies = [renderer.tokenizer.encode(f"{colour}.<|im_end|>") for colour in ("Red", "Blue")]

    def script(request: Any) -> Any:
        return deltas(replies.pop(0), prompt_tokens=len(request.input_ids), size=2)

    async with serve(renderer, ScriptedEngine(script)) as served:
        settings = {"OPENAI_BASE_URL": f"{served.url}/v1", "OPENAI_API_KEY": "dev"}
        agent = await asyncio.create_subprocess_exec(
            sys.executable,
            SAMPLES / "agent.py",
            env=os.environ | settings,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, complaints = await asyncio.wait_for(agent.communicate(), 60)
        first, second, judgement = served.journal.records
    assert agent.returncode == 0, complaints.decode()
    assert out.decode().splitlines()[:2] == ["Name a colour. -> 'Red.'", "Name another one. -> 'Blue.'"]
    assert (second.parent_turn_id, second.link) == (first.turn_id, "extends")
    assert (judgement.turn_id, judgement.kind, judgement.value) == (second.turn_id, "thumb", 1.0)


if __name__ == "__main__":
    TOML.write_text(defaults(), encoding="utf-8")
