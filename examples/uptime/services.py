"""HTTP services on loopback to watch, in a process of their own, so that they share no interpreter with us.

    with Services(5) as services:
        services.urls               # ["http://127.0.0.1:43211", ...]
        services.take_down(2)       # its port refuses connections, those that were open are reset
        services.bring_back(2)

Run as a program, this file is that process: it prints the ports, then obeys lines ("down 2", "up 2") on stdin,
answers each with "ok", and ends with its stdin.
"""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

HOST = "127.0.0.1"
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 3\r\n\r\nok\n"


class Services:
    """A handle on the process: starts it, and ends it with the `with` block."""

    def __init__(self, count: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            # Ctrl-C in a terminal is meant for the monitor, which then ends us.
            start_new_session=True,
        )
        self.urls = [f"http://{HOST}:{port}" for port in self._read_line().split()]

    def take_down(self, index: int) -> None:
        self._tell(f"down {index}")

    def bring_back(self, index: int) -> None:
        self._tell(f"up {index}")

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        if (answer := self._read_line()) != "ok":
            raise RuntimeError(f"the services answered {answer!r} to {line!r}")

    def _read_line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the services ended with status {self._process.wait()}")
        return line.strip()

    def __enter__(self) -> Services:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()  # closes its stdin, and so ends it


class Service:
    """One HTTP/1.1 server with keep-alive that answers every request with 200."""

    def __init__(self) -> None:
        # Bound for as long as we live, never listening: while the service is down its port refuses connections,
        # yet the system cannot hand it to anybody else, such as a client that happens to connect from it.
        self._holder = self._bind(0)
        self.port: int = self._holder.getsockname()[1]
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.StreamWriter] = set()

    def _bind(self, port: int) -> socket.socket:
        bound = socket.socket()
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "SO_REUSEPORT"):
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind((HOST, port))
        return bound

    async def up(self) -> None:
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, sock=self._bind(self.port))

    async def down(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in self._connections:
            connection.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._connections.add(writer)
        try:
            while True:
                await reader.readuntil(b"\r\n\r\n")
                writer.write(ANSWER)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client went away, or we are down
        finally:
            self._connections.discard(writer)
            writer.close()


async def serve(count: int) -> None:
    services = [Service() for _ in range(count)]
    for service in services:
        await service.up()
    print(*(service.port for service in services), flush=True)
    while line := await asyncio.to_thread(sys.stdin.readline):
        action, index = line.split()
        service = services[int(index)]
        await (service.down() if action == "down" else service.up())
        print("ok", flush=True)
    for service in services:
        await service.down()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1])))
