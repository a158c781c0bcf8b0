"""The guest's side of the door: it lives in every snapshot, fetches one job per turn and answers with plain data.

Nothing here guards anything against the code it runs: that code shares this interpreter and may rewrite all of it.
What it cannot do is reach the other interpreter, where the tests are. The host trusts an answer only as plain data.
"""

import ast
import atexit
import builtins
import collections
import functools
import linecache
import random
import struct
import sys
import traceback
import types

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
_LISTS = {list: b"L", tuple: b"U", set: b"E", frozenset: b"Z"}
_DICTS = frozenset({dict, collections.OrderedDict, collections.defaultdict, collections.Counter})


def encode(value):
    """The bytes of a value made of exact built-in types; refuses everything else."""
    out = []
    budget = [NODES_MAX, BYTES_MAX]
    _encode(value, out, budget, 0)
    return b"".join(out)


def _put(out, budget, tag, body):
    budget[1] -= len(body) + 5
    if budget[1] < 0:
        raise Unserialisable(f"larger than {BYTES_MAX} bytes")
    out.append(tag)
    out.append(_length(len(body)))
    out.append(body)


def _encode(value, out, budget, depth):
    budget[0] -= 1
    if budget[0] < 0:
        raise Unserialisable(f"more than {NODES_MAX} values")
    if depth > DEPTH_MAX:
        raise Unserialisable(f"nested deeper than {DEPTH_MAX} levels, or containing itself")
    kind = type(value)
    if kind is int:
        _put(out, budget, b"I", value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))
    elif kind is str:
        _put(out, budget, b"S", value.encode("utf-8", "surrogatepass"))
    elif value is None:
        out.append(b"N")
    elif kind is bool:
        out.append(b"T" if value else b"F")
    elif kind is float:
        out.append(b"D")
        out.append(_double(value))
    elif kind in _LISTS:
        if len(value) > budget[0]:
            raise Unserialisable(f"more than {NODES_MAX} values")
        out.append(_LISTS[kind])
        out.append(_length(len(value)))
        for item in tuple(value):
            _encode(item, out, budget, depth + 1)
    elif kind in _DICTS:
        if len(value) > budget[0]:
            raise Unserialisable(f"more than {NODES_MAX} values")
        out.append(b"M")
        pairs = tuple(dict.items(value))
        out.append(_length(len(pairs)))
        for key, item in pairs:
            _encode(key, out, budget, depth + 1)
            _encode(item, out, budget, depth + 1)
    elif kind is bytes or kind is bytearray:
        _put(out, budget, b"B", bytes(value))
    elif kind is complex:
        out.append(b"C")
        out.append(_double(value.real))
        out.append(_double(value.imag))
    else:
        _encode(_plain(value, kind), out, budget, depth + 1)


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


def decode(frame):
    """The value of a frame the host wrote: trusted, and within the limits above."""
    value, _ = _decode(frame, 0)
    return value


def _decode(frame, at):
    tag = frame[at]
    at += 1
    if tag == 78:  # N
        return None, at
    if tag == 84:  # T
        return True, at
    if tag == 70:  # F
        return False, at
    if tag == 68:  # D
        return struct.unpack_from("<d", frame, at)[0], at + 8
    if tag == 67:  # C
        return complex(*struct.unpack_from("<dd", frame, at)), at + 16
    count = int.from_bytes(frame[at : at + 4], "little")
    at += 4
    if tag == 83:  # S
        return frame[at : at + count].decode("utf-8", "surrogatepass"), at + count
    if tag == 73:  # I
        return int.from_bytes(frame[at : at + count], "little", signed=True), at + count
    if tag == 66:  # B
        return frame[at : at + count], at + count
    if tag == 77:  # M
        pairs = {}
        for _ in range(count):
            key, at = _decode(frame, at)
            pairs[key], at = _decode(frame, at)
        return pairs, at
    items = []
    for _ in range(count):
        item, at = _decode(frame, at)
        items.append(item)
    if tag == 76:  # L
        return items, at
    if tag == 85:  # U
        return tuple(items), at
    if tag == 69:  # E
        return set(items), at
    return frozenset(items), at


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


def _trace(error, source, name):
    """The traceback below the harness's own frame, as the interpreter would print it."""
    try:
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        skipped = error.__traceback__.tb_next if error.__traceback__ is not None else None
        return "".join(traceback.format_exception(type(error), error, skipped, limit=-20))
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


def program(seed, source):
    """Runs a program as `__main__`."""
    _seed(seed)
    space = _module("__main__")
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


def load(seed, source, entry_point):
    """Runs the code under test as the module `solution` and says whether it defines the entry point."""
    _seed(seed)
    _player["source"] = source
    try:
        code = compile(source, "<solution>", "exec")
    except BaseException as error:
        return ("compile", _one_line(error))
    space = _player["space"] = _module("solution")
    try:
        exec(code, space)
    except SystemExit as stop:
        return ("exit", _exit_code(stop))
    except BaseException as error:
        return _raised(error, source, "<solution>")
    if entry_point not in space:
        return ("missing", f"`{entry_point}` is not defined")
    if not callable(space[entry_point]):
        return ("missing", f"`{entry_point}` is not callable")
    return ("loaded",)


def call(name, args, kwargs):
    """Calls a function of the code under test; the answer is plain data."""
    try:
        value = _player["space"][name](*args, **kwargs)
    except SystemExit as stop:
        return ("exit", _exit_code(stop))
    except BaseException as error:
        return _raised(error, _player["source"], "<solution>")
    return ("value", value)


def names(wanted):
    """What each of the names is in the code under test: absent, a function, a module, or plain data."""
    found = []
    space = _player["space"]
    for name in wanted:
        if name not in space:
            found.append(("absent", None))
        elif isinstance(space[name], types.ModuleType):
            found.append(("module", str(space[name].__name__)))
        elif callable(space[name]):
            found.append(("function", None))
        else:
            try:
                encode(space[name])
                found.append(("data", space[name]))
            except Unserialisable:
                found.append(("absent", None))
    return ("value", found)


