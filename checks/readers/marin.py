"""Marin's rollout engine: rollouts as JSON lines, each conversation with the tokens of its steps."""

from collections.abc import Iterator

from checks.readers.fields import Json, JsonObject, finish, floats, mapping, objects, text, token_ids
from checks.readers.file_head import FileHead
from checks.readers.file_order import in_order, short
from checks.readers.format import Format, Unit
from checks.readers.json_document import documents
from checks.readers.json_outline import outline
from checks.readers.unreadable import UnreadableParts
from checks.rows import Row, TurnRow

_CONVERSATION = frozenset({"run_id", "conversations"})


def recognise(head: FileHead) -> str | None:
    """By a run's conversations, at the top of a line or of a list."""
    keys = outline(head)
    found = keys >= _CONVERSATION or {f"[].{name}" for name in _CONVERSATION} <= keys
    return "rollouts with run_id and conversations" if found else None


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """The turns of every conversation in a file."""
    for path in unit:
        for place, rollout in documents(path, unreadable):
            try:
                conversations = objects(rollout.get("conversations"), "conversations")
                for index, conversation in enumerate(conversations):
                    where = f"{short(path)}:{place.rsplit(':', 1)[-1]}"
                    name = f"{text(rollout.get('run_id')) or where}/{index}"
                    yield from list(_turns(conversation, name, place))
            except ValueError as error:
                unreadable.add(place, str(error))


def _turns(conversation: JsonObject, session: str, place: str) -> Iterator[TurnRow]:
    """A conversation: one turn per step, as the step has it. In messages mode the steps hold no log-probabilities."""
    for number, step in enumerate(objects(conversation.get("steps"), "steps"), start=1):
        turn = mapping(step.get("turn"))
        incomplete = mapping(mapping(step.get("transition")).get("metrics")).get("advance_incomplete")
        trained: dict[str, Json] = (
            {"trainable": False, "untrainable_reason": "advance_incomplete"} if incomplete else {}
        )
        yield TurnRow(
            session_id=session,
            turn=number,
            prompt_ids=token_ids(turn.get("prompt_token_ids"), "prompt_token_ids"),
            completion_ids=token_ids(turn.get("response_token_ids"), "response_token_ids"),
            sampled_logprobs=floats(turn.get("logprobs"), "logprobs"),
            finish_reason=finish(text(turn.get("stop_reason"))),
            response=mapping(turn.get("message")) or None,
            place=place,
            api="import:marin",
            **trained,
        )


MARIN = Format(
    name="marin",
    about="Marin rollouts: conversations with the tokens of each step",
    recognise=recognise,
    read=read,
    units=in_order,
    alone=(TurnRow,),
    advice={
        "turns.sampled_logprobs": "Marin: EXACT_TOKENS mode records ids and log-probabilities; MESSAGES mode does not",
        "turns.trainer_logprobs": "Marin's rollout engine has the sampling side; the trainer keeps its own numbers",
        "scores.trainer_logprobs": "Marin's rollout engine has the sampling side; the trainer keeps its own numbers",
    },
)
