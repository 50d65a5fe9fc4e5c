"""SCRAM credentials in Kafka's terms (KIP-554): values only, no requests."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import Enum

from typing_extensions import override


class ScramMechanism(Enum):
    """Mechanism of a SCRAM credential (`ScramMechanism`)."""

    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"

    @property
    def digest(self) -> str:
        """Its hash function, as `hashlib` names it."""
        return self.value.removeprefix("SCRAM-").replace("-", "").lower()


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What a cluster tells of a credential: no request returns its hash, so none can be copied."""

    user: str
    mechanism: ScramMechanism
    iterations: int

    @property
    def sort_key(self) -> tuple[str, str]:
        """For a stable order."""
        return self.user, self.mechanism.value

    @override
    def __str__(self) -> str:
        """Text for people."""
        return f"{self.user} ({self.mechanism.value}, {self.iterations} iterations)"


@dataclass(frozen=True, slots=True)
class ScramUpsertion:
    """A credential to make, by its salted password: the password itself never crosses."""

    credential: ScramCredential
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)

    @classmethod
    def of(cls, credential: ScramCredential, password: str, salt: bytes) -> ScramUpsertion:
        """Salt a password (RFC 5802's `Hi`, as `ScramFormatter` does: UTF-8, no SASLprep)."""
        salted = hashlib.pbkdf2_hmac(
            credential.mechanism.digest, password.encode(), salt, credential.iterations
        )
        return cls(credential, salt, salted)
