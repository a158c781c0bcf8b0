"""The guest's side of the door: it lives in every snapshot, fetches one job per turn and answers with plain data.

Nothing here guards anything against the code it runs: that code shares this interpreter and may rewrite all of it.
What it cannot do is reach the other interpreter, where the tests are. The host trusts an answer only as plain data.
"""

import ast
import atexit
import builtins
import collections
import contextlib
import datetime
import decimal
import fractions
import functools
import inspect
import linecache
import marshal
import numbers
import operator
import random
import re
import struct
import sys
import traceback
import types
import unittest
import uuid

import _host

DEPTH_MAX = 100
NODES_MAX = 1_000_000
BYTES_MAX = 8 << 20
REPR_MAX = 400
TEXT_MAX = 4000


class Unserialisable(Exception):
    """The value has no plain form."""


# --- Plain data as bytes: one tag, then what the tag says. `data/codec.rs` is the other side. ---

_length = struct.Struct("<I").pack
_double = struct.Struct("<d").pack


class Out:
    """A frame being written. `border` adds what only the two guests tell each other (see `Border`)."""

    __slots__ = ("parts", "nodes", "room", "table", "border", "labels", "kept")

    def __init__(self, border=None):
        self.parts = []
        self.nodes = NODES_MAX
        self.room = BYTES_MAX
        self.border = border
        self.table = _PLAIN if border is None else _BORDER
        # Mutable containers already written, by identity, and the containers themselves so that no identity is reused.
        self.labels = {}
        self.kept = []

    def put(self, value, depth=0):
        self.nodes -= 1
        if self.nodes < 0:
            raise Unserialisable(f"more than {NODES_MAX} values")
        kind = type(value)
        write = self.table.get(kind)
        if write is not None:
            write(self, value, depth)
        elif value is None:
            self.parts.append(b"N")
        elif self.border is None or not self.border.put(self, value, kind, depth):
            self.put(_plain(value, kind), depth + 1)

    def bytes(self, tag, body):
        count = len(body)
        self.room -= count + 5
        if self.room < 0:
            raise Unserialisable(f"larger than {BYTES_MAX} bytes")
        self.parts += (tag, _length(count), body)

    def items(self, tag, items, depth):
        self.open(tag, len(items), depth)
        for item in items:
            self.put(item, depth + 1)

    def pairs(self, pairs, depth):
        self.open(b"M", len(pairs), depth)
        for key, item in pairs:
            self.put(key, depth + 1)
            self.put(item, depth + 1)

    def copied(self, items):
        """The items as they are now, unless they are too many to be written."""
        if len(items) > self.nodes:
            raise Unserialisable(f"more than {NODES_MAX} values")
        return tuple(items)

    def open(self, tag, count, depth):
        if depth >= DEPTH_MAX:
            raise Unserialisable(f"nested deeper than {DEPTH_MAX} levels, or containing itself")
        if count > self.nodes:
            raise Unserialisable(f"more than {NODES_MAX} values")
        self.parts += (tag, _length(count))

    def frame(self):
        return b"".join(self.parts)


def _put_int(out, value, depth):
    out.bytes(b"I", value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))


def _put_str(out, value, depth):
    out.bytes(b"S", value.encode("utf-8", "surrogatepass"))


def _put_bytes(out, value, depth):
    out.bytes(b"B", bytes(value))


def _put_bool(out, value, depth):
    out.parts.append(b"T" if value else b"F")


def _put_float(out, value, depth):
    out.parts += (b"D", _double(value))


def _put_complex(out, value, depth):
    out.parts += (b"C", _double(value.real), _double(value.imag))


def _put_list(out, value, depth):
    out.items(b"L", out.copied(value), depth)


def _put_tuple(out, value, depth):
    out.items(b"U", value, depth)


def _put_set(out, value, depth):
    out.items(b"E", out.copied(value), depth)


def _put_frozenset(out, value, depth):
    out.items(b"Z", out.copied(value), depth)


def _put_dict(out, value, depth):
    out.pairs(out.copied(dict.items(value)), depth)


_PLAIN = {
    int: _put_int,
    str: _put_str,
    bool: _put_bool,
    float: _put_float,
    list: _put_list,
    tuple: _put_tuple,
    dict: _put_dict,
    set: _put_set,
    frozenset: _put_frozenset,
    bytes: _put_bytes,
    bytearray: _put_bytes,
    complex: _put_complex,
    collections.OrderedDict: _put_dict,
    collections.defaultdict: _put_dict,
    collections.Counter: _put_dict,
}


def encode(value):
    """The bytes of a value made of exact built-in types; refuses everything else."""
    out = Out()
    out.put(value)
    return out.frame()


def _plain(value, kind):
    """NumPy's arrays and scalars as lists and numbers. Their attributes are read off NumPy's own types."""
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        if kind is numpy.ndarray:
            if value.size > NODES_MAX:
                raise Unserialisable(f"more than {NODES_MAX} values")
            return value.tolist()
        if issubclass(kind, numpy.generic) and kind.__module__ == "numpy":
            plain = value.tolist()
            if type(plain) is not kind:
                return plain
    raise Unserialisable(f"an object of type {kind.__module__}.{kind.__qualname__} is not plain data")


class Malformed(Exception):
    """A frame that no harness writes."""


