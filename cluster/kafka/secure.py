"""A connection with TLS, SASL or both, for secured clusters. To use it, see `wire.dialling`.

Settings have librdkafka's names and meaning: `security.protocol`, `ssl.*`, `sasl.*`.
"""

import socket
import ssl
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory

from kio.schema.errors import ErrorCode
from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest
from kio.schema.sasl_authenticate.v2.response import SaslAuthenticateResponse
from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest
from kio.schema.sasl_handshake.v1.response import SaslHandshakeResponse
from kio.serial.errors import SerialError
from kio.static.protocol import RequestPayload

from cluster.kafka.sasl import MECHANISMS, Sasl, SaslError
from cluster.kafka.wire import A, Connection, Dial, WireError
from cluster.protocol import UserError
from results.record.clock import stopwatch_s

GREETING_S = 3.0
"""The time limit in seconds for the TLS and SASL handshake.

This limit is separate from the request's limit, which is usually shorter. Otherwise the request's
limit would interrupt a slow handshake at every attempt.
"""
SESSION_SHARE = 0.8
"""When this share of the broker's session lifetime has passed, a connection is reopened."""


class RefusedError(WireError):
    """A certificate check or an authentication failed."""


def dial_by(settings: Mapping[str, str]) -> Dial:
    """Return a function that opens connections according to client settings.

    Raises:
        UserError: A file cannot be read, or a setting is not supported here.
    """
    protocol = settings.get("security.protocol", "plaintext").lower()
    if protocol not in {"plaintext", "ssl", "sasl_plaintext", "sasl_ssl"}:
        raise UserError(f"security.protocol {protocol!r} is not a protocol of librdkafka")
    context = tls_context(settings) if protocol.endswith("ssl") else None
    sasl = Sasl(settings) if protocol.startswith("sasl") else None
    if sasl is not None and sasl.mechanism not in MECHANISMS:
        raise UserError(
            f"sasl.mechanism {sasl.mechanism!r} is not supported; use one of"
            f" {', '.join(MECHANISMS)}"
        )
    return lambda host, port: SecureConnection(host, port, context=context, sasl=sasl)


def tls_context(settings: Mapping[str, str]) -> ssl.SSLContext:
    """Return the TLS context, with certificates and with the rules by which they are checked.

    Raises:
        UserError: A file cannot be read, or has the wrong content.
    """
    if "ssl.keystore.location" in settings:
        raise UserError(
            "ssl.keystore.location is not supported; use ssl.certificate.location and"
            " ssl.key.location (PEM files)"
        )
    try:
        context = ssl.create_default_context(
            cafile=settings.get("ssl.ca.location"), cadata=settings.get("ssl.ca.pem")
        )
        _show_ours(context, settings)
    except (OSError, ValueError) as refused:
        raise UserError(
            f"a certificate or key cannot be read: {refused.strerror or refused}"
            if isinstance(refused, OSError)
            else f"a certificate or key cannot be read: {refused}"
        ) from refused
    named = settings.get("ssl.endpoint.identification.algorithm", "https").lower() == "https"
    context.check_hostname = named
    if settings.get("enable.ssl.certificate.verification", "true").lower() == "false":
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _show_ours(context: ssl.SSLContext, settings: Mapping[str, str]) -> None:
    """Load the client's own certificate into a TLS context, if the settings name one."""
    password = settings.get("ssl.key.password")
    if certificate := settings.get("ssl.certificate.location"):
        context.load_cert_chain(certificate, settings.get("ssl.key.location"), password=password)
    elif pem := settings.get("ssl.certificate.pem"):
        with TemporaryDirectory() as folder:  # Python reads keys only from files; mode 0700.
            both = Path(folder) / "own.pem"
            both.write_text(f"{pem}\n{settings.get('ssl.key.pem', '')}", encoding="ascii")
            context.load_cert_chain(both, password=password)


class SecureConnection(Connection):
    """A connection that begins with a TLS handshake, with SASL authentication, or with both.

    Args:
        host: The broker's address.
        port: The broker's port.
        context: The TLS context; None means no TLS.
        sasl: The SASL credentials; None means no authentication.
    """

    def __init__(
        self, host: str, port: int, *, context: ssl.SSLContext | None, sasl: Sasl | None
    ) -> None:
        super().__init__(host, port)
        self._host, self._where = host, f"{host}:{port}"
        self._context, self._sasl = context, sasl
        self._until_s: float | None = None

    def is_open(self) -> bool:
        """Return whether the next request can use the open connection.

        If the connection's session is about to expire (KIP-368), close the connection first.
        """
        if self._until_s is not None and stopwatch_s() >= self._until_s:
            self.close()
        return super().is_open()

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._until_s = None
        super().close()

    def ask(self, request: RequestPayload, answer: type[A], *, timeout_s: float) -> A:
        """Send a request and return the response; a handshake has a separate time limit."""
        if not self.is_open():
            self._greet(type(request).__name__)
        return super().ask(request, answer, timeout_s=timeout_s)

    def _greet(self, what: str) -> None:
        try:
            self._connected(stopwatch_s() + GREETING_S)
        except WireError:
            self.close()
            raise
        except (OSError, SerialError, ValueError) as failure:
            self.close()
            raise WireError(f"{self._where} did not answer {what}: {failure}") from failure

    def _introduced(self, connected: socket.socket, deadline_s: float) -> socket.socket:
        if self._context is not None:
            connected = self._encrypted(connected, self._context)
        if self._sasl is not None:
            self._prove(connected, self._sasl, deadline_s)
        return connected

    def _encrypted(self, connected: socket.socket, context: ssl.SSLContext) -> socket.socket:
        try:
            return context.wrap_socket(connected, server_hostname=self._host)
        except ssl.SSLCertVerificationError as refused:
            raise RefusedError(
                f"the certificate of {self._where} is not accepted ({refused.verify_message});"
                " check ssl.ca.location"
            ) from refused
        except ssl.SSLError as refused:
            raise RefusedError(
                f"the TLS handshake with {self._where} failed ({refused.reason}); check"
                " security.protocol, and your own certificate"
            ) from refused

    def _prove(self, connected: socket.socket, sasl: Sasl, deadline_s: float) -> None:
        offered = self._exchanged(
            connected,
            SaslHandshakeRequest(mechanism=sasl.mechanism),
            SaslHandshakeResponse,
            deadline_s,
        )
        if offered.error_code is not ErrorCode.none:
            there = ", ".join(offered.mechanisms) or "none"
            raise RefusedError(
                f"{self._where} does not accept {sasl.mechanism}, only {there}; change"
                " sasl.mechanism"
            )
        try:
            sasl.prove(self._asking(connected, deadline_s))
        except SaslError as refused:
            raise RefusedError(f"{self._where}: {refused}") from refused

    def _asking(self, connected: socket.socket, deadline_s: float) -> Callable[[bytes], bytes]:
        def ask(message: bytes) -> bytes:
            said = self._exchanged(
                connected,
                SaslAuthenticateRequest(auth_bytes=message),
                SaslAuthenticateResponse,
                deadline_s,
            )
            if said.error_code is not ErrorCode.none:
                why = said.error_message or said.error_code.name.upper()
                raise RefusedError(
                    f"{self._where} does not accept the user or the password ({why}); check"
                    " sasl.username and sasl.password, or the token"
                )
            if said.session_lifetime > timedelta():
                granted_s = said.session_lifetime.total_seconds()
                self._until_s = stopwatch_s() + SESSION_SHARE * granted_s
            return said.auth_bytes

        return ask
