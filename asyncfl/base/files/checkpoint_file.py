"""File of a checkpoint: a header in one line of JSON, and a pickle that only the account that wrote it reads again.

    {"mac": ..., "asyncfl": ..., "scenario": ..., "seed": ..., "version": ...}\\n
    pickle

A pickle can run code where it is read. So the file carries a message authentication code (HMAC-SHA-256) with a secret
key of the user's account, and nothing of a file that somebody else has written, or edited, is unpickled.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from asyncfl.base.errors import OutputError, RunError, shortened, system_says
from asyncfl.base.files.atomic import atomic_file
from asyncfl.base.files.reading import check_ordinary

KEY_BYTES = 32
KEY_FILE = "ASYNCFL_CHECKPOINT_KEY"
"""Environment variable that names the file of the account's key."""
LONGEST_HEADER = 10_000


def write_checkpoint(path: Path, header: Mapping[str, Any], content: bytes | memoryview) -> None:
    """Write a checkpoint, completely or not at all. Raises OutputError."""
    mac = _mac(_key(), dict(header), content)
    with atomic_file(path, follow=False) as part, part.open("wb") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(json.dumps({"mac": mac, "asyncfl": package_digest(), **header}).encode() + b"\n")
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def read_checkpoint(path: Path, header: Mapping[str, Any]) -> tuple[dict[str, Any], bytes] | None:
    """Return the header and the pickle of a checkpoint; None without one. `header`: what it must say.

    Raises RunError for a checkpoint of something else, of other code, of another account, or a damaged one.
    """
    try:
        check_ordinary(path)
        with path.open("rb") as file:
            line, content = file.readline(LONGEST_HEADER), file.read()
        found = json.loads(line)
        mac, code = found.pop("mac"), found.pop("asyncfl")
        if not hmac.compare_digest(str(mac).encode(), _mac(_key(), found, content).encode()):
            raise RunError(f"{path} was not written by this account, or was damaged or edited since")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, AttributeError, TypeError, RecursionError) as error:
        reason = system_says(error) if isinstance(error, OSError) else "it is no checkpoint"
        raise RunError(f"{path} cannot be read: {reason}") from None
    if code != (ours := package_digest()):
        raise RunError(f"{path} was written by other code of asyncfl ({shortened(str(code))}, this is {ours})")
    for name, wanted in header.items():
        if found.get(name) != wanted:
            raise RunError(f"{path} is of another {name}: {shortened(str(found.get(name)))}, not {wanted}")
    return found, content


def _mac(key: bytes, header: dict[str, Any], content: bytes | memoryview) -> str:
    signed = hmac.new(key, json.dumps(header, sort_keys=True).encode() + b"\n", "sha256")
    signed.update(content)
    return signed.hexdigest()


def key_file() -> Path:
    """Return the file of the key: the one that `ASYNCFL_CHECKPOINT_KEY` names, or one in the account's state folder.

    Raises OutputError where the account has no home.
    """
    if named := os.environ.get(KEY_FILE):
        return Path(named)
    try:
        state = Path(os.environ.get("XDG_STATE_HOME") or "~/.local/state").expanduser()
    except RuntimeError:
        raise OutputError(f"there is no home folder for the key of checkpoints; name a file in {KEY_FILE}") from None
    return state / "asyncfl" / "checkpoint.key"


@cache
def _key() -> bytes:
    """Return the account's secret key, made when it is first needed. Raises OutputError."""
    try:
        path = key_file()
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = path.with_name(f"{path.name}.{os.getpid()}")
        if not path.exists():
            with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
                file.write(secrets.token_bytes(KEY_BYTES))
            with suppress(FileExistsError):  # another process was faster
                os.link(part, path)
            part.unlink()
        check_ordinary(path)
        with path.open("rb") as file:
            about, key = os.fstat(file.fileno()), file.read(KEY_BYTES + 1)
    except (OSError, RuntimeError) as error:
        reason = system_says(error) if isinstance(error, OSError) else str(error)
        raise OutputError(f"cannot keep the key of checkpoints in {path}: {reason}") from None
    if about.st_uid != os.geteuid() or about.st_mode & 0o077:
        raise OutputError(f"{path} must be a file that this account alone can read (chmod 600); remove it")
    if len(key) != KEY_BYTES:
        raise OutputError(f"{path} must hold {KEY_BYTES} bytes, got {len(key)}; remove it")
    return key


@cache
def package_digest() -> str:
    """Return 16 hexadecimal digits over the source code of this package."""
    root, digest = Path(__file__).parents[2], hashlib.sha256()
    for path in sorted(path for kind in ("py", "c", "h") for path in root.rglob(f"*.{kind}")):
        digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]
