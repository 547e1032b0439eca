"""Serves one program by FUSE at a mount point, and answers nobody any more once it was run: stuck_fuse.py MOUNT PROGRAM [OVERLAY | --silent].

Prints `ready` when the program can be started, and `stuck` when it has stopped answering (a second after the start). With an overlay, it is
mounted over the daemon's, as any user can in a namespace of their own (`unshare -Urm`); the program is started through it, and `pid N` printed. With `--silent` it answers all but what reads the program, and prints
`asked` when somebody does.
"""
import ctypes, os, select, stat, struct, sys, time

mount, program = sys.argv[1], open(sys.argv[2], "rb").read()
is_silent, overlays = "--silent" in sys.argv[3:], [word for word in sys.argv[3:] if word != "--silent"]
INIT, LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, FLUSH, OPENDIR, READDIR, STATFS, ACCESS = 26, 1, 2, 3, 14, 15, 18, 25, 27, 28, 17, 34
device = os.open("/dev/fuse", os.O_RDWR)
libc = ctypes.CDLL(None, use_errno=True)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
if libc.mount(b"stuck", mount.encode(), b"fuse", 6, options):
    sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")


def attributes(node):
    mode, size = (stat.S_IFDIR | 0o755, 0) if node == 1 else (stat.S_IFREG | 0o755, len(program))
    return struct.pack("<QQQQQQIIIIIIIIII", node, size, 1, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer(opcode, node, body):
    """The answer to a request, or an error number; nothing for what wants none."""
    if opcode == INIT:
        return struct.pack("<IIIIHHIIHHIIIIIII", 7, 23, 131072, 0, 0, 0, 131072, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)[:64]
    if opcode == LOOKUP:
        return struct.pack("<QQQQII", 2, 0, 0, 0, 0, 0) + attributes(2) if body.rstrip(b"\0") == b"program" else -2
    if opcode == GETATTR:
        # Not remembered: whoever asks again has to wait.
        return struct.pack("<QII", 0, 0, 0) + attributes(node)
    if opcode in (OPEN, OPENDIR):
        return struct.pack("<QII", 0, 2, 0)
    if opcode == READ:
        _, offset, size = struct.unpack_from("<QQI", body)
        return program[offset : offset + size]
    if opcode == STATFS:
        return struct.pack("<QQQQQIIII6I", 1000, 500, 500, 1000, 500, 4096, 255, 4096, 0, *[0] * 6)
    if opcode in (RELEASE, FLUSH, ACCESS):
        return b""
    return None if opcode == FORGET else -38


def start_through(overlay):
    """Mounts the overlay and runs the program, beside the daemon."""
    if os.fork():
        return
    beside = f"{overlay}.beside"
    os.mkdir(beside)
    if libc.mount(b"overlay", overlay.encode(), b"overlay", 0, f"lowerdir={mount}:{beside}".encode()):
        print(f"overlay: {os.strerror(ctypes.get_errno())}", flush=True)
        os._exit(1)
    print(f"pid {os.getpid()}", flush=True)
    ctypes.CDLL(None).prctl(1, 9)
    os.execv(f"{overlay}/program", ["program"])


print("ready", flush=True)
for overlay in overlays:
    start_through(overlay)
until = None
while until is None or time.monotonic() < until:
    if not select.select([device], [], [], 0.1)[0]:
        continue
    request = os.read(device, 1 << 18)
    _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
    if opcode == READ and is_silent:
        print("asked", flush=True)
        continue
    told = answer(opcode, node, request[40:])
    if opcode == READ and until is None:
        until = time.monotonic() + 1
    if told is not None:
        error, told = (told, b"") if isinstance(told, int) else (0, told)
        os.write(device, struct.pack("<IiQ", 16 + len(told), error, unique) + told)
print("stuck", flush=True)
time.sleep(1000)
