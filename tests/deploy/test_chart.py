"""The Helm chart: values that fit a schema, objects that fit together, and a configuration that is one.

Templates are rendered by `render.go` with the engine and the functions of Helm, which itself Debian 12 does not have.
"""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema_rs
import kubernetes_validate
import pytest
import yaml

from harness.forebay import run
from harness.ground import REPOSITORY, Ground, MissingProgram, program
from harness.process import Process, give_to_service

CHART = REPOSITORY / "deploy" / "helm" / "forebay"
NAME = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
RELEASE = {"Name": "site", "Namespace": "storage", "Service": "Helm", "Revision": 1, "IsInstall": True}
RICH: dict[str, Any] = {
    "replicas": 3,
    "image": {"tag": "1.2.3", "pullSecrets": ["registry"]},
    "exports": [
        {
            "path": "/atlas",
            "origins": ["root://one:1094", "root://two:1094"],
            "validity": "1h",
            "compare_checksum": True,
        },
        {"path": "/cms", "origins": ["root://three:1094"], "fill": "to-end"},
    ],
    "forwarding": {"allow": ["*.example.org:1094"], "stale_max": "2h"},
    "extraConfiguration": '[read_ahead]\nfill = "to-end"\n',
    "secrets": [{"name": "host-certificate", "path": "/etc/grid-security/forebay"}],
    "store": {"size": "10Ti", "storageClass": "local-nvme"},
    "service": {"type": "LoadBalancer", "annotations": {"example.org/pool": "grid"}},
    "podAnnotations": {"example.org/owner": "storage"},
    "nodeSelector": {"disk": "nvme"},
    "tolerations": [{"key": "storage", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
}
CLUSTER: dict[str, Any] = {
    "replicas": 3,
    "cluster": {
        "managers": ["redirector.example.org:1213"],
        "redirectors": {"replicas": 2, "image": "registry.example.org/xrootd:5", "serviceType": "LoadBalancer"},
    },
    "hostNetwork": True,
    "servicePerPod": True,
    "drainSeconds": 300,
    "terminationGracePeriodSeconds": 360,
}
EXAMPLES = pytest.mark.parametrize(
    "over", [{}, RICH, CLUSTER], ids=["as it is", "everything set", "a cluster with redirectors"]
)


def merged(base: Any, over: Any) -> Any:  # noqa: ANN401
    """Values over the chart's own, as Helm lays them."""
    if isinstance(base, dict) and isinstance(over, dict):
        return {**base, **{key: merged(base.get(key), value) for key, value in over.items()}}
    return over


def values(over: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """The values of a release."""
    return merged(yaml.safe_load((CHART / "values.yaml").read_text()), dict(over))


def render(over: Mapping[str, Any], release: str = "site") -> dict[str, str]:
    """The chart's texts by file."""
    renderer = REPOSITORY / "target" / "tools" / "render-chart"
    if not renderer.is_file():
        raise MissingProgram(f"{renderer} does not exist: run `make blackbox`")
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    # Go sees the fields of a chart in capitals.
    named = {key[0].upper() + key[1:]: value for key, value in chart.items()}
    seen = {"Values": values(over), "Chart": named, "Release": {**RELEASE, "Name": release}}
    done = subprocess.run(
        [renderer, CHART], input=json.dumps(seen), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    texts: dict[str, str] = json.loads(done.stdout)
    return texts


def objects(over: Mapping[str, Any], release: str = "site") -> dict[tuple[str, str], Any]:
    """The objects that a release consists of, by kind and name."""
    texts = render(over, release)
    found = [it for name, text in texts.items() if name.endswith(".yaml") for it in yaml.safe_load_all(text) if it]
    named = {(it["kind"], it["metadata"]["name"]): it for it in found}
    assert len(named) == len(found), "each has a name of its own"
    return named


def only(kind: str, found: Mapping[tuple[str, str], Any]) -> Any:  # noqa: ANN401
    """The one object of a kind."""
    (it,) = [it for (other, _), it in found.items() if other == kind]
    return it


def test_chart_has_name_and_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["apiVersion"], chart["name"]) == ("v2", CHART.name)
    manifest = (REPOSITORY / "Cargo.toml").read_text()
    assert f'version = "{chart["appVersion"]}"' in manifest
    assert re.fullmatch(r"\d+\.\d+\.\d+", chart["version"])


@EXAMPLES
def test_values_fit_the_schema(over: dict[str, Any]) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema_rs.meta.validate(schema)
    jsonschema_rs.validator_for(schema).validate(values(over))


@pytest.mark.parametrize(
    "over",
    [
        {"replicas": 0},
        {"exports": [{"origins": ["root://a:1094"]}]},
        {"store": {"size": "100"}},
        {"service": {"port": 70000}},
        {"misspelt": 1},
        {"image": {"pullPolicy": "Sometimes"}},
        {"cluster": {"redirectors": {"replicas": 2}}},
        {"hostNetwork": "yes"},
    ],
    ids=lambda over: next(iter(over)),
)
def test_wrong_values_do_not_fit_it(over: dict[str, Any]) -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert not jsonschema_rs.validator_for(schema).is_valid(values(over))


@EXAMPLES
def test_rendered_configuration_is_one(ground: Ground, over: dict[str, Any]) -> None:
    configuration = objects(over)["ConfigMap", "site-forebay"]["data"]["forebay.toml"]
    file = ground.directory("chart") / "forebay.toml"
    file.write_text(configuration)
    checked = run(ground, "check-config", str(file))
    assert checked.returncode == 0, checked.stderr + configuration
    assert configuration.count("[[export]]") == len(values(over)["exports"])


@pytest.mark.parametrize("over", [{}, RICH], ids=["as it is", "everything set"])
def test_objects_fit_together(over: dict[str, Any]) -> None:
    found = objects(over)
    for (_, name), it in found.items():
        assert NAME.fullmatch(name)
        assert it["apiVersion"]
    caches = only("StatefulSet", found)
    pod = caches["spec"]["template"]
    selected = caches["spec"]["selector"]["matchLabels"]
    assert selected.items() <= pod["metadata"]["labels"].items()
    (container,) = pod["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    services = {name: it for (kind, name), it in found.items() if kind == "Service"}
    assert caches["spec"]["serviceName"] in services
    for service in services.values():
        assert service["spec"]["selector"] == selected
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports.keys()
    configuration = only("ConfigMap", found)
    for port in ports.values():
        assert f":{port}" in configuration["data"]["forebay.toml"]
    volumes = {volume["name"] for volume in pod["spec"]["volumes"]}
    claims = {claim["metadata"]["name"] for claim in caches["spec"]["volumeClaimTemplates"]}
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes | claims
    assert {"configMap": {"name": configuration["metadata"]["name"]}, "name": "configuration"} in pod["spec"]["volumes"]


@EXAMPLES
@pytest.mark.parametrize("version", ["1.25", "1.32"])
def test_objects_are_those_of_kubernetes(version: str, over: dict[str, Any]) -> None:
    for (kind, name), it in objects(over).items():
        kubernetes_validate.validate(it, version, strict=True)
        assert it["metadata"]["name"] == name, kind


def test_caches_have_no_rights_and_the_image_s_user() -> None:
    pod = only("StatefulSet", objects({}))["spec"]["template"]["spec"]
    image = (REPOSITORY / "deploy" / "oci" / "Containerfile").read_text()
    assert f"USER {pod['securityContext']['runAsUser']}:{pod['securityContext']['runAsGroup']}" in image
    (container,) = pod["containers"]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    assert Path(container["args"][-1]).name == "forebay.toml"


def test_changed_configuration_replaces_pods_and_nothing_else_does() -> None:
    def checksum(over: dict[str, Any]) -> str:
        pod = only("StatefulSet", objects(over))["spec"]["template"]
        return str(pod["metadata"]["annotations"]["checksum/configuration"])

    assert checksum({}) == checksum({"replicas": 5})
    assert checksum({}) != checksum({"memoryBudget": "2GiB"})


def test_long_names_stay_names() -> None:
    for kind, name in objects({}, release="a-very-long-release-name-that-somebody-has-thought-of"):
        assert NAME.fullmatch(name)
        if kind == "StatefulSet":
            assert len(name) <= 63 - len("-0123456789"), "pods and revisions have longer ones"
    assert ("StatefulSet", "forebay") in objects({}, release="forebay")


def test_a_cluster_has_a_pair_of_redirectors_at_which_all_caches_log_in() -> None:
    found = objects(CLUSTER)
    names = [f"site-forebay-redirector-{index}.site-forebay-redirectors.storage.svc:1213" for index in range(2)]
    configuration = tomllib.loads(found["ConfigMap", "site-forebay"]["data"]["forebay.toml"])
    assert configuration["cluster"] == {
        "managers": ["redirector.example.org:1213", *names],
        "discover": "site-forebay-caches.storage.svc:1094",
    }
    redirectors = found["StatefulSet", "site-forebay-redirector"]["spec"]
    assert (redirectors["replicas"], redirectors["serviceName"]) == (2, "site-forebay-redirectors")
    pod = redirectors["template"]
    for name in ("site-forebay-redirector", "site-forebay-redirectors"):
        assert found["Service", name]["spec"]["selector"] == redirectors["selector"]["matchLabels"]
    assert redirectors["selector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    caches = found["StatefulSet", "site-forebay"]["spec"]["selector"]["matchLabels"]
    assert not caches.items() <= pod["metadata"]["labels"].items(), "caches do not select redirectors"
    ports = {container["name"]: container["ports"][0]["containerPort"] for container in pod["spec"]["containers"]}
    assert ports == {"cmsd": 1213, "xrootd": 1094}
    text = found["ConfigMap", "site-forebay-redirector"]["data"]["redirector.cfg"]
    for name, port in ports.items():
        assert f"xrd.port {port}" in text, name


def test_redirectors_start_with_their_configuration(ground: Ground) -> None:
    found = objects({**CLUSTER, "exports": RICH["exports"]})
    text = found["ConfigMap", "site-forebay-redirector"]["data"]["redirector.cfg"]
    directory = ground.directory("redirector")
    ports = {"cmsd": ground.free_port(), "xrootd": ground.free_port()}
    text = text.replace("1213", str(ports["cmsd"])).replace("1094", str(ports["xrootd"]))
    file = directory / "redirector.cfg"
    file.write_text(text.replace("/var/spool/xrootd", str(directory)))
    give_to_service(directory)
    running = []
    try:
        for name in ports:
            running.append(Process(name, [program(name), "-c", str(file), "-n", "forebay"], directory))
            running[-1].wait_for_line(f"{name} .*initialization completed", within=60)
    finally:
        for process in reversed(running):
            process.stop()


def test_a_redirector_is_configured_as_the_documentation_says() -> None:
    text = objects(CLUSTER)["ConfigMap", "site-forebay-redirector"]["data"]["redirector.cfg"]
    documented = (REPOSITORY / "docs" / "scale-out.md").read_text()
    for line in text.splitlines():
        if line.startswith(("cms.", "all.role")):
            assert line in documented, line


def test_pods_are_drained_and_leave_one_after_the_other() -> None:
    for over in ({}, CLUSTER):
        found = objects(over)
        pod = found["StatefulSet", "site-forebay"]["spec"]["template"]["spec"]
        (container,) = pod["containers"]
        command = container["lifecycle"]["preStop"]["exec"]["command"]
        assert command[:4] == ["/usr/bin/forebay", "drain", "--wait", "--at-most"]
        # After the drain 30 s for requests in progress, and some for the last sync.
        assert int(command[4]) + 30 < pod["terminationGracePeriodSeconds"]
        mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
        assert "/run/forebay" in mounts, "the place of the socket that the command uses"
    budgets = [it["spec"] for (kind, _), it in objects(CLUSTER).items() if kind == "PodDisruptionBudget"]
    assert [budget["maxUnavailable"] for budget in budgets] == [1, 1]
    assert ("PodDisruptionBudget", "site-forebay") not in objects({})


def test_pods_have_addresses_that_clients_outside_reach() -> None:
    found = objects(CLUSTER)
    pod = found["StatefulSet", "site-forebay"]["spec"]["template"]["spec"]
    assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    for index in range(3):
        service = found["Service", f"site-forebay-{index}"]["spec"]
        assert service["type"] == "LoadBalancer"
        assert service["selector"]["statefulset.kubernetes.io/pod-name"] == f"site-forebay-{index}"
    assert "hostNetwork" not in objects({})["StatefulSet", "site-forebay"]["spec"]["template"]["spec"]
