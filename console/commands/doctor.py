"""Says whether a model's template, a running engine or a trainer's settings give exact capture, before capturing."""

import argparse
import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from collector.errors import UserError

if TYPE_CHECKING:
    from checks.doctor.point import Point
    from checks.doctor.setup_points import Setup
    from checks.doctor.template_stability import DialogueVerdict

    Examined = tuple[list[DialogueVerdict], list[Point]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument(
        "target",
        nargs="?",
        metavar="TARGET",
        help="a model or tokenizer folder, the URL of a running engine, or a log or store",
    )
    parser.add_argument(
        "--run",
        type=Path,
        metavar="FILE",
        help="settings as TOML, or JSON, written for this: tables trainer (dtype, temperature) and engine (dtype, "
        "logprob_mode, temperature, top_p and so on)",
    )
    parser.add_argument("--admin-key", metavar="KEY", help="the engine's key, where it has one")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    """Examines and reports; 0 when all is well, 1 when something is wrong."""
    if args.target is None and args.run is None:
        raise UserError("nothing to examine; give a model folder, the URL of an engine, a log, or --run FILE")
    kinds, dialogues, points = list[str](), list["DialogueVerdict"](), list["Point"]()
    if args.target is not None:
        kind, (found, more) = _examine(args.target, args.admin_key)
        kinds.append(kind)
        dialogues += found
        points += more
    if args.run is not None:
        from checks.doctor.setup_points import setup_points

        kinds.append("run")
        points += setup_points([_read_setup(args.run)])
    wrong = sum(point.wrong for point in points) + sum(each.status in ("warn", "fail") for each in dialogues)
    if args.json:
        print(_as_json(args, kinds, dialogues, points))
        return 1 if wrong else 0
    from console.doctor.text import report_lines

    for line in report_lines(dialogues, points):
        print(line)
    unknown = sum(point.status == "no_data" for point in points)
    print(_verdict(wrong, unknown, of=len(dialogues) + len(points)))
    return 1 if wrong else 0


def _verdict(wrong: int, unknown: int, *, of: int) -> str:
    """The last line; what nobody knows is never said to be well."""
    told = f"{wrong} of {of} {'needs' if wrong == 1 else 'need'} attention" if wrong else "nothing is wrong"
    return told + (f"; {unknown} of {of} could not be told (n/a)" if unknown else "")


def _examine(target: str, admin_key: str | None) -> "tuple[str, Examined]":
    if target.startswith(("http://", "https://")):
        return "engine", ([], asyncio.run(_ask(target, admin_key)))
    path = Path(target)
    if not path.exists():
        raise UserError(
            f"{target} does not exist; give a model folder, the URL of an engine (http://HOST:PORT), or a log"
        )
    if (path / "tokenizer.json").is_file():
        return "model", _examine_model(path)
    if path.is_dir() and _names_a_model(path / "config.json"):
        raise UserError(f"{target} holds no tokenizer.json; give a model folder with a fast tokenizer")
    from checks.doctor.setup_points import setup_points
    from console.doctor.log_setups import log_setups

    setups, said = log_setups(path)
    return "log", ([], [*said, *setup_points(setups)])


def _names_a_model(config: Path) -> bool:
    """Whether this is a model's config.json; folders of training runs have one of their own."""
    from collector.model_json import read_json

    return config.is_file() and bool({"model_type", "architectures"} & set(read_json(config)))


def _examine_model(folder: Path) -> "Examined":
    from checks.doctor.model_points import ability_points, argument_point, bos_point, stop_points, tokenizer_points
    from checks.doctor.point import Point
    from checks.doctor.template_stability import TemplateStability
    from collector.model_json import read_json
    from collector.rendering.renderer import Renderer
    from collector.rendering.template import ChatTemplate
    from collector.rendering.tokenizer import ChatTokenizer

    tokenizer = ChatTokenizer.from_folder(folder)
    points = tokenizer_points(tokenizer)
    try:
        renderer = Renderer(tokenizer, ChatTemplate.from_folder(folder, names=tokenizer.names))
    except UserError as error:
        return [], [*points, Point(name="chat template", status="fail", said=str(error))]
    generation = folder / "generation_config.json"
    points += stop_points(renderer, read_json(generation) if generation.is_file() else None)
    points += ability_points(renderer)
    points += [point for point in (bos_point(renderer), argument_point(renderer)) if point is not None]
    return TemplateStability(renderer).verdicts(), points


async def _ask(url: str, admin_key: str | None) -> "list[Point]":
    from collector.engine.client import EngineClient
    from collector.errors import EngineError
    from console.doctor.engine_probe import engine_points

    client = EngineClient(url, admin_key=admin_key, idle_timeout_s=60.0)
    try:
        return await engine_points(client)
    except EngineError as error:
        raise UserError(str(error)) from error
    finally:
        await client.close()


def _read_setup(path: Path) -> "Setup":
    import msgspec

    from checks.doctor.setup_points import Setup

    try:
        text = path.read_bytes()
        return (msgspec.toml if path.suffix == ".toml" else msgspec.json).decode(text, type=Setup)
    except (OSError, UnicodeDecodeError, msgspec.DecodeError) as error:
        found = error.strerror or "cannot be read" if isinstance(error, OSError) else str(error)
        raise UserError(
            f"{path}: {found}; expected JSON or TOML with tables trainer (dtype, temperature) and engine (dtype, "
            "logprob_mode, temperature, top_p, top_k, min_p, presence_penalty, frequency_penalty, repetition_penalty)"
        ) from error


def _as_json(
    args: argparse.Namespace, kinds: list[str], dialogues: "list[DialogueVerdict]", points: "list[Point]"
) -> str:
    import msgspec

    wrong = [point.name for point in points if point.wrong]
    wrong += [each.dialogue for each in dialogues if each.status in ("warn", "fail")]
    whole = {
        "target": args.target if args.run is None else args.target or str(args.run),
        "examined": kinds,
        "wrong": wrong,
        "dialogues": dialogues,
        "points": points,
    }
    return msgspec.json.encode(whole).decode()
