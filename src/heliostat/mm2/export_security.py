"""Write how a cluster is reached: as properties of Kafka's clients, or as Strimzi's fields."""

from __future__ import annotations

from typing import Any

from heliostat.config import ClusterConfig, SecurityConfig
from heliostat.config.security import SecretConfig
from heliostat.mm2.config_strimzi_security import IDENTIFICATION
from heliostat.mm2.config_values import Ledger
from heliostat.mm2.export_secrets import ITEMS, Item, References, SecretReferences

Properties = dict[str, Any]
_COMMON = "org.apache.kafka.common.security"
_LOGIN = {
    "PLAIN": f"{_COMMON}.plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_COMMON}.scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_COMMON}.scram.ScramLoginModule",
    "OAUTHBEARER": f"{_COMMON}.oauthbearer.OAuthBearerLoginModule",
    "AWS_MSK_IAM": "software.amazon.msk.auth.iam.IAMLoginModule",
}
_TYPES = {"PLAIN": "plain", "SCRAM-SHA-256": "scram-sha-256", "SCRAM-SHA-512": "scram-sha-512"}
_PEM = (
    ("ca_file", "ssl.truststore.certificates", "ssl.truststore.type"),
    ("certificate_file", "ssl.keystore.certificate.chain", "ssl.keystore.type"),
    ("key_file", "ssl.keystore.key", "ssl.keystore.type"),
)
"""Keys of PEM files, the property that has the contents, and that of the kind of store."""


def client_properties(
    alias: str, cluster: ClusterConfig, references: References, ledger: Ledger
) -> Properties:
    """Return how Kafka's clients connect to a cluster, by their own names.

    Parameters
    ----------
    alias, cluster
        The cluster, and what the link calls it.
    references
        Says where secrets are.
    ledger
        Takes what a person has to do.
    """
    security = cluster.security
    properties: Properties = {"bootstrap.servers": ",".join(cluster.bootstrap)}
    if security.protocol != "PLAINTEXT":
        properties["security.protocol"] = security.protocol
    for key, name, kind in _PEM:
        file = getattr(security, key)
        if file is not None:
            properties[kind] = "PEM"
            properties[name] = references.of(SecretConfig(file=file), alias, key)
    if security.key_password is not None:
        properties["ssl.key.password"] = references.of(security.key_password, alias, "key_password")
    if not security.verify_hostname:
        properties[IDENTIFICATION] = ""
    return properties | sasl_properties(alias, security, references, ledger)


def sasl_properties(
    alias: str, security: SecurityConfig, references: References, ledger: Ledger
) -> Properties:
    """Return the `sasl.*` properties; none without SASL."""
    mechanism = security.mechanism
    if mechanism is None:
        return {}
    properties: Properties = {"sasl.mechanism": mechanism}
    options: dict[str, str] = {}
    if security.password is not None:
        options["username"] = security.username or ""
        options["password"] = references.of(security.password, alias, "password")
    elif mechanism == "OAUTHBEARER":
        properties["sasl.login.callback.handler.class"] = (
            f"{_COMMON}.oauthbearer.OAuthBearerLoginCallbackHandler"
        )
        url, options = _token(alias, security, references, ledger)
        properties["sasl.oauthbearer.token.endpoint.url"] = url
    elif mechanism == "AWS_MSK_IAM":
        handler = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
        properties["sasl.client.callback.handler.class"] = handler
        if security.aws_profile is not None:
            options["awsProfileName"] = security.aws_profile
        if security.aws_region is not None:
            ledger.must_do(f"set AWS_REGION={security.aws_region} for MirrorMaker 2 ({alias})")
        ledger.must_do(
            f"give MirrorMaker 2 AWS credentials for {alias}, and the jar aws-msk-iam-auth"
        )
    text = "".join(f' {name}="{_quoted(value)}"' for name, value in options.items())
    properties["sasl.jaas.config"] = f"{_LOGIN[mechanism]} required{text};"
    return properties


