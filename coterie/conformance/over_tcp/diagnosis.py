"""What listens at an address, said in one sentence if it is not a Kafka broker."""

import asyncio
import ssl
import struct

from coterie.address import Address

# How long something that listens has to answer. A broker answers ApiVersions within milliseconds.
ANSWER_LIMIT_S = 5.0
# How long other kinds of servers have to answer, when the first request was not.
PROBE_LIMIT_S = 2.0
# How long after a refused connection another one is tried.
_SECOND_CHANCE_S = 0.2
_TLS_RECORDS = (b"\x15\x03", b"\x16\x03")
# ApiVersions version 0, which every broker since 0.10 answers: key 18, correlation id 1, client "".
_API_VERSIONS = struct.pack(">ihhih", 10, 18, 0, 1, 0)
_HTTP = b"GET / HTTP/1.0\r\n\r\n"
_OTHERS = {
    b"SSH-": "an SSH server",
    b"220 ": "a mail or FTP server",
    b"-ERR": "a Redis server",
    b"RFB ": "a VNC server",
}


async def find_obstacle(address: Address, context: ssl.SSLContext | None = None) -> str:
    """Return why the address cannot be checked, in one sentence; empty if a broker answers."""
    try:
        answer = await _answer(address, _API_VERSIONS, ANSWER_LIMIT_S, context)
    except TimeoutError:
        return await _silent(address)
    except OSError as error:
        reason = error.strerror or str(error) or type(error).__name__
        return f"No broker reached at {address}: {reason}."
    if len(answer) >= 10 and answer[4:8] == struct.pack(">i", 1):
        return ""
    return await _stranger(address, answer)


async def stopped(address: Address, context: ssl.SSLContext | None = None) -> str:
    """Return what a broker that was checked has stopped doing, listening or answering; or nothing.

    A broker that ends closes its connections and its listener within the same instant, in any
    order. So it must answer a request, and it gets two chances.
    """
    what = ""
    for pause_s in (0.0, _SECOND_CHANCE_S):
        await asyncio.sleep(pause_s)
        try:
            if await _answer(address, _API_VERSIONS, ANSWER_LIMIT_S, context):
                return ""
            what = "listening"
        except ConnectionError:
            what = "listening"
        except TimeoutError:
            what = "answering"
    return what


async def _silent(address: Address) -> str:
    """Say what accepts connections and does not answer a broker's request."""
    try:
        answer = await _answer(address, _HTTP, PROBE_LIMIT_S)
    except OSError:
        answer = b""
    if answer.startswith(b"HTTP/"):
        return _http(address)
    if await _speaks_tls(address):
        return _tls(address)
    return (
        f"Something at {address} accepts connections but has not answered ApiVersions within"
        f" {ANSWER_LIMIT_S:g} s: the broker hangs, or it is not a Kafka broker."
    )


async def _stranger(address: Address, answer: bytes) -> str:
    if answer.startswith(b"HTTP/"):
        return _http(address)
    if answer.startswith(_TLS_RECORDS) or await _speaks_tls(address):
        return _tls(address)
    for start, name in _OTHERS.items():
        if answer.startswith(start):
            return f"{name[0].upper()}{name[1:]} listens at {address}, not a Kafka broker."
    if not answer:
        try:
            if (await _answer(address, _HTTP, PROBE_LIMIT_S)).startswith(b"HTTP/"):
                return _http(address)
        except OSError:
            pass
        return (
            f"What listens at {address} closes the connection at ApiVersions:"
            " it is not a Kafka broker, or it expects SASL or TLS (--command-config)."
        )
    return f"What listens at {address} does not speak the Kafka protocol: it sent {answer[:16]!r}."


def _http(address: Address) -> str:
    return f"An HTTP server listens at {address}, not a Kafka broker."


def _tls(address: Address) -> str:
    return (
        f"A server that expects TLS listens at {address}; name the properties of a client"
        " with --command-config, or a PLAINTEXT listener."
    )


async def _answer(
    address: Address, data: bytes, limit_s: float, context: ssl.SSLContext | None = None
) -> bytes:
    """Return the first bytes that come after some were sent; empty if the connection is closed."""
    async with asyncio.timeout(limit_s):
        reader, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
        try:
            writer.write(data)
            return await reader.read(64)
        except ConnectionError:
            return b""
        finally:
            writer.close()


async def _speaks_tls(address: Address) -> bool:
    context = ssl.create_default_context()
    # Only the kind of server matters here; nothing is sent to it.
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(PROBE_LIMIT_S):
            _, writer = await asyncio.open_connection(address.host, address.port, ssl=context)
            writer.close()
    except ssl.SSLError as error:
        # A refusal in TLS, for example of a missing client certificate, comes from a TLS server.
        return "ALERT" in error.reason
    except (OSError, TimeoutError):
        return False
    return True
