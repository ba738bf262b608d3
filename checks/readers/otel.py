"""OpenTelemetry spans of model calls: GenAI and OpenInference attributes, in OTLP JSON, JSON lines or Parquet."""

from collections.abc import Iterator

from checks.readers.fields import number, text
from checks.readers.file_head import FileHead
from checks.readers.file_order import in_order
from checks.readers.format import Format, Unit
from checks.readers.json_outline import outline
from checks.readers.otel_spans import Span, spans
from checks.readers.otel_turns import session_of, turn_of
from checks.readers.unreadable import UnreadableParts
from checks.rows import FeedbackRow, Row

_WORDS = (b"gen_ai.", b"openinference", b"llm.token_count", b"llm.input_messages")
_SPAN = ({"attributes", "span_id"}, {"attributes", "context.span_id"}, {"attributes", "spanId"})
_ATTRIBUTES = ("attributes.gen_ai", "attributes.llm", "attributes.openinference")
_EVALUATION = "gen_ai.evaluation.result"


def recognise(head: FileHead) -> str | None:
    """By the shape of an export and a GenAI or OpenInference attribute in its start; of Parquet, by the columns."""
    if head.is_parquet:
        named = any(name.startswith(_ATTRIBUTES) for name in head.columns)
        ids = head.columns & {"span_id", "context.span_id", "spanId"}
        if named or ("attributes" in head.columns and ids):
            return "a Parquet file with spans and their attributes"
        return None
    if not any(word in head.start for word in _WORDS):
        return None
    keys = {key.removeprefix("[].") for key in outline(head)}
    if keys & {"resourceSpans", "resource_spans"}:
        return "resourceSpans with GenAI attributes"
    return "spans with GenAI attributes" if any(shape <= keys for shape in _SPAN) else None


def read(unit: Unit, unreadable: UnreadableParts) -> Iterator[Row]:
    """The model calls in the order in which their spans ended, and evaluations as judgements of them."""
    for path in unit:
        for place, span in spans(path, unreadable, is_parquet=FileHead.of(path).is_parquet):
            session = session_of(span) or path.stem
            try:
                turn = turn_of(span, session=session, place=place, api="import:otel")
                judgements = list(_judgements(span, session, place))
            except ValueError as error:
                unreadable.add(place, str(error))
                continue
            if turn is not None:
                yield turn
            yield from judgements


def _judgements(span: Span, session: str, place: str) -> Iterator[FeedbackRow]:
    for index, event in enumerate(span.events):
        if event["name"] == _EVALUATION:
            value = event["attributes"].get("gen_ai.evaluation.score.value")
            name = text(event["attributes"].get("gen_ai.evaluation.name"))
            yield FeedbackRow(
                feedback_id=f"{span.span_id or place}/{index}/{name}",
                turn_id=span.span_id,
                session_id=session,
                kind="judge",
                value=number(value, "gen_ai.evaluation.score.value"),
                at=span.finished_at,
            )


_NO_IDS = "OpenTelemetry's conventions have no token ids; put roundhouse collect in front of the model to record them"
_CONTENT = "OpenTelemetry: content is opt-in, OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true"

OTEL = Format(
    name="otel",
    about="OpenTelemetry GenAI and OpenInference spans: OTLP JSON, JSON lines, Parquet (Phoenix)",
    recognise=recognise,
    read=read,
    units=in_order,
    advice={
        **dict.fromkeys(("turns.prompt_ids", "turns.completion_ids", "turns.sampled_logprobs"), _NO_IDS),
        "turns.request": _CONTENT,
        "turns.response": _CONTENT,
        "turns.finish_reason": "OpenTelemetry: gen_ai.response.finish_reasons, which not every instrumentation sets",
        "turns.reward": "OpenTelemetry has no reward; evaluations are events gen_ai.evaluation.result",
    },
)
