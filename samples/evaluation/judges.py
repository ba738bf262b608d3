"""Verifier functions of the sample suite: called with the task and the reply, both as in their JSON."""


def bullets(_task: dict, reply: dict) -> float:
    """The share of three bullet points that are there; a reply of more lines than that scores nothing."""
    lines = (reply["content"] or "").splitlines()
    return 0.0 if len(lines) > 3 else sum(line.startswith("- ") for line in lines) / 3
