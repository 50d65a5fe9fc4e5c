"""Kustomize base and Helm chart: rendered by the real programs, checked by schemas."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.fetched import go_installed, python_packages
from support.tools import ROOT

from heliostat.config import load_config

FOLDER = ROOT / "deploy" / "kubernetes"
BASE = FOLDER / "base"
KEDA = FOLDER / "spark" / "keda.yaml"
METRIC = re.compile(r"heliostat_\w+")
CHART = ROOT / "deploy" / "helm" / "heliostat"
RULES = ROOT / "deploy" / "monitoring" / "heliostat-rules.yaml"
KUBERNETES = ("1.29", "1.34")
ALL = {
    "restartOnChange": True,
    "podMonitor": {"enabled": True, "labels": {"team": "efd"}},
    "prometheusRule": {"enabled": True},
    "networkPolicy": {"enabled": True},
    "image": {"tag": "1", "pullSecrets": [{"name": "key"}]},
    "env": [{"name": "JAVA_TOOL_OPTIONS", "value": "-Xmx1g"}],
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "efd", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "podAnnotations": {"a": "b"},
    "config": {
        "clusters": {"a": {"bootstrap": ["a:9092"]}, "b": {"bootstrap": ["b:9092"]}},
        "service": {"health": "0.0.0.0:9999"},
        "links": [{"name": "l", "source": "a", "target": "b", "topics": {"include": ["x"]}}],
    },
}
OPERATORS = {"PodMonitor", "PrometheusRule"}
"""Kinds that are no part of Kubernetes."""

Resource = dict[str, Any]


def helm() -> Path:
    return go_installed("helm.sh/helm/v3/cmd/helm", "v3.19.0", "")


def resources(text: str) -> dict[str, Resource]:
    return {each["kind"]: each for each in yaml.safe_load_all(text) if each}


def run(*words: Path | str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(word) for word in words], input=given, capture_output=True, text=True, check=False
    )


def template(values: Resource, release: str) -> subprocess.CompletedProcess[str]:
    """What Helm makes for a cluster of today: one built from source takes an old one as given."""
    words = ("template", release, CHART, "--kube-version", KUBERNETES[-1], "-f", "-")
    return run(helm(), *words, given=yaml.safe_dump(values))


def rendered(values: Resource | None = None, release: str = "heliostat") -> str:
    done = template(values or {}, release)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_example_is_a_valid_configuration() -> None:
    config = load_config(BASE / "heliostat.yaml")

    assert config.service.health == "0.0.0.0:8084"
    assert [link.name for link in config.links] == ["summit-to-usdf"]


def test_the_chart_has_no_copies_of_what_stands_elsewhere() -> None:
    assert (CHART / "heliostat.yaml").resolve() == BASE / "heliostat.yaml"
    assert (CHART / "heliostat-rules.yaml").resolve() == RULES


def kustomized(folder: Path) -> dict[str, Resource]:
    kustomize = go_installed("sigs.k8s.io/kustomize/kustomize/v5", "v5.8.0", "")
    done = run(kustomize, "build", folder)
    assert done.returncode == 0, done.stderr
    return resources(done.stdout)


def assert_valid(each: Resource, version: str) -> None:
    packages = str(python_packages("deploy_tools"))
    if packages not in sys.path:
        sys.path.append(packages)
    import kubernetes_validate

    kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.long
def test_base_and_chart_are_the_same() -> None:
    assert resources(rendered()) == kustomized(BASE)


@pytest.mark.long
@pytest.mark.parametrize("version", KUBERNETES)
def test_executors_pods_are_valid_and_spark_may_make_them(version: str, tmp_path: Path) -> None:
    made = kustomized(FOLDER / "executors")
    for each in made.values():
        assert_valid(each, version)
    files = made["ConfigMap"]["data"]
    executor = yaml.safe_load(files["executor.yaml"])
    assert_valid(executor, version)
    (tmp_path / "heliostat.yaml").write_text(files["heliostat.yaml"])
    conf = load_config(tmp_path / "heliostat.yaml").spark.conf

    driver = made["Deployment"]["spec"]["template"]["spec"]
    (container,) = driver["containers"]
    mounts = {each["name"]: each["mountPath"] for each in container["volumeMounts"]}
    template = Path(conf["spark.kubernetes.executor.podTemplateFile"])
    assert (mounts["config"], template.name) == (str(template.parent), "executor.yaml")
    name = conf["spark.kubernetes.executor.podTemplateContainerName"]
    assert [each["name"] for each in executor["spec"]["containers"]] == [name]
    assert {"POD_NAME", "SPARK_LOCAL_HOSTNAME"} <= {each["name"] for each in container["env"]}
    ports = {str(each["containerPort"]) for each in container["ports"]}
    assert {conf["spark.driver.port"], conf["spark.blockManager.port"]} <= ports
    account = made["ServiceAccount"]["metadata"]["name"]
    assert account == driver["serviceAccountName"] == made["RoleBinding"]["subjects"][0]["name"]
    assert account == conf["spark.kubernetes.authenticate.serviceAccountName"]
    assert made["RoleBinding"]["roleRef"]["name"] == made["Role"]["metadata"]["name"]
    assert driver["automountServiceAccountToken"] is True


@pytest.mark.long
@pytest.mark.parametrize("version", KUBERNETES)
def test_sparks_workers_are_valid_and_scaled_by_what_there_is(version: str) -> None:
    made = kustomized(FOLDER / "spark")
    for each in made.values():
        assert_valid(each, version)
    (worker,) = made["Deployment"]["spec"]["template"]["spec"]["containers"]
    assert worker["args"][-1] == f"spark://{made['Service']['metadata']['name']}:7077"
    _, _, ending = worker["lifecycle"]["preStop"]["exec"]["command"]
    assert run("sh", "-n", "-c", ending).returncode == 0

    # Its kind is KEDA's; what it hands on to Kubernetes' own autoscaler is checked.
    spec = yaml.safe_load(KEDA.read_text(encoding="utf-8"))["spec"]
    target = {"apiVersion": "apps/v1", "kind": "Deployment", **spec["scaleTargetRef"]}
    assert target["name"] == made["Deployment"]["metadata"]["name"]
    scaler = {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": "workers"},
        "spec": {
            "scaleTargetRef": target,
            "minReplicas": spec["minReplicaCount"],
            "maxReplicas": spec["maxReplicaCount"],
            "behavior": spec["advanced"]["horizontalPodAutoscalerConfig"]["behavior"],
            "metrics": [
                {
                    "type": "External",
                    "external": {
                        "metric": {"name": "s0"},
                        "target": {
                            "type": each["metricType"],
                            "averageValue": each["metadata"]["threshold"],
                        },
                    },
                }
                for each in spec["triggers"]
            ],
        },
    }
    assert_valid(scaler, version)


def test_workers_are_scaled_by_metrics_that_exist() -> None:
    triggers = yaml.safe_load(KEDA.read_text(encoding="utf-8"))["spec"]["triggers"]
    asked = {name for each in triggers for name in METRIC.findall(each["metadata"]["query"])}
    listed = (ROOT / "docs" / "reference" / "metrics.md").read_text(encoding="utf-8")

    assert asked
    assert asked <= set(METRIC.findall(listed))
    assert all(isinstance(text, str) for each in triggers for text in each["metadata"].values())


@pytest.mark.long
@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("values", [{}, ALL], ids=["defaults", "all"])
def test_all_is_valid_by_kubernetes_schemas(values: Resource, version: str, tmp_path: Path) -> None:
    made = resources(rendered(values))

    assert {"ConfigMap", "Deployment", "PodDisruptionBudget"} <= made.keys()
    for kind, each in made.items():
        if kind not in OPERATORS:
            assert_valid(each, version)
    (tmp_path / "heliostat.yaml").write_text(made["ConfigMap"]["data"]["heliostat.yaml"])
    load_config(tmp_path / "heliostat.yaml")


@pytest.mark.long
def test_helms_own_look_finds_nothing() -> None:
    done = run(helm(), "lint", "--strict", "--kube-version", KUBERNETES[-1], CHART)

    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_options_are_where_they_belong() -> None:
    made = resources(rendered(ALL, "efd"))
    pods = made["Deployment"]["spec"]["template"]

    assert {each["metadata"]["name"] for each in made.values()} == {"efd-heliostat"}
    assert made["PrometheusRule"]["spec"] == yaml.safe_load(RULES.read_text(encoding="utf-8"))
    assert made["PodMonitor"]["metadata"]["labels"]["team"] == "efd"
    assert made["NetworkPolicy"]["spec"]["ingress"] == [
        {"ports": [{"port": 9999, "protocol": "TCP"}]}
    ]
    assert pods["spec"]["containers"][0]["ports"][0]["containerPort"] == 9999
    assert set(pods["metadata"]["annotations"]) == {"a", "checksum/config"}


@pytest.mark.long
@pytest.mark.parametrize(
    ("values", "word"),
    [
        ({"replicas": "two"}, "replicas"),
        ({"replica": 2}, "replica"),
        ({"image": {"pullPolicy": "Sometimes"}}, "pullPolicy"),
        ({"config": {"links": []}}, "config.service.health is needed"),
    ],
)
def test_wrong_values_are_refused_by_name(values: Resource, word: str) -> None:
    done = template(values, "x")

    assert done.returncode != 0
    assert word in done.stderr
