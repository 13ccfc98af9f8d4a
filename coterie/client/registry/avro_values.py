"""Values of Avro as JSON, by the schema they were written with.

The library is Apache's own, in Python: a value that was made to do harm ends in an error there.
fastavro is six times as fast, and ten kilobytes of such a value end its process (ADR 114).

Numbers, texts, lists and objects are those of JSON. Decimals, dates, times and UUIDs are texts, and
so are bytes: as UTF-8 if they are plain text, and else hexadecimal. A union is only its value.
"""

import io
import json
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import avro.errors
import avro.io
import avro.name
import avro.schema

from coterie.client.registry.plain import plain

# A logical type that the library does not know is its plain type.
warnings.filterwarnings("ignore", category=avro.errors.IgnoredLogicalType)


def avro_reader(text: str, references: Iterable[str]) -> Callable[[bytes], tuple[Any, str | None]]:
    """Return what reads values of a schema, each with the name of the schema.

    Args:
        text: the schema.
        references: the schemas that it needs, each after those that it needs itself.

    Raises:
        ValueError: it is no schema.
    """
    names = avro.name.Names(validate_names=False)
    try:
        for each in references:
            _parsed(each, names)
        schema = _parsed(text, names)
    except (avro.errors.AvroException, TypeError, KeyError, RecursionError) as error:
        raise ValueError(str(error)) from error

    name: str | None = getattr(schema, "fullname", None)

    def read(body: bytes) -> tuple[Any, str | None]:
        stream = io.BytesIO(body)
        # A reader counts what it reads, and several threads read.
        found = avro.io.DatumReader(schema).read(avro.io.BinaryDecoder(stream))
        if left := len(body) - stream.tell():
            raise ValueError(f"{left} bytes are left over")
        return plain(found), name

    return read


def _parsed(text: str, names: avro.name.Names) -> Any:
    return avro.schema.make_avsc_object(
        json.loads(text), names, validate_enum_symbols=False, validate_names=False
    )
