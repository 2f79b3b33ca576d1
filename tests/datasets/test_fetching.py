"""Public tables are fetched at their commit, from a server on this machine; a second time the cache has them.

test_wheels.py has those that come out of a wheel.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from flopcast.datasets import fetch_aiter, fetching
from flopcast.datasets.fetching import Repository, Source, fetch
from flopcast.errors import DataError, ParameterError
from flopcast.tests.commands.running import call

pytestmark = pytest.mark.skipif(
    subprocess.run(("git", "http-backend"), capture_output=True).returncode == 1,
    reason="needs git with http-backend",
)
HEAD = "cu_num,M,N,K,us,kernelName\n"
FILES = {
    "aiter/configs/a8w8_blockscale_tuned_gemm.csv": f"{HEAD}304,16,32,64,1.5,k\n256,16,32,64,1.25,k\n",
    "aiter/configs/deep/a8w8_tuned_gemm.csv": f"{HEAD}80,16,32,64,2.5,k\n",
    "aiter/code.py": "",
    "c.csv": "us\n",
}
FIRST = "a8w8_blockscale_tuned_gemm.csv"


class _Backend(BaseHTTPRequestHandler):
    """Serves repositories by git's own server program; asked as a proxy, the host does not matter."""

    root: Path
    asked: list[str]  # hosts

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        self._serve(self.rfile.read(int(self.headers["Content-Length"])))

    def _serve(self, body: bytes) -> None:
        url = urlsplit(self.path)
        self.asked.append(url.netloc)
        variables = {
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": url.path,
            "QUERY_STRING": url.query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
        }
        done = subprocess.run(
            ("git", "http-backend"),
            input=body,
            env={**os.environ, **variables},
            capture_output=True,
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        lines = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(lines.pop("Status", "200").split()[0]))
        for name, value in lines.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A folder with a bare repository ``data``, and the name of its only commit."""
    folder = tmp_path_factory.mktemp("served")
    work = folder / "work"
    for name, text in FILES.items():
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text)
    author = ("-c", "user.name=A", "-c", "user.email=a@example.org")

    def git(*words: str, at: Path = work) -> str:
        return subprocess.run(
            ("git", *words), cwd=at, capture_output=True, text=True, check=True
        ).stdout.strip()

    git("init", "--quiet")
    git("add", ".")
    git(*author, "commit", "--quiet", "--message=tables")
    git("clone", "--quiet", "--bare", ".", str(folder / "data"))
    for setting in ("uploadpack.allowFilter", "uploadpack.allowAnySHA1InWant"):
        git("config", setting, "true", at=folder / "data")
    return folder, git("rev-parse", "HEAD")


@pytest.fixture
def server(
    repository: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[type[_Backend]]:
    """Serve the repository as the source of ``aiter``, with a fresh cache."""
    folder, commit = repository
    handler = type("Handler", (_Backend,), {"root": folder, "asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        handler.url = f"http://127.0.0.1:{running.server_address[1]}"
        for name in (
            "http_proxy",
            "HTTP_PROXY",
            "https_proxy",
            "HTTPS_PROXY",
            "all_proxy",
            "ALL_PROXY",
        ):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("FLOPCAST_CACHE", str(tmp_path / "cache"))
        source = Repository(f"{handler.url}/data", commit, "aiter/configs", ("*.csv",))
        monkeypatch.setitem(fetching.SOURCES, "aiter", Source(source))
        yield handler
        running.shutdown()
        thread.join()


def change(monkeypatch: pytest.MonkeyPatch, **parts: str) -> None:
    """Let the repository be at another place, or the commit another."""
    known = fetching.SOURCES["aiter"].repository
    assert known is not None
    monkeypatch.setitem(fetching.SOURCES, "aiter", Source(replace(known, **parts)))


def held(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_the_files_asked_for_arrive_and_nothing_else(
    server: type[_Backend], tmp_path: Path
) -> None:
    folder = fetch_aiter()
    assert folder.is_relative_to(tmp_path / "cache")
    (place,) = (path for path in (tmp_path / "cache").iterdir() if path.is_dir())
    assert held(place) == {
        name: text for name, text in FILES.items() if name.startswith("aiter/configs/")
    }
    asked = len(server.asked)
    assert fetch_aiter() == folder
    assert len(server.asked) == asked


def test_a_proxy_is_asked_where_one_is_set(
    server: type[_Backend], monkeypatch: pytest.MonkeyPatch
) -> None:
    change(monkeypatch, url="http://tables.invalid/data")
    monkeypatch.setenv("http_proxy", server.url)
    monkeypatch.delenv("no_proxy", raising=False)
    assert (fetch_aiter() / FIRST).read_text() == FILES[f"aiter/configs/{FIRST}"]
    assert set(server.asked) == {"tables.invalid"}


def test_another_repository_that_the_environment_names_is_left_alone(
    server: type[_Backend], repository: tuple[Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = repository[0] / "work" / ".git" / "config"
    before = config.read_text()
    monkeypatch.setenv("GIT_DIR", str(config.parent))
    assert (fetch_aiter() / FIRST).exists()
    assert config.read_text() == before


def test_the_command_prints_the_folder_alone_and_beside_it_what_is_there(
    server: type[_Backend],
) -> None:
    done = call("fetch", "aiter")
    assert (done.exit_code, done.stdout) == (0, f"{fetch_aiter()}\n")
    told = json.loads(call("fetch", "aiter", "--json").stdout)
    assert told["url"] == f"{server.url}/data"
    assert told["rows"] == {
        "gemm a8w8": {"MI308X": 1},
        "gemm a8w8_blockscale": {"MI300X": 1, "MI355X": 1},
    }
    assert f"{server.url}/data" in done.stderr
    quiet = call("fetch", "aiter", "--quiet")
    assert (quiet.stdout, quiet.stderr) == (done.stdout, "")


@pytest.mark.parametrize("wrong", [{"commit": "0" * 40}, {"url": "http://127.0.0.1:9/data"}])
def test_what_cannot_be_fetched_is_one_line_and_leaves_nothing(
    server: type[_Backend], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, wrong: dict[str, str]
) -> None:
    change(monkeypatch, **wrong)
    done = call("fetch", "aiter")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: aiter: ")
    assert fetching.SOURCES["aiter"].repository.url in done.stderr
    assert done.stderr.count("\n") == 1
    assert not any((tmp_path / "cache").iterdir())


def test_a_repository_that_does_not_answer_is_given_up(
    server: type[_Backend], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(fetching, "ANSWERS_WITHIN", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        change(monkeypatch, url=f"http://127.0.0.1:{silent.getsockname()[1]}/data")
        with pytest.raises(DataError, match="does not answer"):
            fetch("aiter")
    assert not any((tmp_path / "cache").iterdir())


def test_without_git_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(fetching.shutil, "which", lambda name: None)
    with pytest.raises(DataError, match="git is not installed"):
        fetch("miopen", cache=tmp_path)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ParameterError) as told:
        fetch("rocblas")
    assert told.value.parameter == "name"


@pytest.mark.parametrize(
    "harm", ["edited", "edited at the same time", "missing", "added", "before"]
)
def test_a_cache_that_is_not_as_it_was_brought_is_brought_anew(
    server: type[_Backend], tmp_path: Path, harm: str
) -> None:
    folder = fetch_aiter()
    table, asked = folder / FIRST, len(server.asked)
    status = table.stat()
    if harm.startswith("edited"):
        table.write_text(table.read_text().replace("1.5", "9.5"))
    if harm == "edited at the same time":
        os.utime(table, ns=(status.st_atime_ns, status.st_mtime_ns))
    if harm == "missing":
        table.unlink()
    if harm == "added":
        (folder / "more_tuned_gemm.csv").write_text(f"{HEAD}304,16,32,64,9.5,k\n")
    if harm == "before":
        next((tmp_path / "cache").glob("*.json")).unlink()
    assert fetch_aiter() == folder
    assert len(server.asked) > asked
    assert table.read_text() == FILES[f"aiter/configs/{FIRST}"]
    assert not (folder / "more_tuned_gemm.csv").exists()
    asked = len(server.asked)
    table.touch()  # the same content at another time
    assert fetch_aiter() == folder
    assert len(server.asked) == asked


def test_a_changed_cache_that_cannot_be_brought_anew_is_named(
    server: type[_Backend], monkeypatch: pytest.MonkeyPatch
) -> None:
    table = fetch_aiter() / FIRST
    table.write_text(HEAD)
    change(monkeypatch, url="http://127.0.0.1:9/data")
    with pytest.raises(DataError, match=f"{FIRST} was changed"):
        fetch("aiter")
