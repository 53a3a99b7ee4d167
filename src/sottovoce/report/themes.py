# SPDX-License-Identifier: Apache-2.0
"""Figures as parts of a page: SVG that matplotlib wrote, in the colours of the page, light or dark, and in print.

Only shapes are taken over, with a short list of attributes: a figure brings no script, style, link or font along, so
that the page's policy need not let any through.
"""

from __future__ import annotations

import html
import re
from xml.etree import ElementTree as ET

from sottovoce.errors import InputError

__all__ = ["themed"]

_WORDS = frozenset({"text", "tspan", "title"})
_SHAPES = _WORDS | {"g", "path", "use", "defs", "clipPath", "rect", "circle", "ellipse", "line", "polyline"}
_SHAPES |= {"polygon", "image"}
_PLACES = frozenset({"x", "y", "width", "height", "d", "cx", "cy", "r", "rx", "ry", "x1", "y1", "x2", "y2"})
_PLACES |= {"points", "transform", "text-anchor", "font-size", "font-weight"}
_STROKES = {"dasharray", "dashoffset", "linecap", "linejoin", "opacity", "width"}
_STYLES = frozenset({"fill", "fill-opacity", "fill-rule", "opacity", "stroke", "clip-path"})
_STYLES |= {f"stroke-{name}" for name in _STROKES}
# The colours of `figures.style` and of comparisons; what is not here, as a colour scale, stays as it is.
_COLOURS = {
    "#000000": "currentColor",
    "#ffffff": "var(--panel)",
    "#e4e4e4": "var(--line)",
    "#6b6b6b": "var(--line-local)",
    "#0072b2": "var(--line-median)",
    "#d55e00": "var(--line-worst)",
    "#009e73": "var(--line-best)",
    "#e69f00": "var(--line-central)",
    "#56b4e9": "var(--line-sky)",
    "#cc79a7": "var(--line-purple)",
}
_NAMED = re.compile(r"url\(#([\w.-]+)\)")
_BOX = re.compile(r"(?:-?\d{1,19}(?:\.\d{1,19})? ){3}\d{1,19}(?:\.\d{1,19})?")
_PICTURE = "data:image/png;base64,"
PIXELS_PER_POINT = 4 / 3


def themed(svg: str, name: str, told: str) -> str:
    """A figure in the colours of the page; `name` tells its parts from those of others, `told` says what it shows.

    >>> drawn = '<svg viewBox="0 0 9 9"><path id="a" style="stroke: #000000" onclick="x"/><script>x</script></svg>'
    >>> themed(drawn, "first", "A line.").partition(">")[2]
    '<path id="first-a" stroke="currentColor"/></svg>'
    """
    if "<!ENTITY" in svg:
        raise InputError(
            "a figure must be an SVG file without entities, which can grow without end; got one that has some"
        )
    try:
        root = ET.fromstring(svg)  # noqa: S314 - it has no entities
    except ET.ParseError as error:
        raise InputError(f"a figure must be an SVG file; this one is none: {error} (draw it again)") from None
    box = root.get("viewBox") or f"0 0 {root.get('width', '')} {root.get('height', '')}"
    if _local(root) != "svg" or not _BOX.fullmatch(box):
        raise InputError(
            "a figure must be an SVG file with a viewBox, or a width and a height; this one is none (draw it again)"
        )
    try:
        parts = "".join(_written(child, name) for child in root)
    except RecursionError:
        raise InputError(
            "the shapes of a figure must not lie so deep in each other that they cannot be followed (draw it again)"
        ) from None
    # Widths of figures are points; words in them are then as large as those beside them.
    wide = float(box.split()[2]) * PIXELS_PER_POINT
    return (
        f'<svg class="plot" viewBox="{box}" width="{wide:.0f}" fill="currentColor" stroke-linejoin="round" role="img" '
        f'aria-label="{html.escape(told)}">{parts}</svg>'
    )


def _local(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def _written(element: ET.Element, name: str) -> str:
    """One shape and what it holds; nothing of any other element."""
    kind = _local(element)
    if kind not in _SHAPES:
        return ""
    given = "".join(f' {key}="{html.escape(value)}"' for key, value in _attributes(element, name).items())
    words = kind in _WORDS
    within = html.escape(element.text or "") if words else ""
    within += "".join(
        _written(child, name) + (html.escape(child.tail or "") if words else "") for child in element
    )
    return f"<{kind}{given}>{within}</{kind}>" if within else f"<{kind}{given}/>"


def _attributes(element: ET.Element, name: str) -> dict[str, str]:
    """The attributes of a shape: its place, its styles as attributes, and names that are its own."""
    found = {}
    for key, value in element.attrib.items():
        plain = key.rpartition("}")[2]
        if plain == "id":
            found["id"] = f"{name}-{value}"
        elif plain == "href" and value.startswith("#"):
            found["href"] = f"#{name}-{value[1:]}"
        elif plain == "href" and value.startswith(_PICTURE) and _local(element) == "image":
            found["href"] = value
        elif plain in _PLACES | _STYLES:
            found |= _style(plain, value, name)
        elif plain == "style":
            for said in value.split(";"):
                style, _, what = said.partition(":")
                if style.strip() in _STYLES:
                    found |= _style(style.strip(), what.strip(), name)
    return found


def _style(key: str, value: str, name: str) -> dict[str, str]:
    """A value with its colour looked up, or what it refers to under its own name; none if that is not in the figure."""
    if "url" in value.lower():
        inside = _NAMED.fullmatch(value)
        return {} if inside is None else {key: f"url(#{name}-{inside[1]})"}
    return {key: _COLOURS.get(value.lower(), value)}
