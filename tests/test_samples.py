"""What is in samples/ works as it stands. Run as a script it writes samples/roundhouse.toml anew."""

import ast
import asyncio
import inspect
import json
import os
import subprocess
import sys
import textwrap
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from collector.fakes import ScriptedEngine, deltas
from collector.past import StoredPast
from collector.rendering.renderer import Renderer
from collector.store.reader import Reader
from collector.store.writer import Writer
from console.config import RoundhouseConfig, load_config
from tests.collector.loopback import post, serve
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


def run_recipe(name: str, url: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, str(SAMPLES / "feedback-recipes" / name), *words],
        env=os.environ | {"ROUNDHOUSE_URL": url, "ROUNDHOUSE_KEY": "dev", "PYTHONPATH": str(SAMPLES.parent)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def git(repo: Path, *words: str) -> None:
    who = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", "-C", str(repo), *who, *words], check=True, capture_output=True)


async def test_the_recipe_for_kept_edits_posts_the_share_of_lines_that_are_left(tmp_path: Path) -> None:
    write_byte_tokenizer(tmp_path)
    renderer = Renderer.from_folder(tmp_path)
    repo = tmp_path / "repo"
    repo.mkdir()
    git(repo, "init", "-q")
    (repo / "a.py").write_text("old = 1\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "before")
    (repo / "a.py").write_text("old = 1\none = 1\ntwo = 2\n\nthree = 3\n")
    (repo / "b.py").write_text("four = 4\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "the agent's")
    # Of four lines that are not blank one was changed, and one went with its file; one moved.
    (repo / "a.py").write_text("two = 2\nold = 1\none = 11\nthree = 3\n")
    (repo / "b.py").unlink()
    ids = renderer.tokenizer.encode("Done.<|im_end|>")
    async with serve(renderer, ScriptedEngine(lambda _: deltas(ids))) as served:
        request = {"model": "model", "messages": [{"role": "user", "content": "edit"}]}
        _, _, reply = await post(served, "/v1/chat/completions", request)
        words = ("--repo", str(repo), "--commit", "HEAD", "--response", reply["id"])
        for _ in range(2):
            await asyncio.to_thread(run_recipe, "edit_kept.py", served.url, *words)
        turn, judgement = served.journal.records
    assert (judgement.turn_id, judgement.kind, judgement.value) == (turn.turn_id, "accept", 0.5)


async def test_the_recipe_for_repeated_questions_judges_the_answer_that_was_asked_past(tmp_path: Path) -> None:
    write_byte_tokenizer(tmp_path)
    renderer, store = Renderer.from_folder(tmp_path), tmp_path / "store"
    ids = renderer.tokenizer.encode("Blue.<|im_end|>")
    questions = ("What colour is the sea?", "what colour is the sea, please?", "And the sky?")
    with Writer(store, "collector") as writer:
        async with serve(
            renderer, ScriptedEngine(lambda _: deltas(ids)), journal=writer, past=StoredPast(store)
        ) as served:
            messages: list[dict[str, Any]] = []
            for question in questions:
                messages.append({"role": "user", "content": question})
                request = {"model": "model", "messages": messages}
                _, _, reply = await post(served, "/v1/chat/completions", request, **{"x-session-id": "s"})
                messages.append({"role": "assistant", "content": reply["choices"][0]["message"]["content"]})
            assert (
                await asyncio.to_thread(
                    run_recipe, "asked_again.py", served.url, "--store", str(store), "--tenant", "other"
                )
                == ""
            )
            for _ in range(2):
                await asyncio.to_thread(run_recipe, "asked_again.py", served.url, "--store", str(store))
    with Reader(store).snapshot() as snapshot:
        first = snapshot.frame("turns")["turn_id"][0]
        judgements = snapshot.frame("feedback").to_dicts()
    assert [(each["turn_id"], each["kind"], each["value"]) for each in judgements] == [(first, "accept", 0.0)]


if __name__ == "__main__":
    TOML.write_text(defaults(), encoding="utf-8")
