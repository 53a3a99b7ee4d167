"""Figures follow the page: its colours, names of their own, and nothing but shapes."""

import pytest

from sottovoce.errors import InputError
from sottovoce.report.themes import themed

EVIL = """<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 4 4"
 onload="alert(1)"><script>alert(1)</script><style>*{display:none}</style><foreignObject><p>x</p></foreignObject>
<a href="javascript:alert(1)"><rect/></a><image href="https://example.org/x.png"/><use xlink:href="other.svg#x"/>
<path fill="url(https://example.org/#a)" style="stroke: URL( #b ); clip-path: url(//example.org)"/>
<g id="a" style="fill: #FFFFFF; background: url(https://example.org)" onclick="x"><path clip-path="url(#a)"
 d="M0 0"/></g>
<text x="1">&lt;script&gt;</text></svg>"""


def test_nothing_but_shapes_is_taken_over() -> None:
    found = themed(EVIL, "first", 'a "drawing" <b>')
    for word in (
        "onload",
        "onclick",
        "script>",
        "style",
        "foreignObject",
        "javascript",
        "example.org",
        "other.svg",
    ):
        assert word not in found.replace("&lt;script&gt;", "")
    assert '<g id="first-a" fill="var(--panel)"><path clip-path="url(#first-a)" d="M0 0"/></g>' in found
    assert '<text x="1">&lt;script&gt;</text>' in found
    assert 'aria-label="a &quot;drawing&quot; &lt;b&gt;"' in found


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "<p/>",
        "<svg>",
        "<svg/>",
        '<svg viewBox="&quot;&gt;"/>',
        '<svg viewBox="0 0 1.2.3 ."/>',
        "<!DOCTYPE svg [<!ENTITY a 'b'>]><svg/>",
    ],
)
def test_what_is_no_figure_is_refused(wrong: str) -> None:
    with pytest.raises(InputError, match="a figure must be an SVG file"):
        themed(wrong, "x", "y")


def test_shapes_too_deep_to_follow_are_refused() -> None:
    deep = 5000
    with pytest.raises(InputError, match="must not lie so deep in each other"):
        themed('<svg viewBox="0 0 9 9">' + "<g>" * deep + "</g>" * deep + "</svg>", "x", "y")
