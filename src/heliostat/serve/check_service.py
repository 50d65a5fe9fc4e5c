"""Whether a service could be served as configured: its address, its tokens, its certificate."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException

from heliostat.config import Config
from heliostat.config.service import ServiceTls, parts_of
from heliostat.errors import ConfigError, Refused
from heliostat.operate.finding import Finding, fine, note, problem, problem_of
from heliostat.serve.listener import bound
from heliostat.serve.tokens import Tokens

SERVICE = "service"
ANSWER_S = 1.0


def service_findings(config: Config) -> Iterator[Finding]:
    """Yield whether the addresses are free, and the files can be used."""
    service = config.service
    for address in filter(None, (service.listen, service.health)):
        try:
            bound(address).close()
        except Refused as error:
            yield _taken(address) if _answers(address) else problem_of(SERVICE, error)
        except (OSError, ValueError) as error:
            yield problem(SERVICE, "ADDRESS", f"{address}: {error}", "correct service.listen")
        else:
            yield fine(SERVICE, f"{address} is free")
    if service.tokens_file is not None:
        try:
            count = Tokens(service.tokens_file).count
        except ConfigError as error:
            yield problem_of(SERVICE, error)
        else:
            yield _tokens(count, str(service.tokens_file))
    if isinstance(service.tls, ServiceTls):
        yield _tls(service.tls)


def _taken(address: str) -> Finding:
    hint = "a second one needs another service.listen"
    return note(SERVICE, "ADDRESS_TAKEN", f"a heliostat is served at {address} already", hint)


def _answers(address: str) -> bool:
    """Whether a service of ours answers there, without TLS."""
    host, port = parts_of(address)
    asked = HTTPConnection(host, port, timeout=ANSWER_S)
    try:
        asked.request("GET", "/livez")
        return asked.getresponse().status == HTTPStatus.OK
    except (OSError, HTTPException):
        return False
    finally:
        asked.close()


def _tokens(count: int, path: str) -> Finding:
    if count:
        return fine(SERVICE, f"{count} tokens in {path}")
    hint = "write a line name:role:sha256 for each"
    return note(SERVICE, "NO_TOKENS", f"{path} has no token: nobody gets in", hint)


def _tls(files: ServiceTls) -> Finding:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        # Never let OpenSSL ask for a password on a terminal.
        context.load_cert_chain(files.certificate_file, files.key_file, lambda: b"")
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        return problem(
            *(SERVICE, "CREDENTIALS_UNREADABLE", f"service.tls can't be used: {why}"),
            "certificate_file and key_file must be PEM files that belong together, readable by "
            "this user, the key without a password",
        )
    return fine(SERVICE, "certificate and key belong together")
