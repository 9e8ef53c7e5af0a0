"""A terminal as a drawing: what a program wrote, in the colours of a light page or of a dark one."""
import html
import re

# The terminal's colours in the picture: on a light page, on a dark one.
TONES = {
    "1": ("strong", "#1f2328", "#f0f6fc"),
    "38;5;28": ("good", "#1a7f37", "#3fb950"),
    "38;5;27": ("busy", "#0969da", "#58a6ff"),
    "38;5;130": ("waiting", "#9a6700", "#d29922"),
    "38;5;160": ("bad", "#cf222e", "#ff7b72"),
    "38;5;243": ("quiet", "#656d76", "#8b949e"),
    # The other way round: what is chosen.
    "7": ("chosen", "#f6f8fa", "#0d1117"),
}
CHARACTER, LINE, MARGIN = 7.8, 18, 16


def segments(line):
    """The pieces of a line with the class of each."""
    tone = "plain"
    for piece in re.split(r"(\x1b\[[0-9;]*m)", line):
        if code := re.fullmatch(r"\x1b\[([0-9;]*)m", piece):
            tone = "plain" if code[1] in ("", "0") else TONES[code[1]][0]
        elif piece:
            yield tone, piece


def row(line, number):
    """The drawing of one line."""
    out, column, pieces = [], 0, []
    for tone, text in segments(line):
        if tone == "chosen":
            out.append(
                f'<rect class="mark" x="{MARGIN + column * CHARACTER:.1f}" y="{MARGIN + number * LINE}" '
                f'width="{len(text) * CHARACTER:.1f}" height="{LINE}"/>'
            )
        # Each word at its own column, and as wide as it has to be: no font moves a table.
        for word in re.finditer(r"\S+(?: \S+)*", text):
            begin = MARGIN + (column + word.start()) * CHARACTER
            pieces.append(
                f'<tspan class="{tone}" x="{begin:.1f}" '
                f'textLength="{len(word[0]) * CHARACTER:.1f}">{html.escape(word[0])}</tspan>'
            )
        column += len(text)
    if pieces:
        out.append(f'<text y="{MARGIN + (number + 0.75) * LINE:.1f}">{"".join(pieces)}</text>')
    return "".join(out)


def versions(frames, number):
    """What stands in one line of the frames: each text with the frames from and to which it does."""
    texts = [frame[number] if number < len(frame) else "" for frame in frames]
    start = 0
    for place in range(1, len(texts) + 1):
        if place == len(texts) or texts[place] != texts[start]:
            yield texts[start], start, place
            start = place


def draw(frames, columns, label):
    """The drawing of lines with the terminal's own codes in them. More than one frame: one each second, over and over.
    Where nothing moves, the last one is seen."""
    height = max(map(len, frames)) * LINE + 2 * MARGIN
    width = columns * CHARACTER + 2 * MARGIN
    light = "".join(f".{name}{{fill:{day}}}" for name, day, _ in TONES.values())
    dark = "".join(f".{name}{{fill:{night}}}" for name, _, night in TONES.values())
    rows, moves = [], {}
    for number in range(max(map(len, frames))):
        for text, start, end in versions(frames, number):
            drawn = row(text, number)
            if not drawn:
                continue
            if (start, end) == (0, len(frames)):
                rows.append(drawn)
                continue
            seen = [f"{100 * start / len(frames):.2f}%{{visibility:visible}}"]
            if start > 0:
                seen.insert(0, "0%{visibility:hidden}")
            if end < len(frames):
                seen.append(f"{100 * end / len(frames):.2f}%{{visibility:hidden}}")
            name = f"m{start}-{end}"
            still = "" if end == len(frames) else ";visibility:hidden"
            moves[name] = (
                f"@keyframes {name}{{{''.join(seen)}}}"
                f".{name}{{animation:{name} {len(frames)}s step-end infinite{still}}}"
            )
            rows.append(f'<g class="{name}">{drawn}</g>')
    still = "@media(prefers-reduced-motion){g{animation:none!important}}" if moves else ""
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" width="{width:.0f}" '
        f'height="{height}" role="img" aria-label="{html.escape(label)}">',
        "<style>text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}"
        f".paper{{fill:#f6f8fa;stroke:#d0d7de}}.plain,.mark{{fill:#1f2328}}{light}.strong{{font-weight:bold}}"
        f"@media(prefers-color-scheme:dark){{.paper{{fill:#0d1117;stroke:#30363d}}.plain,.mark{{fill:#e6edf3}}{dark}}}"
        f"{''.join(moves.values())}{still}</style>",
        f'<rect class="paper" x=".5" y=".5" width="{width - 1:.0f}" height="{height - 1}" rx="8"/>',
        *rows,
        "</svg>\n",
    ])
