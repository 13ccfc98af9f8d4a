"""The pages on a port of the loopback: files from memory, and nothing else."""

from collections.abc import Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from mimetypes import guess_type
from urllib.parse import unquote, urlsplit

from coterie.cli.docs.pages import HOME, Pages

# The pages may load what this server has. It is what keeps the browser from asking another one.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline';"
    " img-src 'self' data:; worker-src 'self' blob:; frame-ancestors 'none'"
)


def serving(pages: Pages, port: int) -> ThreadingHTTPServer:
    """Return a server that listens on 127.0.0.1, at a free port for 0; `serve_forever` runs it."""

    class Handler(_Handler):
        files = pages.files

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    # A connection that a browser keeps open must not hold up the end.
    server.daemon_threads = True
    return server


class _Handler(BaseHTTPRequestHandler):
    """Answers GET and HEAD with a file of the site.

    Attributes:
        files: the content of each file, by its path.
    """

    files: Mapping[str, bytes]
    protocol_version = "HTTP/1.1"
    server_version = "coterie"
    sys_version = ""

    def do_GET(self) -> None:
        """Send a file."""
        self._send(with_body=True)

    def do_HEAD(self) -> None:
        """Send what a file would be sent with."""
        self._send(with_body=False)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Log nothing: the command prints an address and is silent then."""

    def _send(self, *, with_body: bool) -> None:
        name = unquote(urlsplit(self.path).path).lstrip("/")
        if not name or name.endswith("/"):
            name += f"{HOME}.html"
        body = self.files.get(name)
        self.send_response(HTTPStatus.NOT_FOUND if body is None else HTTPStatus.OK)
        if body is None:
            name, body = "404.txt", b"There is no such page.\n"
        kind = guess_type(name)[0] or "application/octet-stream"
        self.send_header("Content-Type", f"{kind}; charset=utf-8" if "text" in kind else kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if with_body:
            self.wfile.write(body)
