"""Add pages from outside of `docs/` to the site, and rewrite links to files outside of `docs/`.

READMEs of packages become pages below `internals/`. Links from and to these READMEs are rewritten.
A link to any other file of the repository becomes plain text, because the site has no page for it.
"""

import posixpath
import re
from collections.abc import Container, Iterator

_DOCS = "docs/"
_FENCED = re.compile(r"(^ *```.*?^ *```)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\](?:\([^()]*\))?)*)\]\(([^)\s]+)\)")


def page_of(outside: str) -> str:
    """Return the site path of a page whose source is outside of `docs/`.

    `harness/suites/README.md` becomes `internals/harness-suites.md`.
    """
    folder, name = posixpath.split(outside.removesuffix(".md").lower())
    stem = folder.replace("/", "-") if folder and name == "readme" else name
    return f"internals/{stem}.md"


def with_links(text: str, *, page: str, origin: str, pages: Container[str]) -> str:
    """Return a page's text with links that work on the site.

    Args:
        text: Markdown.
        page: The page's path in the site.
        origin: The page's path in the repository.
        pages: The paths of all files of the site.
    """

    def changed(found: re.Match[str]) -> str:
        mark, words, target = found.groups()
        if "://" in target or target.startswith(("#", "mailto:")):
            return found[0]
        name, hash_, anchor = target.partition("#")
        place = posixpath.normpath(posixpath.join(posixpath.dirname(origin), name))
        there = _on_the_site(place, pages)
        if there is None:
            return found[0] if place.startswith(_DOCS) and name.endswith(".md") else words
        relative = posixpath.relpath(there, posixpath.dirname(page) or ".")
        return f"{mark}[{words}]({relative}{hash_}{anchor})"

    return "".join(part if is_code else _LINK.sub(changed, part) for is_code, part in _parts(text))


def _parts(text: str) -> Iterator[tuple[bool, str]]:
    """Yield pairs (is code, text): fenced code blocks, and the text between them."""
    for at, part in enumerate(_FENCED.split(text)):
        yield at % 2 == 1, part


def _on_the_site(place: str, pages: Container[str]) -> str | None:
    """Return the site path of a file of the repository.

    The result is None if the site does not have the file.
    """
    for each in (place, f"{place}/README.md"):
        inside = each.removeprefix(_DOCS)
        if inside != each and inside in pages:
            return inside
        if page_of(each) in pages and each.endswith(".md"):
            return page_of(each)
    return None
