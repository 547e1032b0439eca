#!/usr/bin/env python3
"""The YAML beside the plugin, offline: all that Kubernetes reads is strictly of its schemas, and the support bundle of Troubleshoot
shows the verdict of what rdiag writes.

    tests/kubernetes/specs.py RDIAG       with the Python packages of tests/fleet.requirements

Neither a cluster nor Troubleshoot is run here. Which fields Troubleshoot knows, and how textAnalyze chooses an outcome, is from its
documentation and its types of v1beta2.
"""

import copy
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import kubernetes_validate
import yaml

ROOT = Path(__file__).resolve().parents[2]
KUBERNETES = ROOT / "contrib/kubernetes"
TREES = ROOT / "tests/fixtures/hosts"
# Fields that a collector or an analyzer may have, with the type of each; those with True must be there.
DAEMONS = {
    "collectorName": (str, False),
    "exclude": ((str, bool), False),
    "name": (str, True),
    "namespace": (str, True),
    "timeout": (str, False),
    "imagePullSecret": (dict, False),
    "podSpec": (dict, True),
}
ANALYZER = {
    "checkName": (str, True),
    "collectorName": (str, False),
    "exclude": ((str, bool), False),
    "strict": ((str, bool), False),
    "annotations": (dict, False),
    "fileName": (str, True),
    "regex": (str, False),
    "regexGroups": (str, False),
    "ignoreIfNoFiles": (bool, False),
    "outcomes": (list, True),
}
OUTCOME = {"when": (str, False), "message": (str, True), "uri": (str, False)}


def strict(document: dict) -> None:
    kubernetes_validate.validate(document, "1.37", strict=True)


def of_fields(what: dict, fields: dict) -> None:
    assert set(what) <= set(fields), f"unknown: {set(what) - set(fields)}"
    for name, (kind, needed) in fields.items():
        assert name in what or not needed, f"{name} is missing"
        assert isinstance(what.get(name, kind() if isinstance(kind, type) else ""), kind), f"{name}: {what[name]!r}"


def daemons(spec: dict) -> dict:
    """The DaemonSet that Troubleshoot makes of a specification of pods."""
    labels = {"troubleshoot-role": "run-daemonset-collector"}
    template = {"metadata": {"labels": labels}, "spec": spec}
    whole = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"generateName": "run-daemonset-rdiag-"}}
    return whole | {"spec": {"selector": {"matchLabels": labels}, "template": template}}


def check_schemas() -> dict:
    documents = [document for file in ["rbac.yaml", "daemonset.yaml"] for document in yaml.safe_load_all((KUBERNETES / file).read_text())]
    pod = subprocess.run([KUBERNETES / "kubectl-rdiag", "pod", "node-x"], stdout=subprocess.PIPE, check=True).stdout
    bundle = yaml.safe_load((KUBERNETES / "troubleshoot.yaml").read_text())
    spec = bundle["spec"]["collectors"][0]["runDaemonSet"]["podSpec"]
    for document in [*documents, yaml.safe_load(pod), daemons(spec)]:
        strict(document)
    for path in [("hostPid",), ("containers", 0, "securityContexts"), ("volumes", 0, "hostPath", "readOnly")]:
        wrong = copy.deepcopy(spec)
        place = wrong
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = True
        try:
            strict(daemons(wrong))
        except kubernetes_validate.ValidationError:
            continue
        raise AssertionError(f"{path} was not noticed")
    print(f"{len(documents) + 2} objects are strictly of the schemas of Kubernetes 1.37")
    return bundle


