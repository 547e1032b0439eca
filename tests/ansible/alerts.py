#!/usr/bin/env python3
"""From an alert to the report in the ticket: the playbook with names that no inventory has, and the rulebook under ansible-rulebook with
what Alertmanager posts and what it would never post. Only the host that is meant is measured, and once.

    tests/ansible/alerts.py RDIAG         with ansible-playbook and ansible-rulebook (which needs Java 17) in the PATH

The source is ansible-rulebook's own webhook: the collection ansible.eda is not on PyPI.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from urllib.parse import quote

from place import EVIL, TREES, Place

TOKEN = "rdiag-5f2c"
# What would be done if a part of an alert were a template, or a line for a shell.
SPELL = '{{ lookup("pipe", "touch %s/conjured") }}'


def hosts(place: Place) -> None:
    """web-1 is short of CPU; each host notes that it was measured."""
    for group, name, story in [
        ("web", "web-1", "whole-host-short-of-cpu"),
        ("web", "web-2", "whole-host-quiet"),
        ("web", "web-3", "whole-host-quiet"),
        ("db", EVIL, "whole-host-quiet"),
    ]:
        key = quote(name, safe="")
        inner = place.tree(key[:9], story, key)
        noted = place.script(f"noted-{key}", f'[ "$1" != record ] || echo "{key}" >>"{place.folder}/measured"\nexec "{inner}" "$@"')
        place.host(group, name, rdiag_path=str(noted))
    place.groups["web"]["web-3"]["ansible_host"] = "192.0.2.3"
    place.host("db", "dead", ansible_connection="ssh", ansible_host="127.0.0.1", ansible_port=1)


def measured(place: Place) -> list[str]:
    noted = place.folder / "measured"
    return noted.read_text().split() if noted.exists() else []


def reports(place: Place) -> dict[str, Path]:
    return {path.name.rsplit("-", 1)[0]: path for path in (place.folder / "tickets").glob("*.md")}


def check_playbook(place: Place) -> None:
    def ask(instance: str, **more: object) -> subprocess.CompletedProcess:
        alert = "&".join(["instance=" + quote(instance), *(f"{key}={quote(str(value))}" for key, value in more.items())])
        return place.play("ticket", "-e", json.dumps({"rdiag_alert": alert, **place.variables}))

    spell = SPELL % place.folder
    for name in ["all", "web-*", "web-1,web-2", "localhost", "", "@inventory.json", spell]:
        done = ask(name)
        assert done.returncode == 2 and "no hosts of the inventory have the name" in done.stdout, f"{name}: {done.stdout}"
    assert not measured(place) and not reports(place), (measured(place), reports(place))
    print("names that no host of the inventory has: nothing was measured")

    hook = place.script("hook", f'{{ echo "$RDIAG_HOST|$RDIAG_ALERT|$RDIAG_REPORT"; cat; }} >"{place.folder}/handed"')
    place.variables = {"rdiag_ticket_command": [str(hook)]}
    done = ask("web-1:9100", name=f"Host CPU `high` {spell}", received=time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()) + ".5Z")
    assert done.returncode == 0, done.stdout
    text = reports(place)["web-1"].read_text()
    assert text.startswith("# CRITICAL: Bottleneck: CPU saturation\n") and "\nAlert: `Host CPU %60high%60 %7B%7B" in text, text
    assert "`web-1`" in text.splitlines()[-1]
    first, _, rest = (place.folder / "handed").read_text().partition("\n")
    assert first == f"web-1|{quote('Host CPU `high` ' + spell)}|{reports(place)['web-1']}" and rest.strip() == text.strip(), first
    beside = reports(place)["web-1"].with_suffix(".json.gz")
    again = subprocess.run([place.rdiag, "analyze", beside, "--summary"], stdout=subprocess.PIPE, text=True, check=True)
    assert again.stdout.startswith("web-1: critical"), again.stdout
    place.variables = {}
    print("a report, its recording, and what a command was handed: as expected")

    done = ask("web-1")
    assert done.returncode == 0 and "there is a report of the last 900 s" in done.stdout, done.stdout
    done = ask("web-2", received="2026-03-02T03:12:45Z")
    assert done.returncode == 0 and "for others" in done.stdout, done.stdout
    assert measured(place) == ["web-1"], measured(place)
    print("a second alert within the interval, and one that waited too long: nothing was measured")

    assert ask("192.0.2.3:9100").returncode == 0 and "web-3" in reports(place)
    assert ask(EVIL).returncode == 0 and reports(place)[quote(EVIL, safe="")].read_text().startswith("# OK: ")
    assert ask("dead").returncode in (0, 4) and "Connection refused" in reports(place)["dead"].read_text()
    assert reports(place)["dead"].read_text().startswith("# UNKNOWN: ")
    assert measured(place) == ["web-1", "web-3", quote(EVIL, safe="")], measured(place)
    print("by address, by a hostile name of the inventory, and a dead host: as expected")


def payload(*alerts: dict) -> dict:
    """As version 4 of Alertmanager's webhooks has it."""
    full = [
        {
            "status": "firing",
            "annotations": {"summary": "CPU is busy on web-1"},
            "startsAt": "2026-11-25T22:10:00.000Z",
            "endsAt": "0001-01-01T00:00:00Z",
            "generatorURL": "http://prometheus:9090/graph?g0.expr=1",
            "fingerprint": f"{number:016x}",
        }
        | alert
        for number, alert in enumerate(alerts)
    ]
    return {
        "version": "4",
        "groupKey": '{}:{alertname="HostHighCpu"}',
        "truncatedAlerts": 0,
        "status": "firing",
        "receiver": "rdiag",
        "groupLabels": {"alertname": "HostHighCpu"},
        "commonLabels": {"alertname": "HostHighCpu"},
        "commonAnnotations": {},
        "externalURL": "http://alertmanager:9093",
        "alerts": full,
    }


