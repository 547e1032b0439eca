"""The commands of docs/fleet.md, which tests run as they stand there: ```sh by tests/fleet.rs, the others by the scripts that ask for their
section here."""

from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs/fleet.md"


def blocks(section: str, language: str = "bash") -> list[str]:
    """The blocks of code of a section, by their language."""
    (own,) = [part for part in PAGE.read_text().split("\n## ") if part.startswith(f"{section}\n")]
    found = [block.split("```")[0] for block in own.split(f"```{language}\n")[1:]]
    assert found, f"docs/fleet.md has no {language} in {section!r}"
    return found
