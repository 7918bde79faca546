"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs."""

from tables import APIS

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
KEYS = ["retention.ms", "cleanup.policy", "segment.bytes", "max.message.bytes"]


def described(side):
    """Settings of everything that has any, and of what has none."""
    side.create("s-topic", retention_ms="60000")
    resources = {
        "topic": (TOPIC, "s-topic", KEYS), "topic, all": (TOPIC, "s-topic", None), "topic, no keys": (TOPIC, "s-topic", []),
        "topic, unknown key": (TOPIC, "s-topic", ["no.such.thing"]), "key twice": (TOPIC, "s-topic", ["retention.ms"] * 2),
        "unknown topic": (TOPIC, "s-nowhere", None), "bad name": (TOPIC, "a b", None), "topic without a name": (TOPIC, "", None),
        "broker": (BROKER, "1000", ["num.partitions", "message.max.bytes", "log.retention.ms", "node.id"]),
        "broker, all": (BROKER, "1000", None),
        "another broker": (BROKER, "7", None), "every broker": (BROKER, "", None), "broker, no number": (BROKER, "one", None),
        "logger": (LOGGER, "1000", ["root"]), "client metrics": (CLIENT_METRICS, "some", None), "group": (GROUP, "some", None),
        "kind 0": (0, "s-topic", None), "kind 3": (3, "s-topic", None), "kind 99": (99, "s-topic", None),
    }
    for name, (kind, resource, keys) in resources.items():
        values = {"resources": [{"resource_type": kind, "resource_name": resource, "configuration_keys": keys}]}
        versions = [4] if "all" in name else None
        side.ask_all(f"DescribeConfigs: {name}", "DescribeConfigs", values, versions)
    one = {"resource_type": TOPIC, "resource_name": "s-topic", "configuration_keys": KEYS}
    for more in ({"include_synonyms": True}, {"include_documentation": True}):
        label = f"DescribeConfigs: {next(iter(more))}"
        side.ask_all(label, "DescribeConfigs", {"resources": [one], **more}, range(3, 5))
    side.ask_all("DescribeConfigs: twice", "DescribeConfigs", {"resources": [one, one]})
    side.ask_all("DescribeConfigs: nothing", "DescribeConfigs", {"resources": []})


def replaced(side):
    """The old way to change: all settings of a resource at once."""
    side.create("s-replaced", segment_ms="70000")
    changes = {
        "set": (TOPIC, "s-replaced", [("retention.ms", "60000")]),
        "unknown": (TOPIC, "s-replaced", [("no.such.thing", "1")]),
        "wrong": (TOPIC, "s-replaced", [("retention.ms", "soon")]),
        "null": (TOPIC, "s-replaced", [("retention.ms", None)]),
        "twice": (TOPIC, "s-replaced", [("retention.ms", "1"), ("retention.ms", "2")]),
        "none": (TOPIC, "s-replaced", []),
        "unknown topic": (TOPIC, "s-nowhere", [("retention.ms", "60000")]),
        "no topic": (TOPIC, "", [("retention.ms", "60000")]),
        "another broker": (BROKER, "7", [("log.cleaner.threads", "2")]),
        "broker, no number": (BROKER, "one", [("log.cleaner.threads", "2")]),
        "broker, fixed": (BROKER, "1000", [("num.partitions", "2")]),
        "broker, unknown": (BROKER, "1000", [("no.such.thing", "2")]),
        "kind 0": (0, "s-replaced", [("retention.ms", "1")]),
        "kind 99": (99, "s-replaced", [("retention.ms", "1")]),
    }
    for name, (kind, resource, configs) in changes.items():
        told = [{"name": key, "value": value} for key, value in configs]
        one = {"resource_type": kind, "resource_name": resource, "configs": told}
        for only in (True, False):
            label = f"AlterConfigs: {name}" + (", validated only" if only else "")
            side.ask_all(label, "AlterConfigs", {"resources": [one], "validate_only": only})
            if name == "set" and not only:
                await_setting(side, "s-replaced", "60000")
        if resource == "s-replaced" and name != "none":
            side.keep_config(f"AlterConfigs: {name}", resource, ["retention.ms", "segment.ms"])
    await_setting(side, "s-replaced", "604800000")
    side.keep_config("AlterConfigs: none", "s-replaced", ["retention.ms", "segment.ms"])
    one = {"resource_type": TOPIC, "resource_name": "s-replaced", "configs": [{"name": "retention.ms", "value": "5"}]}
    side.ask_all("AlterConfigs: resource twice", "AlterConfigs", {"resources": [one, one], "validate_only": True})
    side.ask_all("AlterConfigs: nothing", "AlterConfigs", {"resources": []})


