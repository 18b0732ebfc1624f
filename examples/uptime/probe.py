"""One HTTP check: a GET over a connection that is kept for the next one."""

from __future__ import annotations

import http.client
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import urlsplit

LARGEST_BODY = 65536  # bytes read of an answer; the connection of a longer one is not used again


@dataclass(frozen=True)
class Url:
    """An http or https URL, split once; `service` is what many URLs of one server have in common."""

    service: str
    secure: bool
    host: str
    port: int | None
    path: str

    @classmethod
    def parse(cls, text: str) -> Url:
        """Raises ValueError for anything but an http or https URL with a host."""
        parts = urlsplit(text)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"not an http or https URL: {text!r}")
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        service = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"
        return cls(service, parts.scheme == "https", parts.hostname, parts.port, path)


class Outcome(NamedTuple):
    """What a check found: whether the target answers, in how many seconds, and the reason if it does not."""

    up: bool
    seconds: float
    reason: str = ""


class Prober:
    """Makes checks, from any number of threads at once."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        # Idle connections of each service. list.append and list.pop are atomic: no lock.
        self._idle: defaultdict[str, list[http.client.HTTPConnection]] = defaultdict(list)

    def __call__(self, url: Url) -> Outcome:
        """Check `url`. Never raises for what a network or a server can do to us."""
        began = time.perf_counter()
        try:
            status = self._status(url)
        except (OSError, http.client.HTTPException, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            return Outcome(False, time.perf_counter() - began, reason)
        seconds = time.perf_counter() - began
        return Outcome(True, seconds) if status < 400 else Outcome(False, seconds, f"status {status}")

    def close(self) -> None:
        for connections in self._idle.values():
            while connections:
                connections.pop().close()

    def _status(self, url: Url) -> int:
        try:
            kept = self._idle[url.service].pop()
        except IndexError:
            return self._ask(self._connect(url), url)
        try:
            return self._ask(kept, url)
        except (ConnectionError, http.client.BadStatusLine):
            # A server may close a kept connection at any time, which says nothing about the server.
            return self._ask(self._connect(url), url)

    def _connect(self, url: Url) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if url.secure else http.client.HTTPConnection
        return kind(url.host, url.port, timeout=self._timeout)

    def _ask(self, connection: http.client.HTTPConnection, url: Url) -> int:
        try:
            connection.request("GET", url.path, headers={"User-Agent": "pysched-monitor"})
            answer = connection.getresponse()
            answer.read(LARGEST_BODY)
        except BaseException:
            connection.close()
            raise
        if answer.isclosed() and not answer.will_close:
            self._idle[url.service].append(connection)
        else:
            connection.close()
        return answer.status
