"""Draws a table as SVG: every library's time over the best peer's, by size, on a logarithmic scale."""

import math
from html import escape

from table import size_text

LEFT, RIGHT, TOP, BOTTOM = 60, 170, 64, 56
STEP, HEIGHT = 68, 330
HIGHEST, LOWEST = 8.0, 0.125
COLOURS = ["#e8710a", "#1a9850", "#9457eb", "#d6336c", "#0b8fa8", "#8a6d1d", "#5b7083"]
# The picture brings its own paper, so that it can be read on pages of any colour; it follows the reader's choice of light or dark.
STYLE = """
  .paper { fill: #ffffff } .grid { stroke: #d0d7de } .even { stroke: #57606a } text { fill: #1f2328; font: 13px sans-serif }
  .title { font-size: 16px; font-weight: 600 } .note { font-size: 12px } .ours { font-weight: 700 } .middle { text-anchor: middle } .end { text-anchor: end }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #161b22 } .grid { stroke: #30363d } .even { stroke: #9ea7b3 } text { fill: #e6edf3 }
  }
"""


def svg(found, titles, heading):
    """The whole picture."""
    width, height = LEFT + STEP * len(found) + RIGHT, TOP + HEIGHT + BOTTOM
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
        f"<title>{escape(heading)}</title><style>{STYLE}</style>",
        f'<rect class="paper" width="{width}" height="{height}" rx="8"/>',
        word(LEFT - 44, 26, heading, "title"),
        word(LEFT - 44, 46, "time over the best peer's; where hcomm is below 1 it is faster than all of them", "note"),
    ]
    names = drawn(found)
    parts += grid(found) + [part for name in names for part in curve(found, name, paint(name, names))]
    parts += legend(names, titles, width - RIGHT + 20) + ratios(found)
    return "\n".join([*parts, "</svg>", ""])


def drawn(found):
    """Who has a curve: hcomm last, above the others."""
    names = list(dict.fromkeys(name for line in found for name in line.times))
    return sorted(names, key=lambda name: (name == "hcomm", name == "floor", name))


def paint(name, names):
    """How a curve looks."""
    if name == "hcomm":
        return 'stroke="#2f7df6" stroke-width="3.5"'
    if name == "floor":
        return 'stroke="#868e96" stroke-width="2" stroke-dasharray="5 4"'
    return f'stroke="{COLOURS[names.index(name) % len(COLOURS)]}" stroke-width="1.8"'


def across(index):
    return LEFT + STEP * index + STEP // 2


def down(ratio):
    """Where a ratio is; what is off the scale lies at its edge."""
    share = math.log(min(max(ratio, LOWEST), HIGHEST) / LOWEST) / math.log(HIGHEST / LOWEST)
    return round(TOP + HEIGHT * (1 - share), 1)


def grid(found):
    """The scale, the sizes, and the line of the best peer."""
    end = LEFT + STEP * len(found)
    parts = []
    for power in range(-3, 4):
        y, kind = down(2.0**power), "even" if power == 0 else "grid"
        parts.append(f'<line class="{kind}" x1="{LEFT}" y1="{y}" x2="{end}" y2="{y}"/>')
        parts.append(word(LEFT - 8, y + 4, f"{2.0 ** power:g}", "end"))
    parts += [word(across(i), TOP + HEIGHT + 22, size_text(line.size), "middle") for i, line in enumerate(found)]
    return [*parts, word(LEFT, TOP + HEIGHT + 44, f"times above {HIGHEST:g} lie on the upper edge", "note")]


def curve(found, name, look):
    """One library: a line, with a dot at each size."""
    points = [(across(i), down(line.times[name] / line.times[line.best])) for i, line in enumerate(found) if name in line.times]
    path = " ".join(f"{x},{y}" for x, y in points)
    dots = [f'<circle class="paper" cx="{x}" cy="{y}" r="3" {look.partition(" stroke-dasharray")[0]}/>' for x, y in points]
    return [f'<polyline points="{path}" fill="none" stroke-linejoin="round" {look}/>', *dots]


def ratios(found):
    """hcomm's figures, below its dots."""
    return [word(across(i), down(line.ratio) + 20, f"{line.ratio:.2f}", "ours middle") for i, line in enumerate(found)]


def legend(names, titles, x):
    """Whose line is whose."""
    parts = []
    for row, name in enumerate(reversed(names)):
        y = TOP + 16 + 24 * row
        parts.append(f'<line x1="{x}" y1="{y - 4}" x2="{x + 26}" y2="{y - 4}" {paint(name, names)}/>')
        parts.append(word(x + 34, y, titles[name], "ours" if name == "hcomm" else ""))
    return parts


def word(x, y, text, kind):
    return f'<text x="{x}" y="{y}" class="{kind}">{escape(text)}</text>'
