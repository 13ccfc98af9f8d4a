"""The reference, made from the code: commands, settings, rights, the control and the Python API."""

from documentation.reference.commands import command_pages
from documentation.reference.control_api import control_page
from documentation.reference.python_api import python_page
from documentation.reference.rights import rights_page
from documentation.reference.settings import settings_page


def reference() -> dict[str, str]:
    """Return the generated pages, by their places on the site."""
    return {
        **command_pages(),
        "reference/settings.md": settings_page(),
        "reference/rights.md": rights_page(),
        "reference/control.md": control_page(),
        "reference/python.md": python_page(),
    }