def await_setting(side, topic, value, key="retention.ms"):
    """Waits until a change is seen."""
    resource = {"resource_type": TOPIC, "resource_name": topic, "configuration_keys": [key]}
    side.until("DescribeConfigs", 4, {"resources": [resource]}, lambda got: got["results"][0]["configs"][0]["value"] == value)


def changed(side):
    """The new way: by name."""
    name = "s-changed"
    side.create(name)
    set_, delete, append, subtract = range(4)
    changes = {
        "set": [("retention.ms", set_, "60000")],
        "set to null": [("retention.ms", set_, None)],
        "set wrong": [("retention.ms", set_, "soon")],
        "set unknown": [("no.such.thing", set_, "1")],
        "set without a name": [("", set_, "1")],
        "set to nothing": [("retention.ms", set_, "")],
        "set with spaces": [("retention.ms", set_, " 60000 ")],
        "append to a number": [("retention.ms", append, "1")],
        "append": [("cleanup.policy", append, "delete")],
        "append what is there": [("cleanup.policy", append, "delete")],
        "append wrong": [("cleanup.policy", append, "burn")],
        "subtract from a number": [("retention.ms", subtract, "1")],
        "subtract what isn't there": [("cleanup.policy", subtract, "compact")],
        "delete unknown": [("no.such.thing", delete, None)],
        "delete what isn't set": [("segment.ms", delete, None)],
        "delete with a value": [("segment.ms", delete, "5")],
        "operation 4": [("retention.ms", 4, "1")],
        "twice": [("retention.ms", set_, "1"), ("retention.ms", set_, "2")],
        "set and delete": [("retention.ms", set_, "1"), ("retention.ms", delete, None)],
        "one right, one wrong": [("segment.ms", set_, "5000"), ("retention.ms", set_, "soon")],
        "min.insync.replicas 2": [("min.insync.replicas", set_, "2")],
        "none": [],
        "delete": [("retention.ms", delete, None)],
    }
    for label, configs in changes.items():
        told = [{"name": key, "config_operation": operation, "value": value} for key, operation, value in configs]
        one = {"resource_type": TOPIC, "resource_name": name, "configs": told}
        for only in (True, False):
            full = f"IncrementalAlterConfigs: {label}" + (", validated only" if only else "")
            side.ask_all(full, "IncrementalAlterConfigs", {"resources": [one], "validate_only": only})
    await_setting(side, name, "604800000")
    side.keep_config("IncrementalAlterConfigs: in the end", name, ["retention.ms", "segment.ms", "cleanup.policy"])


def elsewhere(side):
    """Changes of what isn't a topic."""
    for name, kind, resource, key in [
        ("unknown topic", TOPIC, "s-nowhere", "retention.ms"), ("no topic", TOPIC, "", "retention.ms"),
        ("broker, fixed", BROKER, "1000", "num.partitions"), ("broker, unknown", BROKER, "1000", "no.such.thing"),
        ("another broker", BROKER, "7", "num.partitions"), ("broker, no number", BROKER, "one", "num.partitions"),
        ("kind 0", 0, "some", "retention.ms"), ("kind 99", 99, "some", "retention.ms"),
    ]:
        told = [{"name": key, "config_operation": 0, "value": "2"}]
        one = {"resource_type": kind, "resource_name": resource, "configs": told}
        values = {"resources": [one], "validate_only": True}
        side.ask_all(f"IncrementalAlterConfigs: {name}", "IncrementalAlterConfigs", values)
    side.ask_all("IncrementalAlterConfigs: nothing", "IncrementalAlterConfigs", {"resources": []}, APIS["IncrementalAlterConfigs"].versions)


CASES = [described, replaced, changed, elsewhere]
