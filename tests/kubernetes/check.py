#!/usr/bin/env python3
"""`kubectl rdiag` under the real kubectl against a stub of the API, with nodes that answer and nodes that do anything else.

    tests/kubernetes/check.py RDIAG       with kubectl in the PATH and the Python package yaml

No cluster can be had here: the stub plays the scheduler and the kubelet, and a pod's log is what the shipped program writes over a recorded
tree. The plugin was not run on a real one.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlparse

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
sys.dont_write_bytecode = True
from fleet_page import blocks  # noqa: E402

KUBERNETES = ROOT / "contrib/kubernetes"
TREES = ROOT / "tests/fixtures/hosts"
DENIED = 'pods "x" is forbidden: violates PodSecurity "restricted:latest": privileged (container "rdiag" must not set securityContext.privileged=true)'
# What each node does, and what must be said of it; "" for a recording.
NODES = {
    "node-a": "",
    "node-b.example.org": "",
    "node-c": "",
    "busy-api": "",
    "tainted": "",
    "twice": "",
    "cut-off": "its log is cut off",
    "rotated": "its log is cut off",
    "damaged": "length or checksum differs",
    "garbage": "its log holds no recording",
    "evicted": "its log holds no recording",
    "pending": "its pod did not end within",
    "no-log": "its log could not be read",
    "restricted": "kubectl label namespace rdiag pod-security.kubernetes.io/enforce=privileged",
}


LABEL = "node.kubernetes.io/instance-type"


class Cluster:
    """What the stub remembers."""

    def __init__(self, rdiag: str):
        self.pods: dict[str, dict] = {}
        self.seen: list[dict] = []
        self.refused: dict[str, int] = {}
        # Requests that were refused once for being too many, by what they asked for.
        self.busy: set[str] = set()
        # What is not a pod, by kind.
        self.applied: list[str] = []
        self.lock = threading.Lock()
        command = [rdiag, "record", "use-method", "--armor", "-o", "-", "--root", TREES / "whole-host-quiet"]
        self.log = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout

    def is_busy(self, what: str) -> bool:
        """Whether it is the first request of its kind."""
        with self.lock:
            is_first = what not in self.busy
            self.busy.add(what)
        return is_first

    def create(self, pod: dict) -> tuple[int, dict]:
        node = pod["spec"]["nodeName"]
        with self.lock:
            # Too many requests: twice, then it goes.
            if node == "busy-api" and self.refused.setdefault(node, 0) < 2:
                self.refused[node] += 1
                return 429, status(429, "TooManyRequests", "the server has received too many requests")
            if node == "restricted":
                return 403, status(403, "Forbidden", DENIED)
            phase = {"pending": "Pending", "evicted": "Failed"}.get(node, "Succeeded")
            if node == "tainted" and {"operator": "Exists"} not in pod["spec"]["tolerations"]:
                phase = "Pending"
            pod["metadata"] |= {"namespace": "rdiag", "uid": node}
            pod["status"] = {"phase": phase}
            self.pods[pod["metadata"]["name"]] = pod
            self.seen.append(pod)
            return 201, pod

    def logs(self, name: str) -> tuple[int, bytes | dict]:
        node = self.pods[name]["spec"]["nodeName"]
        lines = self.log.splitlines(keepends=True)
        text = {
            "cut-off": b"".join(lines[:20]),
            # The beginning is gone, and with it the frame.
            "rotated": lines[0] + b"".join(lines[30:-1]),
            "damaged": b"".join([*lines[:5], *lines[6:]]),
            "garbage": os.urandom(2_000_000),
            "evicted": b"The node was low on resource: memory.\n",
            # Something else was written to the log as well.
            "twice": b"warning: something\n" + self.log + b"and more\n",
        }.get(node, self.log)
        if node == "pending":
            return 400, status(400, "BadRequest", 'container "rdiag" in pod "x" is waiting to start: ContainerCreating')
        return (404, status(404, "NotFound", "no log")) if node == "no-log" else (200, text)


# What rbac.yaml makes, by the version of its API.
KINDS = {
    "v1": [("namespaces", "Namespace", False)],
    "rbac.authorization.k8s.io/v1": [("roles", "Role", True), ("clusterroles", "ClusterRole", False)],
}


def path_of(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def resources(version: str, kinds: list[tuple[str, str, bool]]) -> dict:
    verbs = ["get", "list", "create", "delete", "deletecollection", "patch"]
    all_kinds = [{"name": n, "singularName": "", "namespaced": own, "kind": kind, "verbs": verbs} for n, kind, own in kinds]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": all_kinds}


def openapi(version: str) -> dict:
    """What kubectl asks before it leaves the validation of fields to the API."""
    group, _, own = version.rpartition("/")
    def patch(kind: str) -> dict:
        named = {"group": group, "version": own, "kind": kind}
        return {"patch": {"parameters": [{"name": "fieldValidation", "in": "query"}], "x-kubernetes-group-version-kind": named}}

    paths = {f"{path_of(version)}/{name}/{{name}}": patch(kind) for name, kind, _ in KINDS[version]}
    return {"openapi": "3.0.0", "info": {"title": "stub", "version": "1"}, "paths": paths}


def labels(node: str, system: str) -> dict:
    """Nodes of two sizes, and of the others none is known."""
    size = {"node-a": "large", "node-c": "large", "busy-api": "small.2x", "cut-off": "large"}.get(node)
    return {"kubernetes.io/os": system} | ({LABEL: size} if size else {})


def status(code: int, reason: str, message: str) -> dict:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code, "reason": reason, "message": message}


def bears(pod: dict, selector: str) -> bool:
    """Whether it has the labels that a selector names."""
    own = pod["metadata"].get("labels", {})
    return all(own.get(label) == value for label, value in (part.split("=") for part in selector.split(",") if part))


def handler(cluster: Cluster) -> type:
    class Api(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def answer(self, code: int, what: dict | bytes) -> None:
            body = what if isinstance(what, bytes) else json.dumps(what).encode()
            self.send_response(code)
            self.send_header("Content-Type", "text/plain" if isinstance(what, bytes) else "application/json")
            self.send_header("Content-Length", str(len(body)))
            if code == 429:
                self.send_header("Retry-After", "1")
            self.end_headers()
            self.wfile.write(body)

        def refuses(self, what: str) -> bool:
            if not cluster.is_busy(what):
                return False
            self.answer(429, status(429, "TooManyRequests", "the server has received too many requests"))
            return True

        def do_GET(self) -> None:
            url = urlparse(self.path)
            path, name = url.path, url.path.split("/")[-1]
            wanted = parse_qs(url.query).get("labelSelector", [""])[0]
            if path == "/version":
                return self.answer(200, {"major": "1", "minor": "32", "gitVersion": "v1.32.0"})
            if path == "/api":
                return self.answer(200, {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})
            if path == "/apis":
                version = {"groupVersion": "rbac.authorization.k8s.io/v1", "version": "v1"}
                group = {"name": "rbac.authorization.k8s.io", "versions": [version], "preferredVersion": version}
                return self.answer(200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]})
            if path == "/api/v1":
                kinds = [("nodes", "Node", False), ("pods", "Pod", True), ("pods/log", "Pod", True), *KINDS["v1"]]
                return self.answer(200, resources("v1", kinds))
            if path == "/openapi/v3":
                urls = {path_of(version).strip("/"): {"serverRelativeURL": f"/openapi/v3{path_of(version)}"} for version in KINDS}
                return self.answer(200, {"paths": urls})
            for version, kinds in KINDS.items():
                if path == path_of(version):
                    return self.answer(200, resources(version, kinds))
                if path == f"/openapi/v3{path_of(version)}":
                    return self.answer(200, openapi(version))
            if path == "/openapi/v2":
                # Of an older kubectl: a document that describes nothing.
                return self.answer(200, b"")
            if path == "/api/v1/nodes" and self.refuses("nodes"):
                return None
            if path.endswith("/log") and self.refuses(f"log of {path.split('/')[-2]}"):
                return None
            if path == "/api/v1/nodes":
                nodes = [(node, "linux") for node in NODES] + [("win-1", "windows")]
                listed = [{"kind": "Node", "apiVersion": "v1", "metadata": {"name": node, "labels": labels(node, system)}} for node, system in nodes if f"kubernetes.io/os={system}" in wanted]
                return self.answer(200, {"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": listed})
            if path.endswith("/log"):
                return self.answer(*cluster.logs(path.split("/")[-2]))
            if path.endswith("/pods"):
                return self.answer(200, {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [pod for pod in cluster.pods.values() if bears(pod, wanted)]})
            if name in cluster.pods:
                return self.answer(200, cluster.pods[name])
            return self.answer(404, status(404, "NotFound", f"no {path}"))

        def do_POST(self) -> None:
            one = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if one["kind"] != "Pod":
                cluster.applied.append(one["kind"])
                return self.answer(201, one)
            self.answer(*cluster.create(one))

        def do_DELETE(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            self.rfile.read(size)
            if self.refuses("delete"):
                return
            with cluster.lock:
                cluster.pods.pop(urlparse(self.path).path.split("/")[-1], None)
            self.answer(200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})

    return Api


def check_pod(pod: dict) -> None:
    """The pod is what it says: bound to its node, without a token, read-only, limited in time."""
    spec = pod["spec"]
    assert spec["automountServiceAccountToken"] is False and spec["activeDeadlineSeconds"] == 900 and spec["restartPolicy"] == "Never"
    assert spec["hostPID"] and spec["hostNetwork"] and spec["tolerations"] == [{"operator": "Exists"}]
    (container,) = spec["containers"]
    assert container["securityContext"] == {"privileged": True, "readOnlyRootFilesystem": True} and container["resources"]["limits"]
    assert all(volume["readOnly"] for volume in container["volumeMounts"])
    assert len(pod["metadata"]["name"]) <= 63


def check_files(environment: dict, folder: Path) -> None:
    for file in ["rbac.yaml", "daemonset.yaml"]:
        documents = list(yaml.safe_load_all((KUBERNETES / file).read_text()))
        assert all(document["apiVersion"] and document["kind"] for document in documents), file
    # Whoever records needs these, and nothing else: no exec, no secrets, no other namespace.
    rules = [rule for document in yaml.safe_load_all((KUBERNETES / "rbac.yaml").read_text()) for rule in document.get("rules", [])]
    assert {resource for rule in rules for resource in rule["resources"]} == {"pods", "pods/log", "nodes"}
    (daemons,) = yaml.safe_load_all((KUBERNETES / "daemonset.yaml").read_text())
    own = daemons["spec"]["template"]["spec"]
    assert own["initContainers"][0]["args"][-3:] == ["--armor", "-o", "-"] and not own["automountServiceAccountToken"]
    for evil in ["a b", "x\nprivileged: true", '";rm', ""]:
        done = subprocess.run([KUBERNETES / "kubectl-rdiag", "-i", evil, "-o", folder / "no"], env=environment, capture_output=True, text=True)
        assert done.returncode == 2 and "signs that it may not have" in done.stderr and not (folder / "no").exists(), done
    done = subprocess.run([KUBERNETES / "kubectl-rdiag", "pod", "node-x"], env=environment, capture_output=True, text=True, check=True)
    check_pod(yaml.safe_load(done.stdout))


def serve(rdiag: str, folder: Path) -> tuple[Cluster, dict]:
    """The stub, and the environment in which kubectl asks it."""
    cluster = Cluster(rdiag)
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(cluster))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "stub", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "contexts": [{"name": "stub", "context": {"cluster": "stub", "user": "stub"}}],
        "users": [{"name": "stub", "user": {}}],
        "current-context": "stub",
    }
    (folder / "config").write_text(json.dumps(config))
    environment = os.environ | {
        "KUBECONFIG": str(folder / "config"),
        "HOME": str(folder),
        "RDIAG": rdiag,
        "RDIAG_LEAD": "0",
        "RDIAG_PATIENCE": "12",
        "RDIAG_POLL": "0.2",
        "NO_COLOR": "1",
    }
    return cluster, environment


def check_page(rdiag: str, folder: Path) -> None:
    """What docs/fleet.md says to one who has the sources, a cluster and rdiag."""
    cluster, environment = serve(rdiag, folder)
    (folder / "contrib").symlink_to(ROOT / "contrib")
    (block,) = blocks("Kubernetes")
    environment["PATH"] = f"{folder}/.local/bin:{environment['PATH']}"
    done = subprocess.run(["sh", "-ec", block], env=environment, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    assert sorted(cluster.applied) == ["ClusterRole", "Namespace", "Role"], cluster.applied
    image = block.split(" -i ")[1].split()[0]
    assert cluster.seen and {pod["spec"]["containers"][0]["image"] for pod in cluster.seen} == {image}
    document = json.loads((folder / "fleet/fleet.json").read_text())
    assert document["judged"] == sum(not why for why in NODES.values()) and not cluster.pods, document["headline"]
    print("the commands of docs/fleet.md: permissions and plugin are installed, and the nodes judged")


def check(rdiag: str, folder: Path) -> None:
    cluster, environment = serve(rdiag, folder)
    check_files(environment, folder)
    out = folder / "fleet"
    (out / "runs").mkdir(parents=True)
    (out / "runs/of-yesterday.json.gz").write_bytes(cluster.log)
    # Another one measures at the same time.
    other = {"metadata": {"name": "other", "labels": {"app.kubernetes.io/name": "rdiag", "rdiag/run": "1-1"}}, "spec": {"nodeName": "other"}}
    cluster.pods["other"] = {"kind": "Pod", "apiVersion": "v1"} | other
    done = subprocess.run([KUBERNETES / "kubectl-rdiag", "-o", out, "-g", LABEL], env=environment, cwd=folder, capture_output=True, text=True)
    said = done.stdout + done.stderr
    assert done.returncode == 0, said
    document = json.loads((out / "fleet.json").read_text())
    missing = {gap["host"]: gap["detail"] for gap in document["not_judged"]}
    expected = {node: why for node, why in NODES.items() if why}
    assert set(missing) == set(expected), f"{sorted(missing)}\n{said}"
    for node, why in expected.items():
        assert why in missing[node], f"{node}: {missing[node]}"
    assert document["judged"] == len(NODES) - len(expected), document["headline"]
    files = {row["file"].rsplit("/", 1)[-1] for row in document["hosts"]}
    assert files == {f"{node}.json.gz" for node, why in NODES.items() if not why}, files
    groups = {group["name"]: group["hosts"] for group in document["groups"]}
    assert groups == {"large": 2, "small.2x": 1, "without": 3}, groups
    assert list(cluster.pods) == ["other"], f"own pods are left, or those of another run are not: {list(cluster.pods)}"
    assert {"nodes", "delete"} < cluster.busy and len(cluster.busy) > 10, cluster.busy
    assert not (out / "why").exists() and "win-1" not in said
    for pod in cluster.seen:
        check_pod(pod)
    assert len({pod["metadata"]["name"] for pod in cluster.seen}) == len(cluster.seen) == len(NODES) - 1
    print(f"{document['judged']} nodes judged, {len(missing)} listed with their reasons, no pod left: as expected")


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    for check_of in [check, check_page]:
        with tempfile.TemporaryDirectory(prefix="rdiag-kubernetes.") as folder:
            check_of(str(Path(sys.argv[1]).resolve()), Path(folder))


main()
