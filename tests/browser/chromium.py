"""A headless Chromium, driven over a pipe by its DevTools protocol: a message is JSON that ends with a zero byte."""

import fcntl
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

# Nothing that a browser does of its own accord: no first run, no updates, no reports.
ARGUMENTS = """--headless --no-sandbox --disable-gpu --disable-quic --disable-extensions --disable-sync --disable-dev-shm-usage
--disable-background-networking --disable-component-update --disable-default-apps --disable-domain-reliability --disable-breakpad
--no-first-run --no-default-browser-check --hide-scrollbars --mute-audio --remote-debugging-pipe""".split()
# A page of a fleet has thousands of elements for axe to look at, and others may have the CPUs.
TIMEOUT = 120


class Failed(Exception):
    """What the browser refused, or did not answer."""


def inherited(fd):
    """The same under a number that no shell uses."""
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD, 20)
    os.close(fd)
    return moved


class Chromium:
    """One browser with one tab."""

    def __init__(self):
        binary = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
        if not binary:
            raise Failed("chromium is not installed: apt-get install chromium")
        self.home = tempfile.mkdtemp(prefix="rdiag-browser-")
        commands, self.commands = (inherited(fd) for fd in os.pipe())
        self.answers, answers = (inherited(fd) for fd in os.pipe())
        # The browser reads commands from 3 and answers on 4.
        shell = f'exec "$@" 3<&{commands} 4>&{answers}'
        self.process = subprocess.Popen(
            ["bash", "-c", shell, "bash", binary, *ARGUMENTS, f"--user-data-dir={self.home}", "about:blank"],
            pass_fds=(commands, answers),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "HOME": self.home},
        )
        os.close(commands)
        os.close(answers)
        self.buffer, self.number, self.events, self.session = b"", 0, [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call("Emulation.setFocusEmulationEnabled", enabled=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        shutil.rmtree(self.home, ignore_errors=True)

    def read(self, deadline):
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.answers], [], [], left)[0]:
                raise Failed("the browser does not answer")
            part = os.read(self.answers, 1 << 20)
            if not part:
                raise Failed(f"the browser ended with {self.process.wait()}")
            self.buffer += part
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + TIMEOUT
        while True:
            answer = self.read(deadline)
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise Failed(f"{method}: {answer['error']['message']}")
                return answer["result"]
            if "method" in answer:
                self.events.append(answer)

    def wait(self, method):
        """Until an event came, which may be there already."""
        deadline = time.monotonic() + TIMEOUT
        while not any(event["method"] == method for event in self.events):
            message = self.read(deadline)
            if "method" in message:
                self.events.append(message)

    def size(self, width, height, scheme="light", media=""):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        features = [{"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)

    def open(self, file):
        """Loads a file and gives what happened meanwhile."""
        self.events = []
        answer = self.call("Page.navigate", url=pathlib.Path(file).resolve().as_uri())
        if answer.get("errorText"):
            raise Failed(f"{file}: {answer['errorText']}")
        self.wait("Page.loadEventFired")
        return self.events

    def run(self, script, *arguments):
        """What a function gives in the page."""
        source = f"({script})({', '.join(json.dumps(argument) for argument in arguments)})"
        answer = self.call("Runtime.evaluate", expression=source, awaitPromise=True, returnByValue=True, userGesture=True)
        if "exceptionDetails" in answer:
            details = answer["exceptionDetails"]
            raise Failed(details.get("exception", {}).get("description") or details["text"])
        return answer["result"].get("value")

    def key(self, key, code):
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)
