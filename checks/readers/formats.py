"""Every format that can be read, most telling first: the first that recognises a file reads it."""

from checks.readers.format import Format
from checks.readers.native_json import NATIVE_JSON

FORMATS: tuple[Format, ...] = (NATIVE_JSON,)
"""Registered by hand."""
