"""A whole guest of capd in Python, to copy from: it restores a locator, looks around, reads, writes on a condition, streams, and gives a part away.

    pip install pycapnp cryptography        (pycapnp 2; with Debian's libcapnp-dev it builds from source)
    python3 guest.py SCHEMA_DIR LOCATOR
"""

import asyncio
import base64
import hashlib
import os
import re
import ssl
import sys
import urllib.parse

import capnp

capnp.remove_import_hook()


def parse_locator(text):
    """Returns where a locator leads: (path of a socket, None) or ((host, port), digest of its key); and the secret."""
    m = re.fullmatch(r"capnp://([^@]+)@([^/]*)(/.*)?/([A-Za-z0-9_-]{43})", text)
    if not m:
        raise ValueError("this is no locator")
    key, address, path, secret = m.groups()
    secret = base64.urlsafe_b64decode(secret + "=")
    if key == "insecure":
        return urllib.parse.unquote(path), None, secret
    host, _, port = address.rpartition(":")
    return (host.strip("[]"), int(port)), key.removeprefix("sha-256:"), secret


class Pinned(ssl.SSLObject):
    """A TLS connection whose handshake fails unless the host's key has the digest."""

    digest = None

    def do_handshake(self):
        super().do_handshake()
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        certificate = x509.load_der_x509_certificate(self.getpeercert(binary_form=True))
        key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
        if base64.urlsafe_b64encode(hashlib.sha256(key).digest()).decode().rstrip("=") != self.digest:
            raise ssl.SSLError("this is another host than the locator names")


async def connect(where, digest):
    """Connects to a host. Over TLS nothing is sent before the host's key is the one that the locator names."""
    if digest is None:
        return await capnp.AsyncIoStream.create_unix_connection(where)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE  # the pinned key counts, and nothing else
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["capnp"])
    context.sslobject_class = type("", (Pinned,), {"digest": digest})
    return await capnp.AsyncIoStream.create_connection(*where, ssl=context)


def code(error):
    """Returns the code of a refusal by the host, or None for another error, such as a lost connection."""
    m = re.search(r"capd: ([A-Za-z]+)", str(error))
    return m and m.group(1)


async def refused(what, promise):
    try:
        await promise
    except capnp.KjException as error:
        print(f"{what}refused {code(error)}")
        return
    raise AssertionError("it was not refused")


async def main(schemas, locator):
    # The schemas of Cap'n Proto itself are beside pycapnp, or where Debian's libcapnp-dev has them.
    standard = [os.path.dirname(os.path.dirname(capnp.__file__)), "/usr/include"]
    guest = capnp.load(os.path.join(schemas, "guest.capnp"), imports=standard)

    class Counter(guest.Sink.Server):
        """A sink: the host sends it the content of a file."""

        size = 0

        async def write(self, data, **_):
            self.size += len(data)

        async def done(self, **_):
            pass

    where, digest, secret = parse_locator(locator)
    stream = await connect(where, digest)
    session = capnp.TwoPartyClient(stream).bootstrap().cast_as(guest.Session)

    # Restore the locator. Calls on the result are made at once: all of this is one round trip.
    dir = session.restoreDir(secret=secret).dir

    # List, a page at a time.
    count, last, more = 0, b"", True
    while more:
        page = await dir.list(limit=2, after=last)
        for entry in page.entries:
            print("entry", entry.name)
            count += 1
            last = entry.rawName or entry.name.encode()  # names are bytes; rawName is set if they are not UTF-8
        more = page.more

    # Read, and write only if nobody else has changed the file since.
    file = dir.openFile(path="notes.txt").file
    read = await file.readText()
    print("read", read.text)
    await file.writeText(text=read.text + " and more", ifVersion={"equals": read.version})

    # The same again is a conflict, since the version is another one now.
    await refused("", file.writeText(text="lost", ifVersion={"equals": read.version}))

    # Write a large file: stage it, send pieces, and commit.
    writer = dir.stage(path="large").writer
    for i in range(8):
        await writer.write(data=bytes([i]) * (256 << 10))  # returns when the next piece may be sent
    await writer.commit()

    # Read it as a stream.
    counter = Counter()
    sent = await dir.openFile(path="large").file.stream(sink=counter)
    assert sent.bytes == counter.size
    print("streamed", sent.bytes, "bytes")

    # Give somebody else a part of it, to read only, until it is revoked.
    sub = dir.subDir(path="sub").dir.readOnly().dir
    given = await session.share(ref={"dir": sub})
    theirs = session.restoreDir(secret=given.secret).dir
    await refused("a share ", theirs.put(path="new"))
    await given.revoker.revoke()
    await refused("a share ", theirs.list())
    print("end", count)


if __name__ == "__main__":
    asyncio.run(capnp.run(main(*sys.argv[1:])))
