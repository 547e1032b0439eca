"""Rust, C and YAML sources without what changes nothing: comments, white space, and where asked texts."""

import hashlib
import re

# A comment, a text, a character, or a lifetime, whichever comes first; the rest of a line in between.
TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?c?"(?:\\.|[^"\\])*"|b?\'(?:\\.[^\']*|[^\'\\])\'',
    re.S,
)
USE = re.compile(r"(?:pub(?:\([^)]*\))? )?use [^;]*;")
# How a name is reached, and by whom, depends on where the code stands, not on what it does.
REACH = re.compile(r"\b(?:crate|self|super|rdiag(?:_\w+)?)::(?:(?:model|collectors|probes)::)?|\bpub(?:\([^)]*\))? ")


def bare(text: str, texts: bool = True) -> str:
    """The text without comments and surplus white space; without what is in quotes too where `texts` is false."""

    def keep(match: re.Match) -> str:
        token = match.group(0)
        if token.startswith(("//", "/*")):
            return " "
        return token if texts or token.startswith(("'", "b'")) else '""'

    return re.sub(r"\s+", " ", TOKEN.sub(keep, text)).strip()


def rust(text: str, texts: bool = True) -> str:
    """The same, without imports, the paths to names and their visibility."""
    # What is left out leaves a gap; how many do not matter.
    return re.sub(r"\s+", " ", REACH.sub("", USE.sub("", bare(text, texts)))).strip()


def blank(text: str) -> str:
    """The text with comments and quoted texts overwritten by blanks of the same length, so that braces can be counted."""
    return TOKEN.sub(lambda match: re.sub(r"[^\n]", " ", match.group(0)), text)


def items(text: str) -> list[str]:
    """The items of a Rust file that stand at its top level, each with its attributes."""
    found, depth, start = [], 0, 0
    bared = blank(text)
    for at, sign in enumerate(bared):
        if sign in "{[(":
            depth += 1
        elif sign in "}])":
            depth -= 1
        ends = sign == ";" or (sign == "}" and not bared[at + 1 : at + 2] == ";")
        if depth == 0 and ends:
            found.append(text[start : at + 1])
            start = at + 1
    return found


def digest(*parts: str) -> str:
    """A short name for texts that are the same."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]