def _token(
    alias: str, security: SecurityConfig, references: References, ledger: Ledger
) -> tuple[str, dict[str, str]]:
    """Return the address of tokens, and the options of the login module."""
    endpoint = security.token_endpoint
    if endpoint is None:
        token = security.token or SecretConfig(file="/token")
        path = token.file or f"/opt/kafka/{alias}-token"
        if token.file is None:
            ledger.must_do(f"write the token of the variable {token.env} into {path}, and renew it")
        ledger.must_do(f"have the token for {alias} at {path} where MirrorMaker 2 runs")
        _allow(f"allowed.files={path}", ledger)
        return f"file://{path}", {}
    _allow(f"allowed.urls={endpoint.url}", ledger)
    if endpoint.ca_file is not None:
        ledger.must_do(f"let MirrorMaker 2's JVM trust {endpoint.ca_file} ({endpoint.url})")
    options = {
        "clientId": endpoint.client_id,
        "clientSecret": references.of(endpoint.client_secret, alias, "client_secret"),
    }
    return endpoint.url, options | ({"scope": endpoint.scope} if endpoint.scope else {})


def _allow(what: str, ledger: Ledger) -> None:
    ledger.must_do(f"start MirrorMaker 2 with -Dorg.apache.kafka.sasl.oauthbearer.{what}")


def _quoted(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"")


# -- Strimzi ---------------------------------------------------------------------------------------


def strimzi_cluster(
    alias: str, cluster: ClusterConfig, references: SecretReferences, ledger: Ledger
) -> Properties:
    """Return the fields of a cluster in a `KafkaMirrorMaker2`, without its alias there.

    Parameters
    ----------
    alias, cluster
        The cluster, and what the link calls it.
    references
        Says where secrets are.
    ledger
        Takes what a person has to do.
    """
    security = cluster.security
    properties: Properties = {"bootstrapServers": ",".join(cluster.bootstrap)}
    if security.protocol.endswith("SSL"):
        certificates: list[dict[str, str]] = []
        if security.ca_file is not None:
            item = references.item(SecretConfig(file=security.ca_file), alias, "ca_file")
            certificates.append({"secretName": item.secret, "certificate": item.key})
        properties["tls"] = {"trustedCertificates": certificates}
    if security.mechanism is not None:
        properties["authentication"] = _strimzi_sasl(alias, security, references, ledger)
        if security.certificate_file is not None:
            ledger.differs(
                f"cluster {alias}: Strimzi authenticates in one way: the certificate is left out"
            )
    elif security.certificate_file is not None:
        pair = _pair(alias, security, references, ledger)
        properties["authentication"] = {"type": "tls", "certificateAndKey": pair}
    if not security.verify_hostname:
        properties["config"] = {IDENTIFICATION: ""}
    return properties


def _strimzi_sasl(
    alias: str, security: SecurityConfig, references: SecretReferences, ledger: Ledger
) -> Properties:
    kind = _TYPES.get(security.mechanism or "")
    if kind is None or security.password is None:
        config = sasl_properties(alias, security, references, ledger)
        return {"type": "custom", "sasl": True, "config": config}
    item = references.item(security.password, alias, "password")
    return {
        "type": kind,
        "username": security.username,
        "passwordSecret": {"secretName": item.secret, "password": item.key},
    }


def _pair(
    alias: str, security: SecurityConfig, references: SecretReferences, ledger: Ledger
) -> dict[str, str]:
    """Return where a certificate and its key are: in one secret, and the key without a password."""
    certificate, key = (
        references.item(SecretConfig(file=getattr(security, name)), alias, name)
        for name in ("certificate_file", "key_file")
    )
    if key.secret != certificate.secret:
        is_free = key.key != certificate.key
        key = Item(certificate.secret, key.key if is_free else ITEMS["key_file"])
        ledger.must_do(
            f"put the key {security.key_file} into the secret {key.secret}, as its item {key.key}: "
            "Strimzi has both in one"
        )
    if security.key_password is not None:
        ledger.must_do(f"store {key.key} in {key.secret} without its password ({alias})")
    return {"secretName": certificate.secret, "certificate": certificate.key, "key": key.key}
