"""A series' looks: colour, marker and dash together, so that none of them has to be told apart alone."""

from dataclasses import dataclass

# Okabe and Ito, without the yellow, which is not seen on white.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
SHAPES = ("circle", "square", "triangle", "diamond", "cross", "wedge", "bar")
RADIUS = 4.2


@dataclass(frozen=True, slots=True)
class Mark:
    """hollow: of a prediction."""

    colour: str
    shape: str
    hollow: bool = False


def mark(index: int, predicted: bool = False) -> Mark:
    """Of the `index`-th series; 42 of them differ."""
    return Mark(COLOURS[index % len(COLOURS)], SHAPES[index % len(SHAPES)], predicted)


def line(points: list[tuple[float, float]], one: Mark) -> str:
    """Through all points, in their order."""
    dash = ' stroke-dasharray="6 4"' if one.hollow else ""
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{one.colour}" stroke-width="2"{dash}/>'


def marker(x: float, y: float, one: Mark, note: str = "") -> str:
    """One point; `note`, which must be escaped, is shown by browsers where the pointer rests."""
    title = f"<title>{note}</title>" if note else ""
    fill = 'class="hollow"' if one.hollow else f'fill="{one.colour}"'
    paint = f'{fill} stroke="{one.colour}" stroke-width="1.6"'
    if one.shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{RADIUS}" {paint}>{title}</circle>'
    return f'<path d="{_path(one.shape, x, y)}" {paint}>{title}</path>'


def _path(shape: str, x: float, y: float) -> str:
    r = RADIUS
    corners = {
        "square": [(-r, -r), (r, -r), (r, r), (-r, r)],
        "triangle": [(0, -r * 1.25), (r * 1.15, r), (-r * 1.15, r)],
        "diamond": [(0, -r * 1.35), (r * 1.35, 0), (0, r * 1.35), (-r * 1.35, 0)],
        "cross": [
            (-r, -r / 3), (-r / 3, -r / 3), (-r / 3, -r), (r / 3, -r), (r / 3, -r / 3), (r, -r / 3),
            (r, r / 3), (r / 3, r / 3), (r / 3, r), (-r / 3, r), (-r / 3, r / 3), (-r, r / 3),
        ],
        "wedge": [(0, r * 1.25), (r * 1.15, -r), (-r * 1.15, -r)],
        "bar": [(-r * 1.3, -r / 2), (r * 1.3, -r / 2), (r * 1.3, r / 2), (-r * 1.3, r / 2)],
    }[shape]  # fmt: skip
    return "M" + " L".join(f"{x + dx:.1f} {y + dy:.1f}" for dx, dy in corners) + " Z"