def labels(instance: object, name: str = "HostHighCpu") -> dict:
    return {"labels": {"alertname": name, "instance": instance, "job": "node", "severity": "page"}}


def post(port: int, body: object, token: str | None = TOKEN) -> int:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"Content-Type": "application/json", "User-Agent": "Alertmanager/0.28.1"}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/alerts", data, headers)
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def until(what: str, seconds: float, done) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(0.5)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def check_rulebook(place: Place) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    (place.folder / "vars.yml").write_text(json.dumps({"rdiag_port": port}))
    place.inventory(rdiag_controller=place.rdiag)
    command = ["ansible-rulebook", "-i", "inventory.json", "--rulebook", "rdiag.diagnose.alertmanager", "--vars", "vars.yml"]
    command += ["--env-vars", "RDIAG_TOKEN"]
    # ansible-rulebook leaves a folder behind when it is ended.
    (place.folder / "tmp").mkdir()
    env = place.environment() | {"RDIAG_TOKEN": TOKEN, "TMPDIR": str(place.folder / "tmp")}
    said = place.folder / "rulebook.log"
    with said.open("w") as log:
        running = subprocess.Popen(
            command, cwd=place.folder, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    try:
        until("ansible-rulebook listens", 120, lambda: running.poll() is not None or listens(port))
        assert running.poll() is None, said.read_text()
        spell = SPELL % place.folder
        one = payload(labels("web-2:9100"))
        assert post(port, one, None) == 401 and post(port, one, "rdiag-5f2d") == 401, "only who knows the token is heard"
        for nonsense in [b"{", {}, [], *({"alerts": alerts} for alerts in [5, ["x"], [[]], [{}], [{"status": "firing"}]])]:
            assert post(port, nonsense) in (200, 400, 500), nonsense
        # Resolved, hostile, with a limit of its own, without and with other kinds of names, and unknown to the inventory.
        assert post(port, payload(labels("web-2:9100") | {"status": "resolved", "endsAt": "2026-11-25T22:20:00.000Z"})) == 200
        hostile = [EVIL, "all", "web-*", "web-1,web-2", spell, "$(touch conjured)", "localhost", "-i", ["web-2"], {"web-2": 1}, 7, None, ""]
        assert post(port, payload(*(labels(name) for name in hostile))) == 200
        limited = labels("web-2") | {"meta": {"hosts": "localhost,all"}}
        assert post(port, payload(limited, {"labels": {"alertname": "Watchdog"}}, {"labels": None})) == 200
        assert post(port, payload(labels("web-9:9100"))) == 200
        # Two alerts of one host, and again; parts that would be templates.
        busy = labels("web-1:9100") | {"annotations": {"summary": spell, "description": '"; rm -rf /'}}
        assert post(port, payload(busy, labels("web-1:9100", "HostPressure"))) == 200
        assert post(port, payload(labels("web-1:9100", spell), labels("web-1:8080", "ServiceSlow"))) == 200
        # They are taken in turn: when this one is done, all are.
        assert post(port, payload(labels("192.0.2.3:9100", spell))) == 200
        until("a report of the last host", 600, lambda: running.poll() is not None or "web-3" in reports(place))
        assert running.poll() is None, said.read_text()
    finally:
        os.killpg(running.pid, signal.SIGTERM)
        try:
            running.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
    log = said.read_text()
    assert measured(place) == ["web-1", "web-3"], f"{measured(place)}\n{log}"
    assert set(reports(place)) == {"web-1", "web-3"}, reports(place)
    assert reports(place)["web-1"].read_text().startswith("# CRITICAL: Bottleneck: CPU saturation\n")
    assert "\nAlert: `HostHighCpu`. Host of the inventory: `web-1`." in reports(place)["web-1"].read_text()
    # web-1 by two ports, and 192.0.2.3: for hosts of the inventory the playbook was started three times.
    assert log.count("TASK [Look for a report of this host that is not old]") == 3, log
    for said in ["web-9%3A9100: nothing is measured", "ansible_host all: nothing is measured", "there is a report of the last 900 s"]:
        assert said in " ".join(log.split()), f"{said}: {log}"
    print("posts of Alertmanager and of others to the rulebook: the two hosts that were meant were measured, once each")


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for check in [check_rulebook, check_playbook]:
        with tempfile.TemporaryDirectory(prefix="rdiag-alerts.") as folder:
            place = Place(Path(folder), str(Path(sys.argv[1]).resolve()))
            place.variables = {}
            hosts(place)
            place.inventory()
            check(place)
            assert not (Path(folder) / "conjured").exists(), "a part of an alert was carried out"


main()
