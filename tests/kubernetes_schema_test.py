#!/usr/bin/env python3
"""The manifests of packaging/kubernetes by the schemas of Kubernetes, and by CustomResourceDefinitions that are given.

    tests/kubernetes_schema_test.py [keda.sh_scaledobjects.yaml monitoring.coreos.com_podmonitors.yaml]

Needs no network: the package kubernetes-validate holds the schemas of Kubernetes' own kinds. The definitions are files
of KEDA (config/crd/bases) and of the Prometheus Operator (example/prometheus-operator-crd); what the manifests have of
other kinds is only checked where they are given. Skipped where the package is missing (tests/required.py).
"""
import copy
import pathlib
import sys
import unittest

from required import missing

try:
    import jsonschema
    import kubernetes_validate
    import yaml
except ImportError:
    missing("the Python package kubernetes-validate is not installed")

MANIFESTS = pathlib.Path(__file__).resolve().parents[1] / "packaging/kubernetes"
VERSION = "1.31"
OWN = {"apps/v1", "v1", "policy/v1"}  # of Kubernetes itself
DEFINITIONS = sys.argv[1:]


def closed(schema):
    """The schema, with fields that it does not name refused, as an API server does with strict validation."""
    if isinstance(schema, dict):
        schema = {name: closed(value) for name, value in schema.items()}
        if "properties" in schema and not schema.get("x-kubernetes-preserve-unknown-fields"):
            schema.setdefault("additionalProperties", False)
    elif isinstance(schema, list):
        schema = [closed(value) for value in schema]
    return schema


def custom_schemas(files):
    """(API version, kind) -> schema."""
    schemas = {}
    for file in files:
        definition = yaml.safe_load(pathlib.Path(file).read_text())["spec"]
        for version in definition["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            schema["properties"]["metadata"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
            schemas[f"{definition['group']}/{version['name']}", definition["names"]["kind"]] = closed(schema)
    return schemas


def manifests():
    """(API version, kind) -> manifest."""
    found = [manifest for file in sorted(MANIFESTS.glob("*.yaml")) for manifest in yaml.safe_load_all(file.read_text())]
    return {(each["apiVersion"], each["kind"]): each for each in found}


def without(manifest, *path):
    """A copy that lacks a field."""
    changed = copy.deepcopy(manifest)
    place = changed
    for step in path[:-1]:
        place = place[step]
    del place[path[-1]]
    return changed


def with_field(manifest, value, *path):
    changed = copy.deepcopy(manifest)
    place = changed
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return changed


class SchemaTest(unittest.TestCase):
    def test_kinds_of_kubernetes(self):
        own = {kind: manifest for kind, manifest in manifests().items() if kind[0] in OWN}
        self.assertEqual(sorted(kind for _, kind in own), ["Deployment", "PodDisruptionBudget", "Service"])
        for manifest in own.values():
            kubernetes_validate.validate(manifest, VERSION, strict=True)

    def test_faults_are_seen(self):
        deployment = manifests()["apps/v1", "Deployment"]
        container = ("spec", "template", "spec", "containers", 0)
        for wrong in (without(deployment, "spec", "selector"), without(deployment, *container, "name"),
                      with_field(deployment, 1, *container, "livenesProbe"),
                      with_field(deployment, "8080", *container, "ports", 0, "containerPort"),
                      with_field(deployment, {"path": "/livez"}, *container, "livenessProbe", "httpGet")):
            with self.assertRaises(kubernetes_validate.ValidationError):
                kubernetes_validate.validate(wrong, VERSION, strict=True)

    def test_kinds_of_others(self):
        others = {kind: manifest for kind, manifest in manifests().items() if kind[0] not in OWN}
        self.assertEqual(sorted(kind for _, kind in others), ["PodMonitor", "ScaledObject"])
        if not DEFINITIONS:
            print("PodMonitor and ScaledObject: no definitions were given")
            return
        schemas = custom_schemas(DEFINITIONS)
        for kind, manifest in others.items():
            jsonschema.validate(manifest, schemas[kind])
            with self.assertRaises(jsonschema.ValidationError):
                jsonschema.validate(with_field(manifest, 1, "spec", "unknown"), schemas[kind])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
