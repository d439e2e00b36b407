"""The page of imported histories: a single HTML file without scripts or outside resources.

An imported history has no run folder, brokers or faults. The page therefore shows only the verdict.
"""

from collections.abc import Sequence
from pathlib import Path

from results.engine import template_engine
from results.record.atomic import write_atomically
from results.record.verdict import Verdict
from results.wording.headline import headline, ranked_anomalies


def write_history_page(verdicts: Sequence[Verdict], page: Path) -> Path:
    """Write one page with the verdicts of judged histories, in the given order.

    Args:
        verdicts: The verdicts of the histories.
        page: The file.

    Returns:
        The file.

    Raises:
        StoreError: The page cannot be written.
    """
    told = [(verdict, headline(verdict), ranked_anomalies(verdict)) for verdict in verdicts]
    template = template_engine().get_template("histories.html")
    write_atomically(page, template.render(told=told))
    return page
