"""Post feedback on a turn or a session to a running collector, or say what rewards a store's feedback makes."""

import argparse
from math import isfinite
from pathlib import Path
from typing import Any

_KINDS = ("thumb", "score", "accept", "edit", "outcome", "judge")
_SCALES = (
    "what sort of judgement it is, and its usual --value: thumb 1 up, 0 down; accept 1 taken over, 0 not; score, judge "
    "and outcome 0 worst to 1 best; edit needs none, its --text is the corrected reply. Any finite number is stored "
    "as it is, so keep one scale per kind"
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the command's arguments."""
    parser.add_argument(
        "--url", default="http://127.0.0.1:8000", help="the collector, with or without /v1 (%(default)s)"
    )
    judged = parser.add_mutually_exclusive_group()
    judged.add_argument("--response", metavar="ID", help="response id that the client got, or a turn id")
    judged.add_argument("--session", metavar="ID", help="session, judged as a whole or, with --turn, one of its turns")
    parser.add_argument("--turn", type=int, metavar="N", help="1-based turn of the session")
    parser.add_argument("--kind", choices=_KINDS, help=_SCALES)
    parser.add_argument("--value", type=float, metavar="X", help="higher is better; the scale is in --kind")
    parser.add_argument("--text", help="free text")
    parser.add_argument("--source", default="command line", help="what judged (command line)")
    parser.add_argument("--user", help="who judged; only a keyed hash of it is stored")
    parser.add_argument("--id", dest="feedback_id", metavar="ID", help="posting the same id again counts once")
    parser.add_argument("--supersedes", metavar="ID", help="feedback id that this one replaces")
    parser.add_argument("--key-file", type=Path, metavar="FILE", help="file that holds the API key")
    parser.add_argument(
        "--explain",
        action="store_true",
        help="post nothing: show the mapping from feedback to reward and, with --response or --session, which "
        "judgements count, why others do not, and the reward",
    )
    parser.add_argument("--store", type=Path, default=Path("store"), metavar="DIR", help="for --explain (./store)")
    parser.add_argument("--config", type=Path, metavar="FILE", help="settings for --explain (./roundhouse.toml)")
    parser.add_argument("--json", action="store_true", help="print the collector's answer, or the explanation, as JSON")


def run(args: argparse.Namespace) -> int:
    """Posts one judgement and prints its receipt, or explains."""
    from collector.errors import UserError

    if args.explain:
        from console.feedback_explained import explain

        return explain(args)
    if args.kind is None:
        raise UserError("--kind is missing; --help says which there are")
    if args.response is None and args.session is None:
        raise UserError("nothing is judged; give --response ID or --session ID")
    if args.value is not None and not isfinite(args.value):
        raise UserError(f"--value is {args.value}, expected a finite number; leave it out when there is none")
    names = ("turn", "kind", "value", "text", "source", "user", "feedback_id", "supersedes")
    body = {name: getattr(args, name) for name in names} | {"response_id": args.response, "session_id": args.session}
    answer = _post(args.url, {name: value for name, value in body.items() if value is not None}, args.key_file)
    if args.json:
        import json

        print(json.dumps(answer))
        return 0
    again = " (it was there already and counts once)" if answer["duplicate"] else ""
    print(f"stored {answer['feedback_id']} on {answer['turn_id'] or 'session ' + answer['session_id']}{again}")
    return 0


def _post(url: str, body: dict[str, object], key_file: Path | None) -> Any:  # Any: JSON as it came
    import json
    import urllib.error
    import urllib.request

    from collector.errors import UserError

    headers = {"content-type": "application/json"}
    if key_file is not None:
        try:
            headers["authorization"] = f"Bearer {key_file.read_text(encoding='utf-8').strip()}"
        except OSError as error:
            raise UserError(f"{key_file} cannot be read: {error.strerror}; give a file that holds the key") from error
    address = f"{url.rstrip('/').removesuffix('/v1')}/v1/feedback"
    if not address.startswith(("http://", "https://")):
        raise UserError(f"--url is {url}, expected the http address of a collector")
    request = urllib.request.Request(address, json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        raise UserError(f"{address} answered {error.code}: {_message(error.read())}") from error
    except (OSError, ValueError) as error:
        raise UserError(f"{address} gave no answer: {error}; is the collector running there?") from error


def _message(body: bytes) -> str:
    import json

    from collector.terminal_text import terminal_safe

    try:
        message = str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        message = body[:200].decode(errors="replace")
    return terminal_safe(message, keep="\n\t")
