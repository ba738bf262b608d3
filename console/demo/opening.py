"""What the agent shows the model before the first request: its tools and a few worked examples.

The wording was chosen by measuring SmolLM2-135M, which was never trained on tools. Three things made its calls
well-formed: few tools at a time, quoted text in the request, and the next request inside the last tool result, so
that every message before a call looks alike. One example of a mistake that is put right makes it recover from its own.
"""

import json
from typing import Any

from console.demo.task import Family, Request

SYSTEM = "You edit files with tools."
ERROR = "error: no tool call."

TOOLS: dict[str, dict[str, object]] = {
    name: {"type": "function", "function": {"name": name, "description": description}}
    for name, description in {
        "write_file": "write content to path",
        "read_file": "read path",
        "list_files": "list the files",
    }.items()
}
"""The tools as they are offered to the model, by name."""

_READ = (
    Request("Read old.txt.", "read_file", "old.txt"),
    Request("Write to new.txt the text of old.txt.", "write_file", "new.txt", "green tea"),
    Request("Read poem.txt.", "read_file", "poem.txt"),
    Request("Write to page.txt the text of poem.txt.", "write_file", "page.txt", "white moon"),
)
_WRITE = tuple(
    Request(f'Write to {path} the text "{content}".', "write_file", path, content)
    for path, content in (
        ("fruit.txt", "red apple"),
        ("water.txt", "slow river"),
        ("bird.txt", "black crow"),
        ("tree.txt", "tall oak"),
    )
)
_LIST = Request("List the files.", "list_files")
_OVERWRITE = tuple(
    Request(f'Write to old.txt the text "{content}".', "write_file", "old.txt", content)
    for content in ("tall oak", "warm bread")
)

EXAMPLES: dict[Family, tuple[Request, ...]] = {
    "write": _WRITE,
    "copy": (*_READ[:2], _WRITE[0], *_READ[2:]),
    "list": (_LIST, _OVERWRITE[0], _WRITE[0], _LIST, _OVERWRITE[1]),
}
"""Requests that are shown with their right calls, by family."""

_RESULTS = {"old.txt": "green tea", "poem.txt": "white moon"}
_MISTAKE_AT = 1


def opening(family: Family, first: Request) -> list[dict[str, Any]]:
    """The conversation up to the point where the model answers the first request."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": SYSTEM}]
    result: tuple[str, str] | None = None
    for number, request in enumerate((*EXAMPLES[family], first)):
        messages.append(_asked(request, result))
        if request is first:
            break
        if number == _MISTAKE_AT:
            messages.append({"role": "assistant", "content": "I did it."})
            messages.append({"role": "user", "content": f"{ERROR} {request.text}"})
        call_id = f"example{number}"
        messages.append({"role": "assistant", "content": None, "tool_calls": [tool_call(call_id, request)]})
        result = call_id, _example_result(request)
    return messages


def tool_call(call_id: str, request: Request) -> dict[str, Any]:
    """The right call for a request, in the wire shape of a chat message."""
    given = {"path": request.path, "content": request.content}
    arguments = json.dumps({name: value for name, value in given.items() if value is not None})
    return {"id": call_id, "type": "function", "function": {"name": request.tool, "arguments": arguments}}


def _asked(request: Request, result: tuple[str, str] | None) -> dict[str, Any]:
    if result is None:
        return {"role": "user", "content": request.text}
    call_id, text = result
    return {"role": "tool", "tool_call_id": call_id, "content": f"{text}. {request.text}"}


def _example_result(request: Request) -> str:
    match request.tool:
        case "read_file":
            return f'{request.path} says "{_RESULTS[str(request.path)]}"'
        case "list_files":
            return 'files: "old.txt"'
        case _:
            return "ok"
