"""Show the adapters of a store and change what is served: promote, try as a canary, hold, pin, roll back."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collector.store.registry import Registry
    from console.adapter_orders import Order, Outcome
    from console.adapters_serving import Serving

_HELP = {
    "list": "every adapter with its live version, canary, candidate, holds and the gate's last verdict",
    "show": "one adapter: versions, gate reports, routes, and who changed what and why",
    "add": "register an adapter; the sessions of a tenant without routes go to its version 0, the base model",
    "promote": "make a candidate or canary live; needs a passing gate report, or --force",
    "canary": "give a candidate a share of new sessions; it is never promoted by itself",
    "reject": "end a candidate or canary",
    "hold": "nothing is promoted by itself until the adapter is released",
    "release": "end a hold",
    "pin": "name the version that the gate compares with beside the live one",
    "rollback": "go back to the previous live version, retire what came after it, and hold the adapter",
}
_ROUTING = ("promote", "canary", "reject", "rollback")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    made = {name: actions.add_parser(name, help=text, description=text) for name, text in _HELP.items()}
    for name, action in made.items():
        action.add_argument("--store", type=Path, default=Path("store"), metavar="DIR", help="the store (./store)")
        action.add_argument("--json", action="store_true", help="print one JSON object")
        if name != "list":
            action.add_argument("adapter", metavar="NAME", help="the adapter")
        if name not in ("list", "show"):
            action.add_argument("--reason", required=True, metavar="TEXT", help="why; kept in the audit")
            action.add_argument("--actor", metavar="WHO", help="who decides; kept in the audit (your login name)")
        if name in _ROUTING:
            action.add_argument("--yes", action="store_true", help="do not ask")
            action.add_argument("--config", type=Path, metavar="FILE", help="settings (./roundhouse.toml if there)")
        if name in ("promote", "canary", "rollback"):
            text = "an engine worker ([collector] engines); once for each. A version that one of them does not serve, "
            text += "or that was not proved, is loaded and proved before anything changes"
            action.add_argument("--engine", action="append", default=[], metavar="URL", help=text)
            text = "folder of the base model, for a proof (default: [engine] model)"
            action.add_argument("--model", metavar="DIR", help=text)
        if name in ("promote", "canary"):
            action.add_argument("--force", action="store_true", help="against the gate; the audit says so")
    for name in ("promote", "canary", "reject"):
        made[name].add_argument("version", type=int, metavar="VERSION", help="its version")
    made["canary"].add_argument("--share", type=float, required=True, metavar="X", help="of new sessions: 0.1 is 10 %%")
    made["add"].add_argument("--tenant", required=True, help="its owner")
    made["add"].add_argument("--base-model", required=True, metavar="NAME", help="the frozen base model")
    made["pin"].add_argument(
        "version", type=int, nargs="?", metavar="VERSION", help="left out: by held-out score again"
    )
    made["rollback"].add_argument("--to", type=int, metavar="VERSION", help="an earlier version than the previous one")


def run(args: argparse.Namespace) -> int:
    """Shows or changes."""
    from collector.errors import UserError
    from collector.store.registry_schema import FILE_NAME

    if args.action != "add" and not (args.store / FILE_NAME).is_file():
        raise UserError(f"{args.store}: no {FILE_NAME} in it, expected a store with adapters; give --store its folder")
    if args.action in ("list", "show"):
        return _show(args)
    return _change(args)


def _show(args: argparse.Namespace) -> int:
    from datetime import UTC, datetime

    import msgspec

    from collector.store.registry_rows import read_audit, read_registry
    from console.adapters_text import list_json, list_text, show_json, show_text
    from trainer.adapter_standing import standing

    snapshot, at = read_registry(args.store), datetime.now(UTC)
    if args.action == "list":
        shown: Any = list_json(snapshot, at) if args.json else list_text(snapshot, at)
    else:
        now = standing(snapshot, args.adapter)
        about = (args.adapter, None)
        audit = [
            row for row in read_audit(args.store) if row.adapter in about and row.tenant in (None, now.adapter.tenant)
        ]
        shown = (show_json if args.json else show_text)(now, audit, at)
    print(msgspec.json.encode(shown).decode() if args.json else "\n".join(shown))
    return 0


def _change(args: argparse.Namespace) -> int:
    from collector.store.registry import Registry
    from console.adapter_orders import carry_out, login_name

    args.actor = args.actor or login_name()
    with Registry(args.store) as registry:
        if args.action == "add":
            done = _add(args, registry)
        else:
            seen = registry.snapshot().revision
            if args.action in _ROUTING and not args.yes:
                _ask(args, registry)
            done = carry_out(_order(args, seen), registry, _serving(args))
    if args.json:
        told = {"adapter": args.adapter, "action": args.action, "live_before": done.before, "live": done.live}
        print(json.dumps(told | {"revision": done.revision, "behind": done.behind}))
        return 0
    if done.before is not None and done.live != done.before:
        print(f"{args.adapter}: live is {done.live}, was {done.before} (revision {done.revision})")
    else:
        print(f"{args.adapter}: {args.action} is done, live is {done.live} (revision {done.revision})")
    for reader in done.behind:
        print(f"{reader} does not act on it yet; is that collector running?", file=sys.stderr)
    return 0


def _add(args: argparse.Namespace, registry: "Registry") -> "Outcome":
    from console.adapter_orders import outcome
    from trainer.adapters import add_adapter

    add_adapter(
        registry,
        args.adapter,
        tenant=args.tenant,
        base_model=args.base_model,
        actor=args.actor,
        reason=args.reason,
    )
    return outcome(registry, args.adapter, registry.revision(), before=None)


def _order(args: argparse.Namespace, seen: int) -> "Order":
    from console.adapter_orders import Order

    return Order(
        action=args.action,
        adapter=args.adapter,
        actor=args.actor,
        reason=args.reason,
        version=args.to if args.action == "rollback" else getattr(args, "version", None),
        share=getattr(args, "share", 0.0),
        force=getattr(args, "force", False),
        seen=seen,
    )


def _serving(args: argparse.Namespace) -> "Serving":
    from console.adapters_serving import Serving

    engines, model = tuple(getattr(args, "engine", ())), getattr(args, "model", None)
    return Serving(args.store, getattr(args, "config", None), engines, model, say=_say)


def _ask(args: argparse.Namespace, registry: "Registry") -> None:
    """Says whom it touches and has the adapter's name typed."""
    from collector.errors import UserError

    if not sys.stdin.isatty():
        raise UserError(f"{args.action} asks before it changes what is served, and there is no terminal; give --yes")
    print(_plan(args, registry), file=sys.stderr)
    print(f"Type {args.adapter} to go on: ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip() != args.adapter:
        raise UserError("the name was not typed; nothing is changed")


def _plan(args: argparse.Namespace, registry: "Registry") -> str:
    """What would change, in one sentence."""
    from datetime import UTC, datetime

    from collector.store.reader import Reader
    from console.config import load_config
    from console.format import number_text
    from trainer.adapter_rules import rollback_target
    from trainer.adapter_standing import standing
    from trainer.blast_radius import blast_radius

    snapshot = registry.snapshot()
    now = standing(snapshot, args.adapter)
    version = rollback_target(snapshot, args.adapter, args.to).version if args.action == "rollback" else args.version
    touched = version if args.action == "reject" else now.live.version
    open_s = load_config(args.config).trainer.reward.window_s
    with Reader(args.store).snapshot(["turns"]) as turns:
        found = blast_radius(turns, args.adapter, touched, now=datetime.now(UTC), open_s=open_s)
    share = "" if found.share is None else f", {number_text(found.share, 'share')} of all"
    verb, tenants = "is" if found.sessions == 1 else "are", number_text(len(found.tenants), "tenants")
    return (
        f"{args.action} {args.adapter}@{version}; live is @{now.live.version}. @{touched} serves "
        f"{number_text(found.sessions, 'sessions')} that {verb} open now, of {tenants}{share}"
    )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
