"""A wire between a client and the API server that a test can cut, or leave hanging, without touching either end."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import yaml


class Wire:
    """Forwards TCP connections from a loopback port of its own to `target`, byte by byte; TLS passes through."""

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._ends: list[socket.socket] = []
        self._lock = threading.Lock()
        self._flowing = threading.Event()
        self._flowing.set()
        self._whole = True
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    @property
    def port(self) -> int:
        """Where clients connect to."""
        return int(self._listener.getsockname()[1])

    def cut(self) -> None:
        """Break every connection, and every new one at once."""
        with self._lock:
            self._whole = False
            self._close_ends()

    def hang(self) -> None:
        """Forward nothing any more; connections stay open, requests go unanswered."""
        self._flowing.clear()

    def mend(self) -> None:
        """Work again."""
        self._whole = True
        self._flowing.set()

    def close(self) -> None:
        """End everything."""
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that waits for connections
        self._acceptor.join()
        self._listener.close()
        self.cut()
        self._flowing.set()

    def _close_ends(self) -> None:
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        self._ends.clear()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if not self._whole:
                    near.close()
                    continue
                far = socket.create_connection(self._target)
                self._ends += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._forward, args=(source, sink), daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                self._flowing.wait()
                sink.sendall(data)
        for end in (source, sink):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


@contextmanager
def wire_to(kubeconfig: Path, folder: Path) -> Iterator[tuple[Wire, str]]:
    """Open a breakable connection to the API server of `kubeconfig`, and write a kubeconfig that leads through it."""
    settings = yaml.safe_load(kubeconfig.read_text())
    server = urlsplit(settings["clusters"][0]["cluster"]["server"])
    wire = Wire((server.hostname or "", server.port or 443))
    settings["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{wire.port}"
    through = folder / f"kubeconfig-{wire.port}"
    through.write_text(yaml.safe_dump(settings))
    try:
        yield wire, str(through)
    finally:
        wire.close()
