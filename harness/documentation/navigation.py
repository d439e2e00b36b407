"""Build the site's menu.

In `mkdocs.yml`, an entry such as `how-to/*` means all pages of that folder that have no entry of
their own.
"""

from collections.abc import Collection, Iterator, Sequence

Menu = list[object]
_REST = "/*"


def expanded(menu: Sequence[object], pages: Collection[str]) -> Menu:
    """Return the menu.

    The pages of a folder replace the entry `folder/*`, except those that have an entry of their
    own.

    Args:
        menu: The menu of `mkdocs.yml`: pages, `{title: page}`, and `{title: menu}`.
        pages: All pages of the site.
    """
    named = {*_named(menu)}
    return _expanded(menu, sorted(set(pages) - named))


def _named(menu: object) -> Iterator[str]:
    if isinstance(menu, str):
        yield menu
    elif isinstance(menu, dict | list):
        for each in menu.values() if isinstance(menu, dict) else menu:
            yield from _named(each)


def _expanded(menu: Sequence[object], rest: list[str]) -> Menu:
    found: Menu = []
    for each in menu:
        if isinstance(each, str) and each.endswith(_REST):
            folder = each.removesuffix("*")
            found += [page for page in rest if page.startswith(folder)]
        elif isinstance(each, dict):
            found.append({
                title: _expanded(inside, rest) if isinstance(inside, list) else inside
                for title, inside in each.items()
            })  # fmt: skip
        else:
            found.append(each)
    return found
