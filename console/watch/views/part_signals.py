"""The signals of a log of which only a part was read: what the trainer said of single steps, and no judgement of it."""

import msgspec

from console.watch.held import Held, empty
from console.watch.topic import OpenLog, Topic, of_part
from console.watch.views.first_mover import FirstMover
from console.watch.views.lane import Lane
from console.watch.views.other_faults import OtherFaults
from console.watch.views.signal_findings import CHECK_OF
from console.watch.views.signal_grading import Gradings
from console.watch.views.signals import SignalsAsk, SignalsBuilder, SignalsView
from console.watch.views.untrainable import Untrainable

UNTOLD = "told once all of the log was read"
_SUMMED = ("turns", "rewards", "feedback", "evals", "spans")
"""Tables of which a step has several rows: some of those of the part's first steps may stand before it."""


def topic(gradings: Gradings | None = None) -> Topic[SignalsAsk]:
    """The signals of all there is, with the gradings that are made beside it, or of a part of a log."""
    whole, some = SignalsBuilder(gradings), SignalsBuilder()

    def build(held: Held, ask: SignalsAsk, log: OpenLog) -> SignalsView:
        return whole.build(held, ask, log) if held.source.part is None else _of_part(some, held, ask, log)

    return of_part("signals", build, tells_ages=True)


def _of_part(builder: SignalsBuilder, held: Held, ask: SignalsAsk, log: OpenLog) -> SignalsView:
    steps = held._replace(**{name: empty(name) for name in _SUMMED})
    ask = msgspec.structs.replace(ask, report=False, grading=None)
    view = builder.build(steps, ask, log)
    return msgspec.structs.replace(
        view,
        lanes=tuple(map(_unjudged, view.lanes)),
        adapters=tuple(msgspec.structs.replace(each, moved=None) for each in view.adapters),
        first_mover=FirstMover(unknown=tuple(CHECK_OF)),
        findings=(),
        untrainable=Untrainable(turns=0, untrainable=0, share=None, reasons=()),
        others=OtherFaults(),
        alerts=(),
    )


def _unjudged(lane: Lane) -> Lane:
    return msgspec.structs.replace(
        lane,
        state="no_data",
        word=None,
        status="no_data",
        band=None,
        baseline=False,
        onset=None,
        place=None,
        faults=(),
        faults_total=0,
        why=UNTOLD,
    )
