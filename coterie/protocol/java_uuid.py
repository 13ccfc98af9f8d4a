"""Java's random UUIDs as text; generated member ids end with one."""

# What the digit with the variant becomes, by its four random bits: its first two bits are 10.
_VARIANT_1 = "89ab" * 4


def random_uuid(random: bytes) -> str:
    """Return a UUID of version 4.

    Args:
        random: 16 random bytes.
    """
    digits = random.hex()
    variant = _VARIANT_1[random[8] >> 4]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
