"""`coterie docs` serves the pages of an archive on the loopback, and nothing else."""

import json
import signal
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPResponse
from io import BytesIO
from pathlib import Path

import pytest
from click.testing import CliRunner

from coterie.cli.docs import command, pages
from coterie.cli.docs.pages import NoPages, Pages, load
from coterie.cli.docs.serving import serving
from documentation.archive import pack

FILES = {
    "index.html": "<h1>Home</h1>",
    "404.html": "nothing",
    "spec/framing.html": "<h1>Framing</h1>",
    "search.json": "{}",
}
_LIMIT_S = 60


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    pack(tmp_path / "site", tmp_path / pages.ARCHIVE)
    return tmp_path / pages.ARCHIVE


@pytest.fixture
def connection(archive: Path) -> Iterator[HTTPConnection]:
    with serving(load((archive,)), 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        opened = HTTPConnection("127.0.0.1", server.server_port, timeout=_LIMIT_S)
        yield opened
        opened.close()
        server.shutdown()
        thread.join()


def answer(connection: HTTPConnection, path: str, method: str = "GET") -> tuple[HTTPResponse, str]:
    connection.request(method, path)
    response = connection.getresponse()
    return response, response.read().decode()


def test_names_are_those_of_pages(archive: Path) -> None:
    assert load((archive,)).names == ["index", "spec/framing"]


def test_the_same_files_make_the_same_archive(archive: Path, tmp_path: Path) -> None:
    pack(tmp_path / "site", tmp_path / "again.tar.xz")
    assert (tmp_path / "again.tar.xz").read_bytes() == archive.read_bytes()


def test_the_first_archive_that_is_there_is_read(archive: Path, tmp_path: Path) -> None:
    assert load((tmp_path / "missing.tar.xz", archive)).names


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/", "index.html"),
        ("/index.html?q=a", "index.html"),
        ("/spec/framing.html", "spec/framing.html"),
    ],
)
def test_pages_are_served(connection: HTTPConnection, path: str, name: str) -> None:
    response, text = answer(connection, path)
    assert (response.status, text) == (200, FILES[name])
    assert response.headers["Content-Type"] == "text/html; charset=utf-8"
    # A page cannot load anything from another host.
    assert "default-src 'self'" in response.headers["Content-Security-Policy"]


def test_only_files_of_the_site_are_served(connection: HTTPConnection) -> None:
    for path in ("/missing.html", "/../index.html", "/%2e%2e/etc/passwd", "/etc/passwd"):
        assert answer(connection, path)[0].status == 404
    response, text = answer(connection, "/search.json", "HEAD")
    assert (response.status, text) == (200, "")
    assert response.headers["Content-Length"] == "2"


def test_without_pages_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PLACES", (Path("missing.tar.xz"),))
    result = CliRunner().invoke(command, [])
    assert result.exit_code == 1
    assert "not part of this installation" in result.output
    assert "`make docs` builds it" in result.output


def test_a_damaged_archive_is_an_error_with_its_name(archive: Path) -> None:
    archive.write_bytes(archive.read_bytes()[:100])
    with pytest.raises(NoPages, match=r"documentation\.tar\.xz cannot be read"):
        load((archive,))


def test_a_wrong_page_is_answered_with_the_right_one(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "PLACES", (archive,))
    result = CliRunner().invoke(command, ["--page", "spec/frame"])
    assert result.exit_code == 1
    assert result.output == ("Error: There is no page 'spec/frame'.\nDid you mean spec/framing?\n")


def test_a_port_in_use_is_an_error(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PLACES", (archive,))
    with serving(Pages({}), 0) as other:
        result = CliRunner().invoke(command, ["--port", str(other.server_port)])
    assert result.exit_code == 1
    assert f"127.0.0.1:{other.server_port}: Address already in use" in result.output


def test_the_command_prints_where_the_pages_are_until_it_is_interrupted(archive: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from coterie.cli.docs import command, pages;"
        "pages.PLACES = (Path(sys.argv.pop(1)),); command()"
    )
    words = ["--page", "spec/framing", "--no-browser", "--json"]
    with subprocess.Popen(
        [sys.executable, "-c", program, str(archive), *words], stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        printed = json.loads(running.stdout.readline())
        assert printed["pages"] == 2
        host, _, path = printed["url"].removeprefix("http://").partition("/")
        connection = HTTPConnection(host, timeout=_LIMIT_S)
        assert answer(connection, f"/{path}")[1] == FILES["spec/framing.html"]
        connection.close()
        running.send_signal(signal.SIGINT)
        assert running.wait(_LIMIT_S) == 0


def test_an_archive_may_have_directories(tmp_path: Path) -> None:
    path = tmp_path / "a.tar.xz"
    with tarfile.open(path, "w:xz") as archive:
        directory = tarfile.TarInfo("spec")
        directory.type = tarfile.DIRTYPE
        archive.addfile(directory)
        archive.addfile(tarfile.TarInfo("spec/a.html"), BytesIO())
    assert load((path,)).names == ["spec/a"]
