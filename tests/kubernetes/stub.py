"""A stub of the API of Kubernetes, with nodes that answer and nodes that do anything else. It plays the scheduler and the kubelet; a pod's log
is what the shipped program writes over a recorded tree."""

import json
import os
import shutil
import subprocess
import tempfile
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlparse

TREES = Path(__file__).resolve().parents[1] / "fixtures/hosts"
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
        # DaemonSets by name, and what their pods write on each node.
        self.daemons: dict[str, dict] = {}
        self.own_logs: dict[str, bytes] = {}
        self.lock = threading.Lock()
        self.rdiag = rdiag
        command = [rdiag, "record", "use-method", "--armor", "-o", "-", "--root", TREES / "whole-host-quiet"]
        self.log = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout

    def is_busy(self, what: str) -> bool:
        """Whether it is the first request of its kind."""
        with self.lock:
            is_first = what not in self.busy
            self.busy.add(what)
        return is_first

    def recorded_as(self, node: str, rdiag: str) -> bytes:
        """What a pod of a node writes whose name is that of the node."""
        with tempfile.TemporaryDirectory(prefix="rdiag-node.") as folder:
            tree = Path(folder) / "tree"
            shutil.copytree(TREES / "whole-host-quiet", tree, symlinks=True)
            (tree / "t0/proc/sys/kernel/hostname").write_text(f"{node}\n")
            command = [rdiag, "record", "use-method", "--armor", "-o", "-", "--root", tree]
            return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout

    def daemon(self, whole: dict, rdiag: str) -> dict:
        """A pod on each Linux node, but for that where none is allowed."""
        spec = whole["spec"]["template"]["spec"]
        (record,) = spec["initContainers"]
        assert {"operator": "Exists"} in spec["tolerations"] and record["securityContext"]["privileged"]
        for node in NODES:
            if node != "restricted":
                pod = {"kind": "Pod", "apiVersion": "v1", "metadata": {"name": f"rdiag-{node}", "namespace": "rdiag", "uid": node}}
                pod["metadata"]["labels"] = whole["spec"]["template"]["metadata"]["labels"]
                self.pods[f"rdiag-{node}"] = pod | {"spec": spec | {"nodeName": node}, "status": {"phase": "Running"}}
                self.own_logs[node] = self.recorded_as(node, rdiag)
        counts = {"desiredNumberScheduled": len(NODES), "currentNumberScheduled": len(NODES), "updatedNumberScheduled": len(NODES)}
        whole["metadata"] |= {"uid": "daemons", "generation": 1, "resourceVersion": "1"}
        # As the API fills it in. One node pulls the image for ever.
        whole["spec"]["updateStrategy"] = {"type": "RollingUpdate"}
        whole["status"] = counts | {"observedGeneration": 1, "numberAvailable": len(NODES) - 1, "numberReady": len(NODES) - 1}
        self.daemons[whole["metadata"]["name"]] = whole
        return whole

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
        log = self.own_logs.get(node, self.log)
        lines = log.splitlines(keepends=True)
        text = {
            "cut-off": b"".join(lines[:20]),
            # The beginning is gone, and with it the frame.
            "rotated": lines[0] + b"".join(lines[30:-1]),
            "damaged": b"".join([*lines[:5], *lines[6:]]),
            "garbage": os.urandom(2_000_000),
            "evicted": b"The node was low on resource: memory.\n",
            # Something else was written to the log as well.
            "twice": b"warning: something\n" + log + b"and more\n",
        }.get(node, log)
        if node == "pending":
            return 400, status(400, "BadRequest", 'container "rdiag" in pod "x" is waiting to start: ContainerCreating')
        return (404, status(404, "NotFound", "no log")) if node == "no-log" else (200, text)


# What rbac.yaml and daemonset.yaml make, by the version of its API.
KINDS = {
    "v1": [("namespaces", "Namespace", False)],
    "rbac.authorization.k8s.io/v1": [("roles", "Role", True), ("clusterroles", "ClusterRole", False)],
    "apps/v1": [("daemonsets", "DaemonSet", True)],
}


def path_of(version: str) -> str:
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def resources(version: str, kinds: list[tuple[str, str, bool]]) -> dict:
    verbs = ["get", "list", "create", "delete", "deletecollection", "patch", "watch"]
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
                versions = [{"groupVersion": version, "version": "v1"} for version in KINDS if "/" in version]
                groups = [{"name": one["groupVersion"].split("/")[0], "versions": [one], "preferredVersion": one} for one in versions]
                return self.answer(200, {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
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
            if path.endswith("/daemonsets"):
                if "watch" in parse_qs(url.query):
                    # Nothing changes any more.
                    time.sleep(1)
                    return self.answer(200, b"")
                metadata = {"resourceVersion": "1"}
                return self.answer(200, {"kind": "DaemonSetList", "apiVersion": "apps/v1", "metadata": metadata, "items": list(cluster.daemons.values())})
            if "/daemonsets/" in path and name in cluster.daemons:
                return self.answer(200, cluster.daemons[name])
            if name in cluster.pods:
                return self.answer(200, cluster.pods[name])
            return self.answer(404, status(404, "NotFound", f"no {path}"))

        def do_POST(self) -> None:
            one = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if one["kind"] == "DaemonSet":
                return self.answer(201, cluster.daemon(one, cluster.rdiag))
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
                name = urlparse(self.path).path.split("/")[-1]
                cluster.pods.pop(name, None)
                if "/daemonsets/" in self.path and cluster.daemons.pop(name, None):
                    cluster.pods = {name: pod for name, pod in cluster.pods.items() if "initContainers" not in pod["spec"]}
            self.answer(200, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"})

    return Api


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
