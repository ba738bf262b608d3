"""Two turns through the collector with the ordinary openai client, then a judgement of the second one.

Usage: OPENAI_BASE_URL=http://127.0.0.1:8000/v1 OPENAI_API_KEY=dev python samples/agent.py
"""

import json
import os
import urllib.request

from openai import OpenAI


def main() -> None:
    """Asks, asks on, and says that the last answer was good."""
    client = OpenAI()
    model = client.models.list().data[0].id
    messages = [{"role": "user", "content": "Name a colour."}]
    response_id = ""
    for question in ("Name another one.", None):
        stream = client.chat.completions.create(model=model, messages=messages, max_tokens=48, stream=True)
        text = ""
        for chunk in stream:
            response_id = chunk.id
            text += chunk.choices[0].delta.content or "" if chunk.choices else ""
        print(f"{messages[-1]['content']} -> {text!r}")
        messages.append({"role": "assistant", "content": text})
        if question is not None:
            messages.append({"role": "user", "content": question})
    print(judge(response_id, good=True))


def judge(response_id: str, *, good: bool) -> dict[str, object]:
    """Posts feedback on a turn; the response id is the receipt."""
    body = {"response_id": response_id, "kind": "thumb", "value": 1.0 if good else 0.0, "source": "samples/agent.py"}
    request = urllib.request.Request(
        f"{os.environ['OPENAI_BASE_URL']}/feedback",
        data=json.dumps(body).encode(),
        headers={"content-type": "application/json", "authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"},
    )
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.load(reply)


if __name__ == "__main__":
    main()
