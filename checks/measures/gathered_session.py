"""A session's turns while it is read a second time, chained as the first pass found."""

from collections.abc import Sequence

from checks.measures.held_turn import HeldTurn
from checks.measures.turn_chains import NONE, SUSPECT, TurnChains
from checks.measures.turn_ids import bytes_of
from checks.measures.turn_messages import TurnMessages
from checks.ragged import Array


class GatheredSession:
    """Turns of one session while it is read a second time."""

    def __init__(self, session_id: str, chains: TurnChains, session: int) -> None:
        self.session_id = session_id
        self._chains = chains
        self._numbers = list(reversed(list(chains.of_session(session))))
        self._place = {turn: place for place, turn in enumerate(self._numbers)}
        self._turns: list[HeldTurn] = []

    @property
    def missing(self) -> int:
        """Turns still to come."""
        return len(self._numbers) - len(self._turns)

    def add(
        self, number: int, prompt: Array, completion: Array, *, failed: bool, messages: TurnMessages | None
    ) -> None:
        """The session's next turn."""
        at = self._numbers[len(self._turns)]
        parent = self._chains.parent[at]
        self._turns.append(
            HeldTurn(
                place=len(self._turns),
                number=number,
                parent=None if parent == NONE else self._turns[self._place[parent]],
                prompt=prompt,
                completion=completion,
                failed=failed,
                suspect=bool(self._chains.flags[at] & SUSPECT),
                messages=messages,
            )
        )

    def ordered(self, disordered: bool) -> Sequence[HeldTurn]:
        """All of them by number, chained anew where the log has them in another order."""
        if not disordered:
            return self._turns
        chains, turns = TurnChains(), list[HeldTurn]()
        chains.begin_session()
        for turn in sorted(self._turns, key=lambda each: (each.number, each.place)):
            ids = turn.ids()
            prompt, completion = ids[: turn.prompt_tokens], ids[turn.prompt_tokens :]
            at = chains.add(0, bytes_of(prompt), bytes_of(completion), failed=turn.failed)
            parent = chains.parent[at]
            turns.append(
                HeldTurn(
                    place=at,
                    number=turn.number,
                    parent=None if parent == NONE else turns[parent],
                    prompt=prompt,
                    completion=completion,
                    failed=turn.failed,
                    suspect=bool(chains.flags[at] & SUSPECT),
                    messages=turn.messages,
                )
            )
        return turns
