"""An adapter's work for a person: the funnel, whose gradient it is, who answers, and the batches."""

from collections.abc import Iterator, Mapping

from trainer.batch.funnel import Count, Funnel
from trainer.batch.reasons import meaning_of
from trainer.batch.response_rate import ResponseRate, ResponseRates
from trainer.batch.work import AdapterWork

_NAMED_USERS = 5


def funnel_lines(work: AdapterWork) -> list[str]:
    """Plain lines, none indented by more than four spaces."""
    steps = f"{len(work.batches)} update batches, {work.new_feedback} judgements behind them"
    return [
        f"{work.adapter} of {work.tenant}: {steps}",
        *_stages(work.funnel),
        *_batches(work.funnel),
        *_shares(work.funnel),
        *_responses(work.response),
    ]


def _stages(funnel: Funnel) -> Iterator[str]:
    yield _row("captured", funnel.captured)
    for stage in funnel.stages:
        for reason, count in stage.left_out.items():
            yield f"    {_row('- ' + reason, count)}  {meaning_of(reason)}"
        yield _row(stage.stage, stage.passed)


def _row(name: str, count: Count) -> str:
    return f"  {name:<20} {count.turns:>9,} turns {count.tokens:>13,} tokens"


def _batches(funnel: Funnel) -> Iterator[str]:
    if funnel.batch_sessions:
        sizes = funnel.batch_sessions
        yield f"  sessions per step: {min(sizes)} to {max(sizes)}, {sum(sizes)} in all"
    if 1 in funnel.batch_sessions:
        yield f"  ! {funnel.batch_sessions.count(1)} steps from a single session: raise [trainer.batch] min_sessions"
    if funnel.zero_variance_groups:
        yield f"  groups whose rewards are all the same: {funnel.zero_variance_groups}"
    if funnel.ignored_feedback:
        ignored = ", ".join(f"{reason} {count}" for reason, count in funnel.ignored_feedback.items())
        yield f"  feedback that does not count: {ignored}"


def _shares(funnel: Funnel) -> Iterator[str]:
    if funnel.share_by_user:
        named = dict(list(funnel.share_by_user.items())[:_NAMED_USERS])
        yield f"  share of the gradient by user ({funnel.users} in all): {_percent(named)}"
        yield f"  share of the gradient by version: {_percent(funnel.share_by_version)}"


def _percent(shares: Mapping[str, float]) -> str:
    return ", ".join(f"{name[:24]} {share:.1%}" for name, share in shares.items())


def _responses(response: ResponseRates) -> Iterator[str]:
    for name, rates in (
        ("tenant", response.tenant),
        ("version", response.version),
        ("outcome", response.outcome),
        ("turns", response.turns),
    ):
        if rates:
            yield f"  answered by {name}: " + ", ".join(_rate(value, rate) for value, rate in rates.items())


def _rate(value: str, rate: ResponseRate) -> str:
    return f"{value} {rate.rate:.0%} ({rate.answered} of {rate.sessions})"
