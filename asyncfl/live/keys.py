"""Keys of a federation on several machines: the server's certificate, and a token of each client.

    FOLDER/certificate.pem        of the server; its clients get a copy
    FOLDER/key.pem                the server's alone
    FOLDER/clients/ann.token      "ann:" and a secret of 256 bits; who holds it is client ann

Only their owner may read them (mode 0600). The certificate is signed by itself: whoever has a copy of it knows the
server by it, and no authority is asked.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import re
import secrets
import ssl
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from asyncfl.base.errors import AsyncflError, Fault, OutputError, ScenarioError, shortened, system_says

if TYPE_CHECKING:
    from cryptography import x509

CERTIFICATE, KEY, CLIENTS, TOKEN = "certificate.pem", "key.pem", "clients", ".token"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,98}")
"""Allowed name of a client, which is the name of a file."""
SECRET = re.compile(r"[A-Za-z0-9_-]{22,200}")


class KeysError(AsyncflError):
    """A certificate, key or token that is missing, damaged, or does not fit."""


def make_keys(folder: Path, hosts: Sequence[str], clients: Sequence[str], days: int) -> list[Path]:
    """Write a certificate for a server with these `hosts` (names, addresses), and a token per client; return the files.

    A certificate that is there already stays, and so do tokens: new clients are added. Raises ScenarioError for hosts
    and names that cannot be, and OutputError.
    """
    allowed = "must be letters, digits, . _ or -"
    faults = [Fault("--client", f"{allowed}, got {shortened(name)!r}") for name in clients if not NAME.fullmatch(name)]
    certificate, key = folder / CERTIFICATE, folder / KEY
    exists = certificate.exists() or key.exists()
    if exists and hosts:
        faults.append(Fault("--host", f"must be left out: {certificate} is there, and clients know the server by it"))
    if not exists and not hosts:
        faults.append(Fault("--host", "must name the server as clients will call it: names and addresses"))
    if certificate.exists() != key.exists():
        faults.append(Fault("", f"{folder} has one of {CERTIFICATE} and {KEY}; remove it, or bring the other back"))
    if faults:
        raise ScenarioError(faults)
    names = [_subject(host) for host in hosts]
    try:
        for place in (folder, folder / CLIENTS):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        written = []
        if not exists:
            private, public = _certificate(names, days)
            written += [_write(key, private), _write(certificate, public)]
        for name in clients:
            place = folder / CLIENTS / f"{name}{TOKEN}"
            if not place.exists():
                written.append(_write(place, f"{name}:{secrets.token_urlsafe(32)}\n".encode()))
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {system_says(error)}") from None
    return written


def _subject(host: str) -> x509.GeneralName:
    from cryptography import x509

    with suppress(ValueError):
        return x509.IPAddress(ipaddress.ip_address(host))
    labels = host.removeprefix("*.").rstrip(".").split(".")
    if len(host) > 253 or not all(re.fullmatch(r"(?!-)[A-Za-z0-9-]{1,63}(?<!-)", label) for label in labels):
        raise ScenarioError([Fault("--host", f"must be a name or an address, without port, got {shortened(host)!r}")])
    return x509.DNSName(host)


def _certificate(names: Sequence[x509.GeneralName], days: int) -> tuple[bytes, bytes]:
    """Return (private key, certificate) as PEM."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    key = ec.generate_private_key(ec.SECP256R1())
    called = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "asyncfl live")])
    now = datetime.datetime.now(datetime.UTC)
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    certificate = (
        x509.CertificateBuilder()
        .subject_name(called)
        .issuer_name(called)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Clocks of two machines differ.
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(identifier, critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return private, certificate.public_bytes(serialization.Encoding.PEM)


def _write(path: Path, content: bytes) -> Path:
    """Write a file that only its owner can read at any moment, and return it."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
    return path


# --- reading -------------------------------------------------------------------------------------------------------


def read_token(path: Path) -> tuple[str, str]:
    """Read (name, token) of a client. Raises KeysError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise KeysError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    name, _, token = text.strip().partition(":")
    if not NAME.fullmatch(name) or not SECRET.fullmatch(token):
        raise KeysError(f"{path} must hold a client's name, a colon and its token, as asyncfl live keys writes it")
    return name, token


def read_tokens(folder: Path) -> dict[str, str]:
    """Read name -> token of the clients that may take part. Raises KeysError, also if two share a name or token."""
    files = sorted((folder / CLIENTS).glob(f"*{TOKEN}"))
    if not files:
        raise KeysError(f"{folder / CLIENTS} has no tokens of clients; make them: asyncfl live keys {folder}")
    tokens: dict[str, str] = {}
    seen: dict[tuple[str, str], Path] = {}
    for file in files:
        name, token = read_token(file)
        for what in (("name", name), ("token", token)):
            if what in seen:
                raise KeysError(f"{seen[what]} and {file} have one {what[0]}: each client needs its own")
            seen[what] = file
        tokens[name] = token
    return tokens


def server_context(folder: Path) -> ssl.SSLContext:
    """Return the TLS context of a server. Raises KeysError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    certificate, key = folder / CERTIFICATE, folder / KEY
    for path in (certificate, key):
        if not path.is_file():
            raise KeysError(f"there is no {path}; make it: asyncfl live keys {folder} --host NAME")
    try:
        context.load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise KeysError(f"{key} is not the key of {certificate}") from None
        raise KeysError(f"{certificate} and {key} are no certificate and key: {error.reason or error}") from None
    except OSError as error:
        raise KeysError(f"cannot read {certificate} and {key}: {system_says(error)}") from None
    return context


def client_context(certificate: Path | None) -> ssl.SSLContext:
    """Return the TLS context of a client. `certificate`: of its server; None: the authorities that this machine trusts.

    Raises KeysError.
    """
    try:
        context = ssl.create_default_context(cafile=None if certificate is None else str(certificate))
    except ssl.SSLError as error:
        raise KeysError(f"{certificate} is no certificate: {error.reason or error}") from None
    except OSError as error:
        raise KeysError(f"cannot read {certificate}: {system_says(error)}") from None
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context
