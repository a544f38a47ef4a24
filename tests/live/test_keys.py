"""Certificates and tokens: permissions, checks, and messages about wrong ones."""

import asyncio
import ssl
from pathlib import Path

import pytest

from asyncfl.base.errors import OutputError, ScenarioError
from asyncfl.live.connections import Connection, EndedError, UntrustedError, listening, to
from asyncfl.live.keys import KeysError, client_context, make_keys, read_token, read_tokens, server_context


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    make_keys(tmp_path / "keys", ["localhost", "127.0.0.1"], ["ann", "bob"], 30)
    return tmp_path / "keys"


def test_keys_are_readable_by_their_owner_only_and_existing_ones_are_kept(keys: Path) -> None:
    files = [path for path in keys.rglob("*") if path.is_file()]
    assert {path.name for path in files} == {"certificate.pem", "key.pem", "ann.token", "bob.token"}
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in files)
    assert all(path.stat().st_mode & 0o777 == 0o700 for path in (keys, keys / "clients"))
    tokens = read_tokens(keys)
    assert set(tokens) == {"ann", "bob"}
    assert len(set(tokens.values())) == 2
    assert min(map(len, tokens.values())) >= 43
    before = {path: path.read_bytes() for path in files}
    [new] = make_keys(keys, [], ["ann", "cid"], 30)
    assert new.name == "cid.token"
    assert {path: path.read_bytes() for path in files} == before


def test_invalid_names_are_refused_and_nothing_is_written(tmp_path: Path, keys: Path) -> None:
    folder = tmp_path / "new"
    with pytest.raises(ScenarioError, match="--host: must name the server as clients will call it"):
        make_keys(folder, [], ["ann"], 30)
    with pytest.raises(ScenarioError, match="--host: must be a name or an address, without port, got 'a b'"):
        make_keys(folder, ["a b"], [], 30)
    with pytest.raises(ScenarioError, match=r"--client: must be letters, digits, . _ or -, got '../ann'"):
        make_keys(folder, ["localhost"], ["../ann"], 30)
    assert not folder.exists()
    with pytest.raises(ScenarioError, match=r"--host: must be left out: .*is there"):
        make_keys(keys, ["other.example.org"], [], 30)
    (keys / "key.pem").unlink()
    with pytest.raises(ScenarioError, match=r"has one of certificate.pem and key.pem"):
        make_keys(keys, [], ["cid"], 30)


def test_shared_and_malformed_tokens_are_refused(keys: Path) -> None:
    ann, bob = (keys / "clients" / f"{name}.token" for name in ("ann", "bob"))
    name, token = read_token(ann)
    bob.write_text(f"bob:{token}")
    with pytest.raises(KeysError, match=r"ann.token and .*bob.token have one token: each client needs its own"):
        read_tokens(keys)
    bob.write_text(f"ann:{token[::-1]}")
    with pytest.raises(KeysError, match=r"ann.token and .*bob.token have one name"):
        read_tokens(keys)
    bob.write_text("bob:short")
    with pytest.raises(KeysError, match=r"bob.token must hold a client's name, a colon and its token"):
        read_tokens(keys)
    with pytest.raises(KeysError, match="no tokens of clients; make them: asyncfl live keys"):
        read_tokens(keys / "clients")
    assert name == "ann"


def test_a_key_of_another_certificate_is_refused(tmp_path: Path, keys: Path) -> None:
    make_keys(tmp_path / "other", ["localhost"], [], 30)
    (keys / "key.pem").write_bytes((tmp_path / "other" / "key.pem").read_bytes())
    with pytest.raises(KeysError, match=r"key.pem is not the key of .*certificate.pem"):
        server_context(keys)
    (keys / "key.pem").write_text("nothing")
    with pytest.raises(KeysError, match=r"are no certificate and key: .*PEM"):
        server_context(keys)
    with pytest.raises(KeysError, match=r"there is no .*certificate.pem; make it: asyncfl live keys"):
        server_context(tmp_path)
    with pytest.raises(KeysError, match=r"key.pem is no certificate"):
        client_context(keys / "key.pem")
    with pytest.raises(KeysError, match="cannot read"):
        client_context(tmp_path / "none.pem")


