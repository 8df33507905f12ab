"""What is taken from `cryptography`, each with the standard of its constants; nothing of it is our own.

X25519: RFC 7748. HKDF with SHA-256: RFC 5869. AES with 256 bits in counter mode: FIPS 197, NIST SP 800-38A, from
counter zero under a key that is used once. AES-GCM with a random nonce of 96 bits: NIST SP 800-38D.
"""

from __future__ import annotations

import os

import numpy as np

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
except ImportError as error:
    raise ImportError("secure sums need cryptography: pip install cryptography, or the extra 'secure'") from error

from turnout.flower.secure.rules import RefusedError

PrivateKey = X25519PrivateKey

KEY_BYTES = 32
_NONCE_BYTES = 12
_LABEL = b"turnout secure sums 1"


def derive(secret: bytes, *purpose: bytes | str | int) -> bytes:
    """A key of 256 bits for one purpose."""
    parts = [part if isinstance(part, bytes) else str(part).encode() for part in purpose]
    told = b"".join(len(part).to_bytes(4, "big") + part for part in (_LABEL, *parts))
    return HKDF(hashes.SHA256(), KEY_BYTES, salt=None, info=told).derive(secret)


def mask_from(key: bytes, size: int) -> np.ndarray:
    """So many uniform numbers of 32 bits, the same on every machine, from a key that is used for nothing else."""
    zeros = np.zeros(size, np.uint32)
    encryptor = Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()
    return np.frombuffer(encryptor.update(zeros.data.cast("B")), "<u4")


def new_secret() -> bytes:
    """A key of 256 bits that nobody knows."""
    return os.urandom(KEY_BYTES)


def private_key(secret: bytes) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(secret)


def public_bytes(key: X25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


def agree(own: X25519PrivateKey, other: bytes, *purpose: bytes | str | int) -> bytes:
    """The key that two clients have in common; refused where the other's key leaves nothing secret."""
    try:
        return derive(own.exchange(X25519PublicKey.from_public_bytes(other)), *purpose)
    except ValueError as error:
        raise RefusedError("a public key is of no use") from error


def seal(key: bytes, content: bytes, about: bytes) -> bytes:
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, content, about)


def unseal(key: bytes, box: bytes, about: bytes) -> bytes:
    """The content of a box, refused if it was made for somebody else or changed on the way."""
    try:
        return AESGCM(key).decrypt(box[:_NONCE_BYTES], box[_NONCE_BYTES:], about)
    except (InvalidTag, ValueError) as error:
        raise RefusedError("a box with shares does not open: it is another's, or was changed") from error
