"""The reference, made from the code: commands, settings, limits, APIs, tables of the pipeline."""

from documentation.reference.apis import apis_page
from documentation.reference.client_findings import client_findings_page
from documentation.reference.commands import command_pages
from documentation.reference.control_api import control_page
from documentation.reference.differences import differences_page
from documentation.reference.findings import findings_page
from documentation.reference.lab import lab_page
from documentation.reference.limits import limits_page
from documentation.reference.packages import packages_page
from documentation.reference.pipeline_tables import tables_page
from documentation.reference.python_api import python_page
from documentation.reference.settings import settings_page
from documentation.reference.transcripts import transcripts_page


def reference() -> dict[str, str]:
    """Return the generated pages, by their places on the site."""
    return {
        **command_pages(),
        "reference/settings.md": settings_page(),
        "reference/apis.md": apis_page(),
        "reference/differences.md": differences_page(),
        "reference/findings.md": findings_page(),
        "reference/lab.md": lab_page(),
        "reference/client-findings.md": client_findings_page(),
        "reference/limits.md": limits_page(),
        "reference/packages.md": packages_page(),
        "reference/control.md": control_page(),
        "reference/python.md": python_page(),
        "reference/pipeline-tables.md": tables_page(),
        "reference/transcripts.md": transcripts_page(),
    }
