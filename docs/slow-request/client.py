"""Asks for a price again and again, and says how long it took: client.py PORT SECONDS [PATH ...]."""
import itertools
import socket
import sys
import time

port, seconds = int(sys.argv[1]), float(sys.argv[2])
paths = itertools.cycle(sys.argv[3:] or ["/price"])
times, end = [], time.monotonic() + seconds
while time.monotonic() < end:
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(f"GET {next(paths)} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        while connection.recv(4096):
            pass
    times.append(time.monotonic() - began)
    time.sleep(0.01)
times.sort()
p50, p99 = (times[int(len(times) * share)] * 1e3 for share in (0.5, 0.99))
print(f"{len(times)} requests, p50 {p50:.1f} ms, p99 {p99:.1f} ms")
