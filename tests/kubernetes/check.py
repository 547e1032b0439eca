#!/usr/bin/env python3
"""`kubectl rdiag` under the real kubectl against a stub of the API, with nodes that answer and nodes that do anything else.

    tests/kubernetes/check.py RDIAG       with kubectl in the PATH and the Python package yaml

No cluster can be had here: the stub plays the scheduler and the kubelet, and a pod's log is what the shipped program writes over a recorded
tree. The plugin was not run on a real one.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
sys.dont_write_bytecode = True
from fleet_page import blocks  # noqa: E402
from stub import LABEL, NODES, serve  # noqa: E402

KUBERNETES = ROOT / "contrib/kubernetes"


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
    assert own["initContainers"][0]["args"][-6:] == ["--begin-at", "@BEGIN", "--or-now", "--armor", "-o", "-"] and not own["automountServiceAccountToken"]
    for evil in ["a b", "x\nprivileged: true", '";rm', ""]:
        done = subprocess.run([KUBERNETES / "kubectl-rdiag", "-i", evil, "-o", folder / "no"], env=environment, capture_output=True, text=True)
        assert done.returncode == 2 and "signs that it may not have" in done.stderr and not (folder / "no").exists(), done
    done = subprocess.run([KUBERNETES / "kubectl-rdiag", "pod", "node-x"], env=environment, capture_output=True, text=True, check=True)
    check_pod(yaml.safe_load(done.stdout))


def check_page(rdiag: str, folder: Path) -> None:
    """What docs/fleet.md says to one who has the sources, a cluster and rdiag."""
    cluster, environment = serve(rdiag, folder)
    (folder / "contrib").symlink_to(ROOT / "contrib")
    block = blocks("Kubernetes")[0]
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
