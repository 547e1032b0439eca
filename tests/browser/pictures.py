"""Small pictures of the first screen, compared with committed ones by a tolerance.

A picture is an eighth as wide and as high as the screen: what it shows is where blocks, colours and curves are, and not how a letter is
drawn. Fonts move everything, so pictures are compared only where text is as wide as it was where they were taken.
`RDIAG_BLESS=1 tests/browser/run` takes them anew: look at them before they are committed."""

import base64
import json
import os
import pathlib
import struct
import zlib

HERE = pathlib.Path(__file__).resolve().parent / "pictures"
# The pages that are compared: what most people see first. Their content comes from recorded hosts and does not change by itself.
PAGES = ["whole-host-short-of-cpu", "whole-host-quiet", "diff"]
SCALE = 1 / 8
# A pixel differs if a channel does by more than this; a picture, if this share of its pixels do.
CHANNEL, SHARE = 32, 0.01
# Text is as wide if it is within so many pixels.
WIDTH = 0.5

FONTS = """function () {
    var code = document.createElement("code"), text = "Runnable tasks waited 72.8% of their time for a CPU";
    document.body.appendChild(code);
    var pen = document.createElement("canvas").getContext("2d");
    var widths = [document.body, code].map(function (one) {
        var style = getComputedStyle(one);
        pen.font = style.fontSize + " " + style.fontFamily;
        return pen.measureText(text).width;
    });
    code.remove();
    return widths;
}"""


def taken(browser, width, height):
    """The first screen as a small PNG."""
    browser.run("function () { scrollTo(0, 0); }")
    clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": SCALE}
    return base64.b64decode(browser.call("Page.captureScreenshot", clip=clip)["data"])


def pixels(png):
    """Width, height and the rows of a PNG of 8 bits a channel, three channels a pixel."""
    at, data, head = 8, b"", None
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at:at + 8])
        body = png[at + 8:at + 8 + length]
        head, data = (body if kind == b"IHDR" else head), data + (body if kind == b"IDAT" else b"")
        at += 12 + length
    width, height, depth, colours, _, _, interlaced = struct.unpack(">IIBBBBB", head)
    if depth != 8 or colours not in (2, 6) or interlaced:
        raise ValueError(f"a PNG of depth {depth}, colour type {colours}")
    channels = 3 if colours == 2 else 4
    raw, rows, above = zlib.decompress(data), [], bytearray(width * channels)
    for row in range(height):
        start = row * (width * channels + 1)
        line = bytearray(raw[start + 1:start + 1 + width * channels])
        undo(raw[start], line, above, channels)
        rows.append(line)
        above = line
    return width, height, [bytes(line[i] for i in range(len(line)) if channels == 3 or i % 4 < 3) for line in rows]


def undo(kind, line, above, channels):
    """Undoes the filter of a row."""
    for i in range(len(line)):
        left = line[i - channels] if i >= channels else 0
        corner = above[i - channels] if i >= channels else 0
        up = above[i]
        if kind == 4:
            guess = left + up - corner
            nearest = min((left, up, corner), key=lambda one: abs(guess - one))
        else:
            nearest = (0, left, up, (left + up) // 2)[kind]
        line[i] = (line[i] + nearest) & 255


def difference(one, other):
    """The share of pixels that differ; all of them where the sizes do."""
    (width, height, a), (other_width, other_height, b) = pixels(one), pixels(other)
    if (width, height) != (other_width, other_height):
        return 1.0
    differ = sum(
        max(abs(x[i + c] - y[i + c]) for c in range(3)) > CHANNEL
        for x, y in zip(a, b) for i in range(0, width * 3, 3))
    return differ / (width * height)


class Pictures:
    """The committed pictures."""

    def __init__(self):
        self.bless = bool(os.environ.get("RDIAG_BLESS"))
        self.is_told = False

    def complaints(self, browser, page, width, height, scheme):
        """What is wrong with the picture of a page, a sentence each."""
        if page not in PAGES:
            return []
        file, fonts = HERE / f"{page}-{width}-{scheme}.png", HERE / "fonts.json"
        shown, here = taken(browser, width, height), browser.run(FONTS)
        if self.bless:
            HERE.mkdir(exist_ok=True)
            file.write_bytes(shown)
            fonts.write_text(json.dumps(here) + "\n")
            return []
        there = json.loads(fonts.read_text())
        if any(abs(a - b) > WIDTH for a, b in zip(here, there)):
            if not self.is_told:
                print(f"pictures are not compared: text is {here} px wide here, and was {there} px where they were taken", flush=True)
            self.is_told = True
            return []
        if not file.exists():
            return [f"there is no picture {file.name}: RDIAG_BLESS=1 tests/browser/run"]
        share = difference(file.read_bytes(), shown)
        if share <= SHARE:
            return []
        return [f"{share:.1%} of the first screen differ from {file.name}; if they should, RDIAG_BLESS=1 tests/browser/run"]
