"""Convert the settings by which Java clients connect to Amazon MSK with IAM."""

from __future__ import annotations

from collections.abc import Mapping

from heliostat.mm2.config_values import Ledger, Setting

MECHANISM = "AWS_MSK_IAM"
_CLASSES = "software.amazon.msk.auth.iam."
_LOGIN = "sasl.login.callback.handler.class"
_OPTIONS = frozenset(
    {
        *("awsProfileName", "awsRoleArn", "awsRoleSessionName", "awsRoleExternalId"),
        *("awsStsRegion", "awsDebugCreds", "awsMaxRetries", "awsMaxBackOffTimeMs"),
    }
)
"""Options that a profile has as well, or that are about trying again and logging."""


def asks_aws(mechanism: str, given: Mapping[str, Setting]) -> bool:
    """Whether AWS says who a client is: by its own mechanism, or by tokens of OAUTHBEARER.

    MSK takes both at the same listener, so that a link needs one.
    """
    return mechanism == MECHANISM or (
        mechanism == "OAUTHBEARER"
        and _LOGIN in given
        and given[_LOGIN].value.strip().startswith(_CLASSES)
    )


def aws_section(
    given: Mapping[str, Setting],
    options: Mapping[str, str],
    cluster: tuple[str, str],
    ledger: Ledger,
) -> dict[str, str]:
    """Return the keys of a cluster's security.

    Parameters
    ----------
    given
        Settings by name.
    options
        Those of `IAMLoginModule`, or of the handler of tokens.
    cluster
        The name of a profile to make, and what the cluster is called.
    ledger
        Takes the outcome of each property.
    """
    profile, name = cluster
    section = {"mechanism": MECHANISM}
    for key in ("sasl.mechanism", "sasl.jaas.config"):
        if key in given:
            ledger.used(given[key], "security.mechanism and aws_profile")
    for key in ("sasl.client.callback.handler.class", _LOGIN):
        if key in given:
            ledger.replaced(given[key], "security.mechanism: a link signs by itself")
    if options.get("awsProfileName"):
        section["aws_profile"] = options["awsProfileName"]
    if options.get("awsRoleArn"):
        section["aws_profile"] = profile
        ledger.must_do(
            f"make a profile {profile} in AWS's configuration file that assumes "
            f"{options['awsRoleArn']} for {name}, with the session's name and external id of its "
            "sasl.jaas.config, if it has them"
        )
    ledger.must_do(
        f"give the link AWS credentials for {name} on every machine that copies, and install "
        "heliostat[msk-iam]; set aws_region if its brokers' names don't say it"
    )
    for option in sorted(options.keys() - _OPTIONS):
        ledger.differs(
            f"{name}: sasl.jaas.config has the option {option}; a link has no such setting"
        )
    return section