def test_a_client_refuses_a_server_without_the_right_certificate(tmp_path: Path, keys: Path) -> None:
    make_keys(tmp_path / "other", ["localhost", "127.0.0.1"], [], 30)
    make_keys(tmp_path / "elsewhere", ["fed.example.org"], [], 30)

    async def echo(connection: Connection) -> None:
        await connection.send(await connection.receive())

    async def plainly(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        writer.close()

    async def main() -> None:
        async with listening(echo, "127.0.0.1", 0, 1000, server_context(keys)) as port:
            url = f"wss://127.0.0.1:{port}"
            connection = await to(url, 1000, client_context(keys / "certificate.pem"))()
            await connection.send(b"here")
            assert await connection.receive() == b"here"
            await connection.close()
            for context in (client_context(tmp_path / "other" / "certificate.pem"), client_context(None)):
                with pytest.raises(UntrustedError, match="has not the certificate that it should have: self"):
                    await to(url, 1000, context)()
            with pytest.raises(EndedError, match="cannot connect"):
                await to(f"ws://127.0.0.1:{port}", 1000)()
        folder = tmp_path / "elsewhere"
        async with listening(echo, "127.0.0.1", 0, 1000, server_context(folder)) as port:
            with pytest.raises(UntrustedError, match="IP address mismatch"):
                await to(f"wss://127.0.0.1:{port}", 1000, client_context(folder / "certificate.pem"))()
        async with await asyncio.start_server(plainly, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(UntrustedError, match=r"cannot be talked to with TLS: [A-Z_]+$"):
                await to(f"wss://127.0.0.1:{port}", 1000, client_context(keys / "certificate.pem"))()

    asyncio.run(main())


def test_a_certificate_names_its_server_and_ends(tmp_path: Path, keys: Path) -> None:
    from cryptography import x509

    certificate = x509.load_pem_x509_certificate((keys / "certificate.pem").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost"]
    assert [str(one) for one in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1"]
    assert (certificate.not_valid_after_utc - certificate.not_valid_before_utc).days == 31
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert server_context(keys).minimum_version is ssl.TLSVersion.TLSv1_3


@pytest.mark.parametrize(
    ("host", "good"),
    [
        ("a" * 63 + ".org", True),
        ("a" * 64 + ".org", False),
        ("*.example.org", True),
        ("-example.org", False),
        ("::1", True),
        ("example.org:8000", False),
    ],
)
def test_names_of_servers(tmp_path: Path, host: str, good: bool) -> None:
    if good:
        assert len(make_keys(tmp_path / "keys", [host], [], 1)) == 2
    else:
        with pytest.raises(ScenarioError, match="--host: must be a name or an address, without port"):
            make_keys(tmp_path / "keys", [host], [], 1)


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("ann:" + "s" * 22, True),
        ("ann:" + "s" * 21, False),
        ("ann:" + "s" * 201, False),
        ("a" * 100 + ":" + "s" * 30, False),
        ("_ann:" + "s" * 30, False),
        ("ann" + "s" * 30, False),
    ],
)
def test_a_token_file_holds_a_name_and_a_long_token(tmp_path: Path, text: str, good: bool) -> None:
    (tmp_path / "one.token").write_text(f" {text}\n")
    if good:
        assert ":".join(read_token(tmp_path / "one.token")) == text
    else:
        with pytest.raises(KeysError, match="must hold a client's name, a colon and its token"):
            read_token(tmp_path / "one.token")


def test_a_folder_that_cannot_be_written_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match=rf"^cannot write {tmp_path / 'file'}: File exists$"):
        make_keys(tmp_path / "file", ["localhost"], [], 30)
