"""A connection by TLS, with SASL, or both: `wire.dialling` is given it for a secured cluster.

Settings have librdkafka's names and mean the same: `security.protocol`, `ssl.*`, `sasl.*`.
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
"""So long TLS and SASL may take, beside the question: cut short they would begin anew each time."""
SESSION_SHARE = 0.8
"""A connection is opened anew when so much of the time is over that its broker grants it."""


class RefusedError(WireError):
    """A broker, or its certificate, is not who it should be; or we are not, as it says."""


def dial_by(settings: Mapping[str, str]) -> Dial:
    """Return what makes channels as settings of clients have it.

    Raises:
        UserError: A file cannot be read, or a setting has no meaning here.
    """
    protocol = settings.get("security.protocol", "plaintext").lower()
    if protocol not in {"plaintext", "ssl", "sasl_plaintext", "sasl_ssl"}:
        raise UserError(f"security.protocol {protocol!r} is none of librdkafka's")
    context = tls_context(settings) if protocol.endswith("ssl") else None
    sasl = Sasl(settings) if protocol.startswith("sasl") else None
    if sasl is not None and sasl.mechanism not in MECHANISMS:
        raise UserError(f"sasl.mechanism {sasl.mechanism!r} is none of {', '.join(MECHANISMS)}")
    return lambda host, port: SecureConnection(host, port, context=context, sasl=sasl)


def tls_context(settings: Mapping[str, str]) -> ssl.SSLContext:
    """Return how certificates are shown and looked at.

    Raises:
        UserError: A file cannot be read, or holds something else.
    """
    if "ssl.keystore.location" in settings:
        raise UserError(
            "ssl.keystore.location cannot be read here; name ssl.certificate.location and"
            " ssl.key.location, in PEM"
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
    """Have a context show our own certificate, if we have one."""
    password = settings.get("ssl.key.password")
    if certificate := settings.get("ssl.certificate.location"):
        context.load_cert_chain(certificate, settings.get("ssl.key.location"), password=password)
    elif pem := settings.get("ssl.certificate.pem"):
        with TemporaryDirectory() as folder:  # Python reads keys from files only; 0700.
            both = Path(folder) / "own.pem"
            both.write_text(f"{pem}\n{settings.get('ssl.key.pem', '')}", encoding="ascii")
            context.load_cert_chain(both, password=password)


class SecureConnection(Connection):
    """A connection that begins with a look at certificates, with a password, or with both.

    Args:
        host: Address of the broker.
        port: Its port.
        context: Of TLS; None: without.
        sasl: Who we are; None: the broker does not ask.
    """

    def __init__(
        self, host: str, port: int, *, context: ssl.SSLContext | None, sasl: Sasl | None
    ) -> None:
        super().__init__(host, port)
        self._host, self._where = host, f"{host}:{port}"
        self._context, self._sasl = context, sasl
        self._until_s: float | None = None

    def is_open(self) -> bool:
        """Tell whether the next question goes over the connection of the last one (KIP-368)."""
        if self._until_s is not None and stopwatch_s() >= self._until_s:
            self.close()
        return super().is_open()

    def close(self) -> None:
        """Close the connection. Idempotent."""
        self._until_s = None
        super().close()

    def ask(self, request: RequestPayload, answer: type[A], *, timeout_s: float) -> A:
        """Send a request and return its answer; a greeting before it has a limit of its own."""
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
                f"{self._where} does not agree on TLS ({refused.reason}); check security.protocol,"
                " and your own certificate"
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
                f"{self._where} does not take {sasl.mechanism}, but {there}; change sasl.mechanism"
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