class In:
    """A frame being read. The host checks those it passes on; what one guest tells the other is checked here."""

    __slots__ = ("data", "at", "border", "known")

    def __init__(self, data, border=None, known=()):
        self.data = data
        self.at = 0
        self.border = border
        self.known = list(known)

    def count(self):
        at = self.at
        self.at = at + 4
        return int.from_bytes(self.data[at : at + 4], "little")

    def body(self):
        count = self.count()
        at = self.at
        self.at = at + count
        if self.at > len(self.data):
            raise Malformed("cut")
        return self.data[at : at + count]

    def double(self):
        at = self.at
        self.at = at + 8
        return struct.unpack_from("<d", self.data, at)[0]

    def items(self, depth):
        count = self.count()
        if count > len(self.data) - self.at:
            raise Malformed("cut")
        return [self.value(depth + 1) for _ in range(count)]

    def pairs(self, depth, into):
        for _ in range(self.count()):
            key = self.value(depth + 1)
            into[key] = self.value(depth + 1)
        return into

    def new(self, container):
        """A mutable container gets the next label, as it did when it was written."""
        self.known.append(container)
        return container

    def value(self, depth=0):
        if depth > DEPTH_MAX + 10:
            raise Malformed("deep")
        data, at = self.data, self.at
        tag = data[at]
        if tag == 73 or tag == 83:  # I, S
            start = at + 5
            self.at = end = start + int.from_bytes(data[at + 1 : start], "little")
            if end > len(data):
                raise Malformed("cut")
            if tag == 73:
                return int.from_bytes(data[start:end], "little", signed=True)
            return data[start:end].decode("utf-8", "surrogatepass")
        self.at = at + 1
        if tag == 76:  # L
            if self.border is None:
                return self.items(depth)
            made = self.new([])
            made += self.items(depth)
            return made
        if tag == 85:  # U
            return tuple(self.items(depth))
        if tag == 78:  # N
            return None
        if tag == 84:  # T
            return True
        if tag == 70:  # F
            return False
        if tag == 68:  # D
            return self.double()
        if tag == 77:  # M
            return self.pairs(depth, self.new({}))
        if tag == 69:  # E
            made = self.new(set())
            made.update(self.items(depth))
            return made
        if tag == 66:  # B
            return self.body()
        if tag == 67:  # C
            return complex(self.double(), self.double())
        if tag == 90:  # Z
            return frozenset(self.items(depth))
        if self.border is None:
            raise Malformed("tag")
        return self.border.get(self, tag, depth)


def decode(frame):
    """The value of a frame the host wrote."""
    return In(frame).value()


# --- What both sides need ---


def _seed(seed):
    """Randomness was frozen with the snapshot: start it anew. `os.urandom` is the host's, seeded as well."""
    random.seed(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed & 0xFFFFFFFF)


def _module(name):
    module = types.ModuleType(name)
    module.__dict__["__builtins__"] = builtins
    sys.modules[name] = module
    return module.__dict__


def _exit_code(stop):
    code = stop.code
    if code is None:
        return 0
    if isinstance(code, int):
        return int(code) & 0xFF
    sys.stderr.write(f"{code}\n")
    return 1


def _one_line(error):
    try:
        text = str(error)
    except BaseException:
        text = "(its text cannot be made)"
    return f"{type(error).__name__}: {text}"[:TEXT_MAX] if text else type(error).__name__


def _remember(source, name):
    """Lets tracebacks show the lines of a source that is no file."""
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)


def _trace(error, source, name):
    """The traceback below the harness's own frames, as the interpreter would print it."""
    try:
        _remember(source, name)
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == "<harness>":
            trace = trace.tb_next
        return "".join(traceback.format_exception(type(error), error, trace, limit=-20))
    except BaseException:
        return _one_line(error) + "\n"


def _cut_repr(value):
    try:
        text = repr(value)
    except BaseException as error:
        text = f"({type(value).__name__} whose repr fails: {type(error).__name__})"
    return text if len(text) <= REPR_MAX else text[:REPR_MAX] + "…"


def _raised(error, source, name):
    text = _trace(error, source, name)
    sys.stderr.write(text)
    return (
        "raised",
        type(error).__name__,
        [kind.__name__ for kind in type(error).__mro__],
        _one_line(error),
        text[-TEXT_MAX:],
    )


# --- Programs on their own, and the player's half of a judgement ---


def program(seed, source, arguments=()):
    """Runs a program as `__main__`, in the directory of its files."""
    _seed(seed)
    sys.argv[:] = ["program.py", *arguments]
    sys.path.insert(0, "/work")
    space = _module("__main__")
    _remember(source, "<program>")
    try:
        exec(compile(source, "<program>", "exec"), space)
        answer = ("end",)
    except SystemExit as stop:
        answer = ("exit", _exit_code(stop))
    except BaseException as error:
        answer = _raised(error, source, "<program>")
    try:
        atexit._run_exitfuncs()
    except BaseException:
        pass
    return answer


_player = {}


def load(seed, source, entry_point, module="solution"):
    """Runs the code under test as a module and says whether it defines the entry point, where there is one."""
    _seed(seed)
    _player["source"] = source
    _remember(source, "<solution>")
    try:
        code = compile(source, "<solution>", "exec")
    except BaseException as error:
        return ("compile", _one_line(error))
    space = _player["space"] = _module(module)
    try:
        exec(code, space)
    except SystemExit as stop:
        return ("exit", _exit_code(stop))
    except BaseException as error:
        return _raised(error, source, "<solution>")
    if not entry_point:
        return ("loaded",)
    first = entry_point.partition(".")[0]
    if first not in space:
        return ("missing", f"`{first}` is not defined")
    if not callable(space[first]):
        return ("missing", f"`{first}` is not callable")
    return ("loaded",)


def call(name, args, kwargs):
    """Calls a function of the code under test; the answer is plain data. `Class.method` is called on a new instance."""
    try:
        first, *rest = name.split(".")
        target = _player["space"][first]
        for part in rest:
            target = getattr(target() if isinstance(target, type) else target, part)
        value = target(*args, **kwargs)
    except SystemExit as stop:
        return ("exit", _exit_code(stop))
    except BaseException as error:
        return _raised(error, _player["source"], "<solution>")
    return ("value", value)
