"""Runs on a machine: sockets that are no fault's own.

It echoes numbered datagrams, takes TCP connections, and on order sends such series to others.
Orders and answers are JSON, a line each. Started with the port to listen on (0: it only asks), and
the port of those that it asks.
"""

import json
import select
import socket
import sys
import threading
from collections import defaultdict
from contextlib import suppress
from typing import Any

from results.record.clock import stopwatch_s

BUFFER_BYTES = 1 << 20
heard: dict[str, dict[int, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
"""When datagrams came, by sender, series and number: machines of one kernel share that clock."""


def echo(own: socket.socket) -> None:
    """Send every datagram back, and note that it came."""
    while True:
        data, sender = own.recvfrom(4096)
        series, number = map(int, data[:16].split())
        heard[sender[0]][series].setdefault(number, stopwatch_s())
        with suppress(PermissionError):  # A cut that drops it where it is sent.
            own.sendto(data, sender)


def accept(own: socket.socket) -> None:
    """Take connections, and end them."""
    while True:
        own.accept()[0].close()


def serve(port: int) -> None:
    """Listen from now on."""
    datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    datagrams.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
    datagrams.bind(("", port))
    connections = socket.create_server(("", port), backlog=64)
    for deed, own in ((echo, datagrams), (accept, connections)):
        threading.Thread(target=deed, args=(own,), daemon=True).start()


class Series:
    """Numbered datagrams to some addresses, and what came back of them."""

    def __init__(self, order: dict[str, Any]) -> None:
        self.order = order
        self.addresses: list[str] = order["addresses"]
        self.flows = [
            socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(order["flows"])
        ]
        for flow in self.flows:
            flow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
        self.sent: dict[tuple[str, int], float] = {}
        self.seen: dict[str, list[tuple[int, float]]] = {each: [] for each in self.addresses}

    def ask(self, port: int) -> dict[str, Any]:
        """Send all, wait for what comes back, and tell."""
        calls = {each: self._call(each, port) for each in self.addresses}
        start = stopwatch_s()
        count, size = self.order["count"], self.order["size"]
        for number in range(count):
            for address in self.addresses:
                self.sent[address, number] = stopwatch_s()
                data = f"{self.order['series']:07} {number:08}".encode()
                flow = self.flows[number % len(self.flows)]
                flow.sendto(data.ljust(size, b"."), (address, port))
            self._hear(start + number * self.order["interval_s"])
        self._hear(stopwatch_s() + self.order["tail_s"])
        told = {each: {**self._told(each), "connects": is_open(calls[each])} for each in self.seen}
        for flow in self.flows:
            flow.close()
        return told

    def _call(self, address: str, port: int) -> socket.socket:
        call = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        call.settimeout(0)
        call.connect_ex((address, port))
        return call

    def _hear(self, until: float) -> None:
        everything = self.order["count"] * len(self.addresses)
        while (left := until - stopwatch_s()) > 0:
            if len(self.sent) == everything == sum(map(len, self.seen.values())):
                left = 0.05  # All are back; copies may follow.
                until = min(until, stopwatch_s() + left)
            for flow in select.select(self.flows, [], [], left)[0]:
                data, sender = flow.recvfrom(4096)
                self.seen[sender[0]].append((int(data[8:16]), stopwatch_s()))

    def _told(self, address: str) -> dict[str, Any]:
        answers = self.seen[address]
        first = dict(reversed(answers))
        order = list(dict.fromkeys(number for number, _ in answers))
        # Since the first question: who gets no processor for a while hears many answers at once.
        lasted_s = answers[-1][1] - self.sent[address, 0] if answers else 0
        return {
            "count": self.order["count"],
            "answered": len(order),
            "flows": len(self.flows),
            "sent_s": [self.sent[address, number] for number in range(self.order["count"])],
            "back_s": [first.get(number) for number in range(self.order["count"])],
            "copies": len(answers) - len(order),
            "overtaken": sum(number < max(order[: at + 1]) for at, number in enumerate(order)),
            "trips_ms": sorted((at - self.sent[address, n]) * 1000 for n, at in first.items()),
            "kbit": len(answers) * self.order["size"] * 8 / 1000 / lasted_s if lasted_s else 0,
        }


def is_open(call: socket.socket) -> bool:
    """Tell whether a connection came to be."""
    with call:
        writable = select.select([], [call], [], 0)[1]
        return bool(writable) and call.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0


def main(port: int, asked_port: int) -> None:
    """Listen, and do as told until nobody tells anything any more."""
    if port:
        serve(port)
    for line in sys.stdin:
        order = json.loads(line)
        if order["do"] == "ask":
            told = Series(order).ask(asked_port)
        else:
            series = order["series"]
            told = {sender: [*those[series].items()] for sender, those in list(heard.items())}
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
