"""Authenticates to a broker with SASL PLAIN, SCRAM or OAUTHBEARER.

PLAIN is RFC 4616, SCRAM is RFC 5802 and RFC 7677, OAUTHBEARER is RFC 7628 (KIP-255, KIP-768).
Settings have librdkafka's names, so that clients and observers share the same settings.
"""

import base64
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import requests

from cluster.protocol import ClusterError
from results.record.clock import unix_s

Ask = Callable[[bytes], bytes]
"""Sends a message of the SASL mechanism, and returns the broker's answer."""
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
TOKEN_TIMEOUT_S = 10.0
TOKEN_LIFE_S = 3600
_EARLY_S = 30.0
"""A new token is requested this many seconds before the old token expires."""


class SaslError(ClusterError):
    """The broker does not prove that it knows the password, or no token is available."""


@dataclass(slots=True)
class Sasl:
    """The credentials of one user, for one SASL mechanism.

    Args:
        settings: librdkafka settings, including secrets.
    """

    settings: Mapping[str, str]
    _token: str = ""
    _until_s: float = 0.0

    @property
    def mechanism(self) -> str:
        """The mechanism's name."""
        named = self.settings.get("sasl.mechanism") or self.settings.get("sasl.mechanisms", "")
        return named.upper()

    def prove(self, ask: Ask) -> None:
        """Authenticate to a broker.

        Args:
            ask: Sends a message, and returns the response. Raises an error if the broker refuses.

        Raises:
            SaslError: The broker does not prove that it knows the password, or no token is
                available.
        """
        user = self.settings.get("sasl.username", "")
        password = self.settings.get("sasl.password", "")
        match self.mechanism:
            case "PLAIN":
                ask(f"\0{user}\0{password}".encode())
            case "OAUTHBEARER":
                ask(f"n,,\x01auth=Bearer {self._current_token()}\x01\x01".encode())
            case scram:
                _prove_by_scram(ask, user, password, scram.removeprefix("SCRAM-").replace("-", ""))

    def _current_token(self) -> str:
        if unix_s() >= self._until_s - _EARLY_S:
            if self.settings.get("sasl.oauthbearer.method", "default").lower() == "oidc":
                self._token, life_s = _fetched_token(self.settings)
            else:
                life_s = TOKEN_LIFE_S
                self._token = _unsecured_token(self.settings.get("sasl.oauthbearer.config", ""))
            self._until_s = unix_s() + life_s
        return self._token


def _prove_by_scram(ask: Ask, user: str, password: str, hash_name: str) -> None:
    name = user.replace("=", "=3D").replace(",", "=2C")
    nonce = secrets.token_urlsafe(24)
    opening = f"n={name},r={nonce}"
    challenge = ask(f"n,,{opening}".encode()).decode()
    told = _attributes(challenge)
    if not told.get("r", "").startswith(nonce) or not told.get("i", "").isdecimal():
        raise SaslError("the broker's SCRAM challenge does not belong to our request")
    salted = hashlib.pbkdf2_hmac(
        hash_name, password.encode(), base64.b64decode(told["s"]), int(told["i"])
    )
    closing = f"c=biws,r={told['r']}"  # biws: no channel binding (`n,,` in base64).
    signed = f"{opening},{challenge},{closing}".encode()
    client_key = hmac.digest(salted, b"Client Key", hash_name)
    signature = hmac.digest(hashlib.new(hash_name, client_key).digest(), signed, hash_name)
    proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
    answer = ask(f"{closing},p={base64.b64encode(proof).decode()}".encode()).decode()
    wanted = hmac.digest(hmac.digest(salted, b"Server Key", hash_name), signed, hash_name)
    if not hmac.compare_digest(base64.b64decode(_attributes(answer).get("v", "")), wanted):
        raise SaslError("the broker did not prove that it knows the password")


def _attributes(message: str) -> dict[str, str]:
    pairs = (each.partition("=") for each in message.split(","))
    return {name: value for name, _, value in pairs}


def _unsecured_token(config: str) -> str:
    """Return the unsigned token that librdkafka makes for a setting `principal=NAME ...`."""
    told = dict(each.partition("=")[::2] for each in config.split())
    begun = int(unix_s())
    life_s = int(told.get("lifeSeconds", TOKEN_LIFE_S))
    claims: dict[str, object] = {
        told.get("principalClaimName", "sub"): told.get("principal", ""),
        "iat": begun,
        "exp": begun + life_s,
    }
    if scope := told.get("scope"):
        claims[told.get("scopeClaimName", "scope")] = scope.split(",")
    return f"{_encoded({'alg': 'none'})}.{_encoded(claims)}."


def _encoded(values: Mapping[str, object]) -> str:
    text = json.dumps(values, separators=(",", ":")).encode()
    return base64.urlsafe_b64encode(text).decode().rstrip("=")


def _fetched_token(settings: Mapping[str, str]) -> tuple[str, float]:
    """Request a token, and return it with its lifetime in seconds (RFC 6749, section 4.4)."""
    url = settings.get("sasl.oauthbearer.token.endpoint.url", "")
    asked = {"grant_type": "client_credentials"}
    if scope := settings.get("sasl.oauthbearer.scope"):
        asked["scope"] = scope
    who = (
        settings.get("sasl.oauthbearer.client.id", ""),
        settings.get("sasl.oauthbearer.client.secret", ""),
    )
    try:
        answer = requests.post(url, data=asked, auth=who, timeout=TOKEN_TIMEOUT_S)
        answer.raise_for_status()
        told = answer.json()
        return str(told["access_token"]), float(told.get("expires_in", TOKEN_LIFE_S))
    except (requests.RequestException, ValueError, KeyError, TypeError) as refused:
        what = type(refused).__name__
        raise SaslError(f"{url} returned no token ({what}); see sasl.oauthbearer.*") from refused
