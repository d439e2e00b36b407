"""The MkDocs plugin `logquake`: it adds generated pages, and tables to handwritten pages."""

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.plugins import BasePlugin
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from harness.documentation.generated import PAGES
from harness.documentation.includes import filled
from harness.documentation.navigation import expanded
from harness.documentation.outside import page_of, with_links
from harness.manual import outside_pages, sources

_FROM = "docs"


class LogquakePlugin(BasePlugin):  # type: ignore[type-arg,no-untyped-call] # It has no options.
    """The plugin's methods that MkDocs calls while it builds the site."""

    def __init__(self) -> None:
        """Create the plugin without pages."""
        super().__init__()
        self._origins: dict[str, str] = {}

    def on_files(self, files: Files, *, config: MkDocsConfig) -> Files:
        """Add the generated pages and the READMEs of packages."""
        for uri, page in PAGES.items():
            files.append(File.generated(config, uri, content=page()))
        for outside in outside_pages():
            text = (sources() / outside).read_text(encoding="utf-8")
            self._origins[page_of(outside)] = outside
            files.append(File.generated(config, page_of(outside), content=text))
        pages = [each.src_uri for each in files.documentation_pages()]
        config.nav = expanded(config.nav or [], pages)
        return files

    def on_page_markdown(
        self,
        markdown: str,
        *,
        page: Page,
        config: MkDocsConfig,  # noqa: ARG002 - MkDocs' signature
        files: Files,
    ) -> str:
        """Replace comments by tables, and rewrite links so that they lead to pages of the site."""
        uri = page.file.src_uri
        origin = self._origins.get(uri, f"{_FROM}/{uri}")
        return with_links(filled(markdown), page=uri, origin=origin, pages=files.src_uris)
