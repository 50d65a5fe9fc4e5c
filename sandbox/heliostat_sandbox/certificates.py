"""Certificates and signed tokens of a sandbox, made with the `openssl` program.

A sandbox must not need a cryptography package that the product does not need; `openssl` is
installed wherever Debian's Java is. Files are PEM: brokers (KIP-651) and Python read the same ones.
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from heliostat.errors import SandboxError

VALID_DAYS = 30
"""Longer than the life of any sandbox."""
OPENSSL_TIMEOUT_S = 60.0
"""An RSA key takes a tenth of a second, many times that on a machine that swaps."""
TOKEN_LIFETIME_S = 3600.0
TOKEN_AUDIENCE = "heliostat-sandbox"  # noqa: S105 - the name of an audience is no password
TOKEN_ISSUER = "heliostat-sandbox"  # noqa: S105 - as above
TOKEN_KEY_ID = "sandbox-1"  # noqa: S105 - the public name of a key


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key (PKCS #8, not encrypted), each in a PEM file."""

    certificate: Path
    key: Path

    def write_joined(self, path: Path) -> Path:
        """Write both into one file, as a broker's key store needs them."""
        text = self.key.read_text(encoding="ascii") + self.certificate.read_text(encoding="ascii")
        return write_secret(path, text)


def make_authority(folder: Path, name: str) -> KeyPair:
    """Make a certificate authority: `<name>.pem` and `<name>.key`.

    Raises
    ------
    SandboxError
        There is no `openssl`, or it failed.
    """
    pair = KeyPair(folder / f"{name}.pem", folder / f"{name}.key")
    _make_key(pair.key)
    _openssl(
        *("req", "-x509", "-new", "-key", str(pair.key), "-out", str(pair.certificate)),
        *("-subj", f"/CN={name}", "-days", str(VALID_DAYS)),
        *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),  # Python 3.13 requires it
    )
    return pair


def issue(
    folder: Path, name: str, authority: KeyPair, *, subject: str, hosts: Sequence[str] = ()
) -> KeyPair:
    """Make a certificate signed by `authority`: `<name>.pem` and `<name>.key`.

    Parameters
    ----------
    folder
        Folder for the files.
    name
        Name of the files.
    authority
        Authority that signs it.
    subject
        Common name; for a client's certificate the user.
    hosts
        Subject alternative names such as `DNS:localhost` and `IP:127.0.0.1`.

    Raises
    ------
    SandboxError
        There is no `openssl`, or it failed.
    """
    pair = KeyPair(folder / f"{name}.pem", folder / f"{name}.key")
    request, extensions = folder / f"{name}.csr", folder / f"{name}.ext"
    _make_key(pair.key)
    _openssl("req", "-new", "-key", str(pair.key), "-subj", f"/CN={subject}", "-out", str(request))
    lines = ["extendedKeyUsage=serverAuth,clientAuth", "authorityKeyIdentifier=keyid"]
    if hosts:
        lines.append("subjectAltName=" + ",".join(hosts))
    extensions.write_text("\n".join(lines) + "\n", encoding="ascii")
    _openssl(
        *("x509", "-req", "-in", str(request), "-out", str(pair.certificate)),
        *("-CA", str(authority.certificate), "-CAkey", str(authority.key), "-CAcreateserial"),
        *("-days", str(VALID_DAYS), "-extfile", str(extensions)),
    )
    for path in (request, extensions):
        path.unlink()
    return pair


def make_signing_key(folder: Path) -> tuple[Path, Path]:
    """Make an RSA key for tokens, and the key set (RFC 7517) with which brokers check them."""
    key, key_set = folder / "token.key", folder / "jwks.json"
    _openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", str(key))
    said = _openssl("rsa", "-in", str(key), "-noout", "-modulus").decode("ascii")
    modulus = bytes.fromhex(said.strip().partition("=")[2])
    public = {
        "kty": "RSA",
        "alg": "RS256",
        "use": "sig",
        "kid": TOKEN_KEY_ID,
        "n": _url_safe(modulus),
        "e": _url_safe((65_537).to_bytes(3)),  # openssl's default exponent
    }
    key_set.write_text(json.dumps({"keys": [public]}), encoding="ascii")
    return key, key_set


def sign_token(key: Path, user: str, lifetime_s: float = TOKEN_LIFETIME_S) -> str:
    """Return a JSON web token (RFC 7519, RS256) for `user`; expired if lifetime is negative."""
    now_s = int(time.time())
    head = {"alg": "RS256", "typ": "JWT", "kid": TOKEN_KEY_ID}
    claims = {
        "sub": user,
        "iss": TOKEN_ISSUER,
        "aud": TOKEN_AUDIENCE,
        "scope": "kafka",
        "iat": now_s + min(0, int(lifetime_s)),
        "exp": now_s + int(lifetime_s),
    }
    text = ".".join(_url_safe(json.dumps(part).encode()) for part in (head, claims))
    signature = _openssl("dgst", "-sha256", "-sign", str(key), said_to_it=text.encode("ascii"))
    return f"{text}.{_url_safe(signature)}"


def write_secret(path: Path, text: str) -> Path:
    """Write a file that only its owner may read."""
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")
    return path


def _make_key(path: Path) -> None:
    _openssl(
        "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", str(path)
    )


def _url_safe(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode("ascii").rstrip("=")


def _openssl(*arguments: str, said_to_it: bytes = b"") -> bytes:
    program = shutil.which("openssl")
    if program is None:
        raise SandboxError(
            "no openssl program was found, which a sandbox needs to make certificates",
            hint="install it: apt-get install openssl; dnf install openssl; brew install openssl",
        )
    done = subprocess.run(
        [program, *arguments],
        input=said_to_it,
        capture_output=True,
        timeout=OPENSSL_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        words = done.stderr.decode(errors="replace")[-500:]
        raise SandboxError("openssl failed", asked=arguments[0], said=words)
    return done.stdout
