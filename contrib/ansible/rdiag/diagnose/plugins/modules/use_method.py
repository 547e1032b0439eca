#!/usr/bin/python
# Copyright: the rdiag developers
# MIT or Apache-2.0
"""Record a host with rdiag, and hand the recording back."""

from __future__ import annotations

DOCUMENTATION = r"""
module: use_method
short_description: Record a host with rdiag
description:
  - Runs C(rdiag record) and returns the recording, which C(rdiag fleet) judges on the controller.
  - Nothing is written on the host beside what Ansible itself needs, and nothing is changed.
version_added: "0.1.0"
author: The rdiag developers (@rdiag)
options:
  path:
    description: The program, by its name or path.
    type: str
    default: rdiag
  playbook:
    description: What to record, C(rdiag list playbooks).
    type: str
    default: use-method
  duration:
    description: Length of the window, for example C(10s).
    type: str
    default: 10s
  begin_at:
    description:
      - When the window is to begin, as C(rdiag record --begin-at) takes it.
      - A host that is started after this instant records at once, and C(aligned) is false.
    type: str
  time_limit:
    description: Seconds after which rdiag is ended, if it has not ended by itself.
    type: int
    default: 900
  remove:
    description:
      - A folder that is removed when this ends, also if the controller has been killed meanwhile.
      - It is one that this collection has made for its copy of the program (C(rdiag.ansible.*)); another one is refused.
    type: path
  arguments:
    description: Further arguments of C(rdiag record).
    type: list
    elements: str
    default: []
attributes:
  check_mode:
    description: It only measures, so that check mode measures as well.
    support: full
"""

EXAMPLES = r"""
- name: Record for ten seconds
  rdiag.diagnose.use_method:
  register: recorded
"""

RETURN = r"""
recording:
  description: The recording (JSON under gzip) as base64.
  returned: success
  type: str
hostname:
  description: What the host calls itself.
  returned: success
  type: str
started:
  description: When the window began, by the clock of the host.
  returned: success
  type: str
aligned:
  description: Whether it began at C(begin_at).
  returned: success
  type: bool
bytes:
  description: Size of the recording.
  returned: success
  type: int
"""

import base64
import json
import os
import selectors
import shutil
import signal
import subprocess
import time
import zlib

from ansible.module_utils.basic import AnsibleModule

# A recording of the largest hosts has a tenth of it; more than this is no recording.
MOST_PACKED = 64 << 20
MOST_PLAIN = 512 << 20
# Seconds by which a window is no longer aligned.
LATE = 0.5
# Of what rdiag says on stderr the end is kept.
MOST_WORDS = 2000


class Refused(Exception):
    """Why there is no recording."""


def run(argv, limit):
    """Runs rdiag: its exit code, stdout and the end of stderr, all bounded in size and time."""
    try:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
    except OSError as error:
        raise Refused("starting %s: %s" % (argv[0], error.strerror))
    out, words = bytearray(), bytearray()
    until = time.monotonic() + limit
    try:
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ, out)
            ready.register(process.stderr, selectors.EVENT_READ, words)
            while ready.get_map():
                left = until - time.monotonic()
                if left <= 0:
                    raise Refused("%s did not end within %d s" % (argv[0], limit))
                for key, _events in ready.select(left):
                    chunk = os.read(key.fd, 1 << 16)
                    if not chunk:
                        ready.unregister(key.fileobj)
                    key.data.extend(chunk)
                    if len(out) > MOST_PACKED:
                        raise Refused("%s wrote more than %d MiB, which is no recording" % (argv[0], MOST_PACKED >> 20))
                    del words[:-MOST_WORDS]
        try:
            code = process.wait(max(0.1, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            raise Refused("%s did not end within %d s" % (argv[0], limit))
        return code, bytes(out), words.decode("utf-8", "replace").strip()
    finally:
        if process.poll() is None:
            # The whole session: what rdiag started ends with it.
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def understood(packed):
    """What a recording says of itself: its host, its start, and how late that was where an instant was asked for. Refuses what is none."""
    unpack = zlib.decompressobj(31)
    try:
        plain = unpack.decompress(packed, MOST_PLAIN)
        if unpack.unconsumed_tail:
            raise Refused("it answered with more than %d MiB unpacked, which is no recording" % (MOST_PLAIN >> 20))
        if not unpack.eof:
            raise Refused("it answered with a recording that is cut off (%d bytes)" % len(packed))
        recording = json.loads(plain)
        host = recording["host"]["hostname"]
        started = recording["started"]
        begin = recording.get("setup", {}).get("begin")
        late = float(begin["late_seconds"]) if begin else None
        if not (isinstance(host, str) and isinstance(started, str) and isinstance(recording["windows"], list)):
            raise TypeError
    except (zlib.error, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Refused("it answered with %d bytes that are no recording of rdiag" % len(packed))
    return host, started, late


def recorded(module):
    asked = module.params
    path = asked["path"] if os.path.sep in asked["path"] else module.get_bin_path(asked["path"])
    if not path:
        raise Refused("there is no %s on this host: install the package, or set rdiag_copy" % asked["path"])
    argv = [path, "record", asked["playbook"], "--duration", asked["duration"]] + asked["arguments"] + ["-o", "-"]
    begin = ["--begin-at", asked["begin_at"], "--or-now"] if asked["begin_at"] else []
    code, out, words = run(argv + begin, asked["time_limit"])
    # Ended early, or nothing to be seen: there may be a recording all the same.
    if code != 0 and not out:
        raise Refused("rdiag ended with code %d: %s" % (code, words or "it said nothing"))
    host, started, late = understood(out)
    return {
        "recording": base64.b64encode(out).decode("ascii"),
        "hostname": host,
        "started": started,
        "aligned": late is not None and late < LATE,
        "bytes": len(out),
    }


def main():
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "str", "default": "rdiag"},
            "playbook": {"type": "str", "default": "use-method"},
            "duration": {"type": "str", "default": "10s"},
            "begin_at": {"type": "str"},
            "time_limit": {"type": "int", "default": 900},
            "remove": {"type": "path"},
            "arguments": {"type": "list", "elements": "str", "default": []},
        },
        supports_check_mode=True,
    )
    folder = module.params["remove"]
    if folder and not os.path.basename(folder).startswith("rdiag.ansible."):
        module.fail_json(msg="%s is no folder that this collection has made" % folder)
    try:
        told = recorded(module)
    except Refused as why:
        module.fail_json(msg=str(why))
    finally:
        if folder:
            shutil.rmtree(folder, ignore_errors=True)
    # Where the controller is gone, this has no reader.
    module.exit_json(changed=False, **told)


if __name__ == "__main__":
    main()
