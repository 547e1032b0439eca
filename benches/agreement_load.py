"""Load of a known, steady kind on this machine: CPU, disk, datagrams, TCP connections, frames into a queue that is too short for them."""
import os
import socket
import subprocess
import threading
import time

NEAR, FAR = "rdiag-near", "rdiag-far"
WIRE = (
    f"link add {NEAR} type veth peer name {FAR}",
    f"link set {NEAR} up",
    f"link set {FAR} up",
)
# Half of what is sent fits.
QUEUE = f"qdisc add dev {NEAR} root tbf rate 2mbit burst 10kb limit 20kb"
# The first of the two numbers for experiments at home (IEEE 802), to the address of any: no protocol takes it.
FRAME = bytes.fromhex("ffffffffffff 020000000001 88b5") + b"x" * 986


def start(*command):
    env = dict(os.environ, LC_ALL="C", S_TIME_FORMAT="ISO", S_COLORS="never")
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env)


class Load:
    """Runs from `with` to its end; nothing of it leaves this machine."""

    def __init__(self, seconds, folder):
        self.life, self.folder = str(seconds + 15), folder
        self.stop, self.programs, self.kept = threading.Event(), [], []

    def __enter__(self):
        # A run that was killed leaves them behind.
        subprocess.run(["ip", "link", "delete", NEAR], stderr=subprocess.DEVNULL, check=False)
        for line in WIRE:
            subprocess.run(["ip", *line.split()], check=True)
        subprocess.run(["tc", *QUEUE.split()], check=True)
        fio = ("--size=256m", "--rw=randrw", "--bs=8k", "--direct=1", "--rate_iops=400,200", "--time_based", f"--runtime={self.life}")
        self.programs = [
            start("stress-ng", "--cpu", "1", "--cpu-load", "60", "--timeout", self.life),
            start("fio", "--name=agreement", f"--directory={self.folder}", *fio),
        ]
        for work in (self.datagrams, self.stream, self.connections, self.frames):
            threading.Thread(target=work, daemon=True).start()
        time.sleep(4)
        return self

    def __exit__(self, *_):
        self.stop.set()
        for program in self.programs:
            program.terminate()
            program.wait()
        subprocess.run(["ip", "link", "delete", NEAR], check=False)

    def datagrams(self):
        out, into = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
        into.bind(("127.0.0.1", 0))
        into.setblocking(False)
        while not self.stop.wait(0.01):
            for _ in range(20):
                out.sendto(b"x" * 1000, into.getsockname())
                try:
                    into.recv(2000)
                except BlockingIOError:
                    pass

    def stream(self):
        """One connection that carries 100 segments a second, and twenty more that carry nothing."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            pairs = [(socket.create_connection(server.getsockname()), server.accept()[0]) for _ in range(21)]
        out, into = pairs[0]
        while not self.stop.wait(0.01):
            out.sendall(b"x" * 1000)
            into.recv(1000, socket.MSG_WAITALL)

    def connections(self):
        """Ten connections a second, which then stay in TIME_WAIT."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            while not self.stop.wait(0.1):
                with socket.create_connection(server.getsockname()):
                    server.accept()[0].close()

    def frames(self):
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
            wire.bind((NEAR, 0))
            while not self.stop.wait(0.01):
                for _ in range(5):
                    try:
                        wire.send(FRAME)
                    except OSError:
                        # The queue is full, as it should be.
                        pass

    def unanswered(self):
        """Twenty connections that a listener with a full queue answers none of: each is tried again after 1, 3 and 7 s."""
        server = socket.create_server(("127.0.0.1", 0), backlog=0)
        for _ in range(22):
            client = socket.socket()
            client.setblocking(False)
            try:
                client.connect(server.getsockname())
            except BlockingIOError:
                pass
            self.kept.append(client)
            time.sleep(0.002)
        self.kept.append(server)