def check_bundle(bundle: dict) -> tuple[dict, dict]:
    assert bundle["apiVersion"] == "troubleshoot.sh/v1beta2" and bundle["kind"] == "SupportBundle" and bundle["metadata"]["name"]
    assert set(bundle) == {"apiVersion", "kind", "metadata", "spec"} and set(bundle["spec"]) == {"collectors", "analyzers"}
    (collector,), (analyzer,) = bundle["spec"]["collectors"], bundle["spec"]["analyzers"]
    assert set(collector) == {"runDaemonSet"} and set(analyzer) == {"textAnalyze"}
    collector, analyzer = collector["runDaemonSet"], analyzer["textAnalyze"]
    of_fields(collector, DAEMONS)
    of_fields(analyzer, ANALYZER)
    for outcome in analyzer["outcomes"]:
        ((kind, one),) = outcome.items()
        assert kind in {"pass", "warn", "fail"}, kind
        of_fields(one, OUTCOME)
    # The files of a DaemonSet are those of its nodes.
    assert analyzer["fileName"] == collector["name"] + "/*.log" and re.fullmatch("[0-9]+s", collector["timeout"])
    # As restricted as daemonset.yaml, and the one that runs again and again may nothing.
    (other,) = yaml.safe_load_all((KUBERNETES / "daemonset.yaml").read_text())
    other, spec = other["spec"]["template"]["spec"], collector["podSpec"]
    for key in ["automountServiceAccountToken", "enableServiceLinks", "hostPID", "hostNetwork", "nodeSelector", "tolerations"]:
        assert spec[key] == other[key], key
    (record,), (like,), (judge,) = spec["initContainers"], other["initContainers"], spec["containers"]
    for key in ["securityContext", "resources"]:
        assert record[key] == like[key], key
    assert like["volumeMounts"][0] in record["volumeMounts"] and other["volumes"][0] in spec["volumes"]
    allowed = judge["securityContext"]
    assert "privileged" not in allowed and not allowed["allowPrivilegeEscalation"] and allowed["capabilities"] == {"drop": ["ALL"]}
    assert judge["volumeMounts"] == [{"name": "recording", "mountPath": "/recording", "readOnly": True}]
    assert judge["image"] == record["image"]
    assert "activeDeadlineSeconds" not in spec and spec.get("restartPolicy", "Always") == "Always", "a DaemonSet may have neither"
    return spec, analyzer


def holds(condition: str, found: dict) -> bool:
    if not condition:
        return True
    name, operator, value = condition.split(" ")
    assert operator in {"=", "==", "==="}, condition
    return found.get(name) == value


def analyzed(analyzer: dict, log: str) -> tuple[str, str]:
    """What textAnalyze says of a file: the groups of the first match choose an outcome, and are what its message may name."""
    match = re.search(analyzer["regexGroups"], log)
    found = {name: value or "" for name, value in match.groupdict().items()} if match else {}
    for outcome in analyzer["outcomes"]:
        ((kind, one),) = outcome.items()
        if holds(one.get("when", ""), found):
            return kind, re.sub(r"\{\{ \.(\w+) \}\}", lambda name: found[name[1]], one["message"])
    raise AssertionError("no outcome holds")


def log_of(rdiag: str, spec: dict, story: str, folder: Path) -> str:
    """What both containers write, one after the other, with the recording in a folder of their own."""
    (record,), (judge,) = spec["initContainers"], spec["containers"]
    own = [[word.replace("/recording/", f"{folder}/") for word in container["args"]] for container in [record, judge]]
    subprocess.run([rdiag, *own[0], "--root", TREES / story], check=True, capture_output=True)
    # Root without capabilities.
    bare = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"] if os.geteuid() == 0 else []
    return subprocess.run([*bare, rdiag, *own[1]], check=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout


def check_analysis(rdiag: str, spec: dict, analyzer: dict, folder: Path) -> None:
    kind, said = analyzed(analyzer, log_of(rdiag, spec, "whole-host-short-of-cpu", folder))
    assert kind == "fail" and said.startswith("web-03: Bottleneck: CPU saturation. Runnable tasks waited 72.8%"), (kind, said)
    kind, said = analyzed(analyzer, log_of(rdiag, spec, "whole-host-quiet", folder))
    assert kind == "pass" and said.startswith("web-03: No bottleneck found"), (kind, said)
    for log in ["", "Failed to get log from pod rdiag-x: context deadline exceeded", "error: reading recording.json.gz: absent\n"]:
        assert analyzed(analyzer, log)[0] == "warn" and "no verdict" in analyzed(analyzer, log)[1], log
    for status, expected in [("WARNING", "warn"), ("INFO", "pass"), ("UNKNOWN", "warn")]:
        kind, said = analyzed(analyzer, f"# {status}: Something\n\nweb-03 · 2026-03-02T03:12:45Z · Linux 6.18\n")
        assert kind == expected and said.strip() == "web-03: Something.", (kind, said)
    print("a support bundle shows the verdict of each node, and who has none")


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    spec, analyzer = check_bundle(check_schemas())
    with tempfile.TemporaryDirectory(prefix="rdiag-specs.") as folder:
        check_analysis(str(Path(sys.argv[1]).resolve()), spec, analyzer, Path(folder))


main()
