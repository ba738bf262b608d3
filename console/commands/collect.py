"""Run the collector: agents talk to it as to any OpenAI server, and every token is recorded before a reply ends."""

import argparse
import sys
from pathlib import Path

from console.stop_with_stdin import add_stop_with_stdin, watch_stdin


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument(
        "--engine",
        action="append",
        default=[],
        metavar="URL",
        help="an engine worker to sample from, such as http://127.0.0.1:30000; repeat for more ([collector] engines)",
    )
    parser.add_argument("--model", help="folder of the model the engine serves (default: [engine] model, smollm2-135m)")
    parser.add_argument("--store", type=Path, default=Path("store"), metavar="DIR", help="where to record (./store)")
    parser.add_argument("--host", help="address to listen on (127.0.0.1)")
    parser.add_argument("--port", type=int, help="port to listen on, 0 for a free one (8000)")
    parser.add_argument("--ready-file", type=Path, metavar="FILE", help="gets the URL once the collector listens")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings (./roundhouse.toml if there)")
    parser.add_argument("--new-key", metavar="TENANT", help="print a new API key for a tenant, and do nothing else")
    add_stop_with_stdin(parser)


def run(args: argparse.Namespace) -> int:
    """Serves until it is told to stop."""
    if args.new_key is not None:
        return _print_new_key(args.new_key)
    if args.stop_with_stdin:
        watch_stdin()
    import logging

    import msgspec

    from collector.errors import UserError
    from collector.ready_file import write_ready_file
    from collector.server import run_collector
    from console.config import load_config
    from console.log_lines import TerminalFormatter
    from trainer.engine.model_folder import find_model

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    whole = load_config(args.config, say=say)
    config = whole.collector
    if not (engines := tuple(args.engine) or config.engines):
        raise UserError(
            "--engine is missing, and [collector] engines names none; give the engine's URL, such as "
            "http://127.0.0.1:30000"
        )
    given = {name: getattr(args, name) for name in ("host", "port") if getattr(args, name) is not None}
    config = msgspec.structs.replace(config, **given)
    if not 0 <= config.port <= 65535:
        name = "--port" if args.port is not None else "[collector] port"
        raise UserError(f"{name} is {config.port}, expected 0 to 65535; 0 takes a free one")
    handler = logging.StreamHandler()
    handler.setFormatter(TerminalFormatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])

    def announce(url: str) -> None:
        mode = "" if config.keys else " (no keys: development mode, this machine only)"
        print(f"collector ready at {url}, model {config.model_name or model.resolve().name}{mode}", flush=True)
        if args.ready_file is not None:
            write_ready_file(args.ready_file, url)

    engine = msgspec.structs.replace(whole.engine, model=args.model or whole.engine.model)
    model = Path(find_model(engine, say))
    if engine.model != model.name and not Path(engine.model).is_dir():
        # A model that was named, not pointed at: clients may use the name too.
        config = msgspec.structs.replace(config, model_aliases=[*config.model_aliases, engine.model])
    run_collector(config, engines=engines, model=model, store=args.store, announce=announce)
    return 0


def _print_new_key(tenant: str) -> int:
    from collector.keys import check_tenant, new_key, sha256_of

    check_tenant(tenant)
    key = new_key()
    print(f"key, shown once: {key}")
    print("add to roundhouse.toml, in the folder the collector starts in or given by --config:")
    print(f'\n[collector.keys]\n{sha256_of(key)} = "{tenant}"')
    return 0
