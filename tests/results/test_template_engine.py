"""Pages share one template engine; the site has its own."""

from results.engine import template_engine
from results.report import TEMPLATE, load
from results.site import pages


def test_a_template_that_was_loaded_before_is_not_compiled_again() -> None:
    load()
    assert template_engine().get_template(TEMPLATE) is template_engine().get_template(TEMPLATE)


def test_names_of_the_site_are_none_of_a_page() -> None:
    before = {**template_engine().globals}
    site = pages._engine()
    assert site.globals["range"] != before["range"]
    assert template_engine().globals == before
    assert "when" not in template_engine().filters
