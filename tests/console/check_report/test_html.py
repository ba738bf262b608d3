"""The HTML report: one file that needs nothing else, in which text of models stays text."""

from collections.abc import Callable
from html.parser import HTMLParser

import pytest

from checks.report import Report
from console.check_report.html import render_html
from tests.console.check_report.conftest import Exhibits
from tests.console.check_report.made_report import HOSTILE, report

Shown = Callable[[Report], Exhibits]
VOID = {"meta", "br"}
ALLOWED = {
    *VOID,
    *("html", "head", "title", "style", "body", "main", "section", "div", "h1", "h2", "h3", "p", "a", "span", "bdi"),
    *("strong", "small", "ul", "li", "dl", "dt", "dd", "details", "summary"),
    *("table", "thead", "tbody", "tr", "th", "td"),
    *("svg", "text", "line", "path", "rect", "circle"),
}


class Page(HTMLParser):
    """Collects elements, ids, links and text, and holds that elements are closed in order."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element begins."""
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """An element that holds nothing."""
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        """An element ends."""
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Text between."""
        if self.open and self.open[-1] != "style":
            self.text.append(data)


@pytest.fixture(params=["plain", HOSTILE], ids=["plain", "hostile"])
def page(request: pytest.FixtureRequest, shown: Shown) -> Page:
    """The made report as a page."""
    made = report(request.param)
    return Page(render_html(made, shown(made)))


def test_nothing_is_loaded_and_nothing_runs(page: Page) -> None:
    assert {tag for tag, _ in page.tags} <= ALLOWED
    for _, attributes in page.tags:
        assert not {name for name in attributes if name.startswith("on") or name in ("src", "srcset", "style")}
        assert (attributes.get("href") or "#").startswith("#")
    policy = [a["content"] for tag, a in page.tags if tag == "meta" and "http-equiv" in a]
    assert policy == ["default-src 'none'; style-src 'unsafe-inline'"]


def test_the_style_sheet_loads_nothing_either(shown: Shown) -> None:
    html = render_html(report(), shown(report()))
    assert "url(" not in html
    assert "@import" not in html
    assert "prefers-color-scheme: dark" in html


def test_text_of_models_has_no_control_character_and_no_change_of_direction(shown: Shown) -> None:
    made = report(HOSTILE)
    html = render_html(made, shown(made))
    assert all(letter.isprintable() or letter == "\n" for letter in html)
    html.encode()
    seen = "".join(Page(html).text)
    assert "\\x1b[31mred\\x1b]0;title\\x07 <script>alert(1)</script> \\x00 \\ud800 \\u202eevil" in seen


def test_every_check_is_in_the_table_with_a_word_and_a_sign(page: Page) -> None:
    seen = "".join(page.text)
    for name in ("importance-weight", "first-mover", "duplicate-prefix", "pass-at-k"):
        assert name in seen
    for status in ("✗ FAIL", "! WARN", "i info", "? no data", "✓ ok"):
        assert status in seen


def test_every_link_leads_somewhere_and_every_id_is_there_once(page: Page) -> None:
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {(attributes["href"] or "").removeprefix("#") for tag, attributes in page.tags if tag == "a"}
    assert links <= set(ids)
    assert len(links) >= 18


def test_the_diff_of_a_break_stands_token_by_token(page: Page) -> None:
    seen = "".join(page.text)
    assert "− turn 1 as it went on from 35<think>259\\n10" in seen
    assert "+ turn 2 as sent from 35T84h104e101" in seen


def test_each_series_is_drawn_and_says_what_it_is(page: Page) -> None:
    drawn = [attributes["aria-label"] or "" for tag, attributes in page.tags if tag == "svg"]
    assert [label.rpartition(": ")[2] for label in drawn] == [
        "log w, nats over token of the completion",
        "tokens over w",
        "nats over step",
        "reward over step",
    ]
    assert all(attributes.get("role") == "img" for tag, attributes in page.tags if tag == "svg")
