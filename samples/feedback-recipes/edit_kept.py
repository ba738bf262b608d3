"""Whether an agent's edit was kept: the share of the lines its commit added that are still in the working tree.

Run it when the dust has settled, a day later or when the branch is merged, and before the feedback window closes.

Usage: ROUNDHOUSE_URL=http://127.0.0.1:8000 ROUNDHOUSE_KEY=dev \
       python samples/feedback-recipes/edit_kept.py --repo . --commit COMMIT --response RESPONSE_ID
"""

import argparse
import json
import os
import subprocess
import urllib.request
from collections import Counter
from pathlib import Path


def main() -> None:
    """Measures, and posts the share as `accept`: 1 is kept whole, 0 reverted."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repo", type=Path, default=Path())
    parser.add_argument("--commit", required=True, help="the commit with the agent's edit")
    parser.add_argument("--response", required=True, help="id of the response that made the edit")
    args = parser.parse_args()
    added = added_lines(args.repo, args.commit)
    if not sum(map(len, added.values())):
        print("the commit added no line: nothing to judge")
        return
    kept = kept_share(args.repo, added)
    commit = git(args.repo, "rev-parse", args.commit).strip()
    # The same commit is judged once: when this runs again, the first judgement stands.
    print(post(args.response, kept, f"edit-kept/{commit}"))


def added_lines(repo: Path, commit: str) -> dict[str, list[str]]:
    """File to the lines that a commit added to it, blank ones left out."""
    added: dict[str, list[str]] = {}
    path = ""
    for line in git(repo, "show", "--format=", "--unified=0", "--no-color", "--no-renames", commit).splitlines():
        if line.startswith("+++ "):
            path = line.removeprefix("+++ ").removeprefix("b/")
        elif line.startswith("+") and line[1:].strip() and path != "/dev/null":
            added.setdefault(path, []).append(line[1:].strip())
    return added


def kept_share(repo: Path, added: dict[str, list[str]]) -> float:
    """Share of the added lines that their files still have, wherever they moved to within them."""
    kept = 0
    for name, lines in added.items():
        path = repo / name
        now = Counter(line.strip() for line in path.read_text(errors="replace").splitlines()) if path.exists() else {}
        kept += sum(min(count, now.get(line, 0)) for line, count in Counter(lines).items())
    return kept / sum(map(len, added.values()))


def git(repo: Path, *words: str) -> str:
    """What git prints."""
    return subprocess.run(["git", "-C", str(repo), *words], check=True, capture_output=True, text=True).stdout


def post(response_id: str, value: float, feedback_id: str) -> dict[str, object]:
    """Posts the judgement; the response id is the receipt."""
    body = {
        "response_id": response_id,
        "kind": "accept",
        "value": round(value, 4),
        "feedback_id": feedback_id,
        "source": "edit_kept",
    }
    headers = {"content-type": "application/json", "authorization": f"Bearer {os.environ['ROUNDHOUSE_KEY']}"}
    request = urllib.request.Request(
        f"{os.environ['ROUNDHOUSE_URL']}/v1/feedback", data=json.dumps(body).encode(), headers=headers
    )
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.load(reply)


if __name__ == "__main__":
    main()
