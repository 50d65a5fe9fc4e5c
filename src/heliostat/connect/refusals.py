"""What a connector's configuration may not hold, whatever its class makes of it; pure.

Configurations are shown as they were given, so a secret in one would be shown, too. A class, a
provider of secrets or an interceptor would be code that somebody names over the network.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from heliostat.connect.connector import ConfigProblem

_SECRET = re.compile(
    r"(password|passphrase|secret|credentials?|api\.?key|private\.?key|token|user\.info|jwt)$"
    r"|(keystore\.key|\.accesskey)$",
    re.IGNORECASE,
)
_JAAS = re.compile(r"sasl\.jaas\.config$")
_OPTION = re.compile(
    r"""([\w.\-]*(?:password|secret|token|key)[\w.\-]*)\s*=\s*("[^"]*"|'[^']*'|[^\s;]+)""",
    re.IGNORECASE,
)
_NOT_SECRET = re.compile(r"\.uri$|\.url$|is\.jwt$|storeKey$|useKeyTab$|keyTab$", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"\$\{[^}]+\}")
GIVE_FILE = "give ${file:…} or name a cluster of the configuration file, which has its own"
_OWN = "org.apache.kafka.connect.mirror."
_ADMIN = "org.apache.kafka.clients.admin."
KNOWN_CLASSES: Mapping[str, frozenset[str]] = {
    "replication.policy.class": frozenset(
        {f"{_OWN}DefaultReplicationPolicy", f"{_OWN}IdentityReplicationPolicy"}
    ),
    "topic.filter.class": frozenset({f"{_OWN}DefaultTopicFilter"}),
    "group.filter.class": frozenset({f"{_OWN}DefaultGroupFilter"}),
    "config.property.filter.class": frozenset({f"{_OWN}DefaultConfigPropertyFilter"}),
    "forwarding.admin.class": frozenset({f"{_ADMIN}ForwardingAdmin"}),
    "schema.subject.translator.class": frozenset(
        {"io.confluent.connect.replicator.schemas.DefaultSubjectTranslator"}
    ),
}
"""Classes whose work a link does; a property that ends like these takes no other one."""
_LOGINS = frozenset(
    {
        "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
        "io.strimzi.kafka.oauth.client.JaasClientOauthLoginCallbackHandler",
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    }
)
"""Where a connector's own clients would log in; a link logs in as the file says."""
_REPORTERS = frozenset({"", "org.apache.kafka.common.metrics.JmxReporter", "JmxReporter"})


def refusals_of(config: Mapping[str, str]) -> Iterator[ConfigProblem]:
    """Yield what is refused."""
    for name, value in config.items():
        text = value.strip()
        if name == "connector.class" or not text:
            continue
        if holds_secret(name, text):
            yield ConfigProblem(name, f"a secret stands in the configuration itself: {GIVE_FILE}")
        elif name == "config.providers" or name.startswith("config.providers."):
            yield ConfigProblem(
                name, "no provider is loaded here: secrets are those of the configuration file"
            )
        elif name.endswith("interceptor.classes"):
            yield ConfigProblem(name, "no interceptor runs here; records cross as they are")
        elif name.endswith("metric.reporters"):
            if not {reporter.strip() for reporter in text.split(",")} <= _REPORTERS:
                yield ConfigProblem(name, "no reporter is loaded here; see /metrics")
        elif name.endswith(".class") and not _is_known(name, text):
            yield ConfigProblem(
                name,
                f"Invalid value {text} for configuration {name}: Class {text} could not be found.",
            )


def _is_known(name: str, value: str) -> bool:
    for ending, classes in KNOWN_CLASSES.items():
        if name == ending or name.endswith(f".{ending}"):
            return value in classes
    return value in _LOGINS


def holds_secret(name: str, value: str) -> bool:
    """Whether a property's value is a secret, or holds one, and not the place of one."""
    if _JAAS.search(name):
        return any(
            not _is_place(option[2].strip("\"'"))
            for option in _OPTION.finditer(value)
            if not _NOT_SECRET.search(option[1])
        )
    if not _SECRET.search(name) or _NOT_SECRET.search(name):
        return False
    return not _is_place(value)


def _is_place(value: str) -> bool:
    return not value or not _PLACEHOLDER.sub("", value).strip(": ")
