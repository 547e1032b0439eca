"""A table that a bench writes, in its place in a document."""

from pathlib import Path


def put(text: str, file: Path, begins: str, ends: str) -> None:
    """The text between two lines of a document, which stay."""
    before, found, rest = file.read_text().partition(begins)
    _, closed, after = rest.partition(ends)
    if not found or not closed:
        raise SystemExit(f"{file} has no place for it: {begins} … {ends}")
    file.write_text(f"{before}{begins}\n\n{text}\n{ends}{after}")
