# --- The judge's half: the tests, alone with proxies of the code under test ---


class _Checks:
    """Rewrites every `assert` so that its evaluation is counted and its two sides are kept.

    Asserts that stand directly in the module or in `check` must run for a pass; others may lie on paths not taken.
    """

    def __init__(self, source):
        self.source = source
        self.nodes = []
        self.declared = set()

    def code(self):
        tree = ast.parse(self.source, "<tests>")
        self.rewrite(tree.body, True)
        return compile(tree, "<tests>", "exec")

    def rewrite(self, body, must_run):
        for index, node in enumerate(body):
            if type(node) is ast.Assert:
                if must_run:
                    self.declared.add(len(self.nodes))
                body[index] = self.counted(node)
                continue
            direct = must_run and type(node) is ast.FunctionDef and node.name == "check"
            for field in ("body", "orelse", "finalbody"):
                part = getattr(node, field, None)
                if part:
                    self.rewrite(part, direct)
            for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
                self.rewrite(part.body, False)

    def counted(self, node):
        test = node.test
        number = len(self.nodes)
        self.nodes.append((node.lineno, node.end_lineno))
        at = {
            "lineno": node.lineno,
            "col_offset": node.col_offset,
            "end_lineno": node.end_lineno,
            "end_col_offset": node.end_col_offset,
        }
        sides = []
        if type(test) is ast.Compare and len(test.ops) == 1:
            test.left = ast.NamedExpr(ast.Name("_rh_left", ast.Store(), **at), test.left, **at)
            test.comparators[0] = ast.NamedExpr(ast.Name("_rh_right", ast.Store(), **at), test.comparators[0], **at)
            sides = [ast.Name("_rh_left", ast.Load(), **at), ast.Name("_rh_right", ast.Load(), **at)]
        arguments = [ast.Constant(number, **at), test, *sides]
        check = ast.Call(ast.Name("_rh_check", ast.Load(), **at), arguments, [], **at)
        return ast.Assert(check, node.msg, **at)

    def line(self, number):
        """The source of an assert."""
        first, last = self.nodes[number]
        return " ".join(" ".join(self.source.splitlines()[first - 1 : last]).split())[:REPR_MAX]


class _Space(dict):
    """The tests' names. One they do not define is a built-in, or else is asked for once where the code under test is."""

    def __init__(self, find):
        super().__init__()
        self._find = find

    def __missing__(self, name):
        value = getattr(builtins, name, _ABSENT)
        if value is _ABSENT:
            value = self._find(name)
        if value is _ABSENT:
            raise KeyError(name)
        self[name] = value
        return value


_ABSENT = object()

# Under which names tests may find a module that only the code under test has imported: its own, or the usual short one.
# Any other would let that code choose what the tests compute with.
_MODULES = {"np": "numpy", "pd": "pandas"}


class _Crossing:
    """The judge's calls of the code under test, and the errors that came back through them."""

    def __init__(self):
        self.calls = 0
        self.answers = 0
        self.errors = []

    def ask(self, *request):
        try:
            frame = encode(request)
        except Unserialisable as error:
            raise _TaskFault(f"an argument cannot cross to the code under test: {error}; use isolation = \"shared\"")
        answer = decode(_host.call(b"C" + frame))
        if answer[0] == "value":
            return answer[1]
        raise self.error(answer)

    def find(self, name):
        """A name of the code under test: a proxy for a function, the module of that name, or a copy of the data."""
        if name.startswith("_"):
            return _ABSENT
        [(kind, value)] = self.ask("names", [name])
        if kind == "function":
            return self.proxy(name)
        if kind == "module" and value == _MODULES.get(name, name):
            try:
                return __import__(value, fromlist=["_"])
            except ImportError:
                return _ABSENT
        if kind == "data":
            self.answers += 1
            return value
        return _ABSENT

    def error(self, answer):
        _, kind, bases, line, text = answer
        base = Exception
        for name in bases:
            found = getattr(builtins, name, None)
            if isinstance(found, type) and issubclass(found, Exception):
                base = found
                break
        if base.__name__ != kind and kind.isidentifier():
            base = type(kind, (base,), {})
        message = line.split(": ", 1)[1] if ": " in line else ""
        try:
            error = base(message)
        except Exception:
            error = RuntimeError(line)
        self.errors.append((error, line, text))
        return error

    def source_of(self, error):
        """The player's error behind one that ended the tests, through chains as well."""
        seen = 0
        while error is not None and seen < 50:
            for mine, line, text in self.errors:
                if mine is error:
                    return line, text
            error = error.__cause__ or error.__context__
            seen += 1
        return None

    def proxy(self, name):
        def crossing(*args, **kwargs):
            self.calls += 1
            value = self.ask("call", name, args, kwargs)
            self.answers += 1
            return value

        crossing.__name__ = crossing.__qualname__ = name
        return crossing


class _TaskFault(BaseException):
    """The tests cannot be run as the task says."""


class _Run:
    """One run of a test program: counts, and the assert that failed last."""

    def __init__(self, checks):
        self.checks = checks
        self.executed = set()
        self.failed = set()
        self.last = None

    def check(self, number, held, *sides):
        held = bool(held)
        self.executed.add(number)
        if not held:
            self.failed.add(number)
            self.last = (number, sides)
        return held

    def counts(self):
        if not self.checks.declared:
            return 1, 1
        done = self.executed & self.checks.declared
        return len(self.checks.declared), len(done)

    def failure(self, error):
        declared, executed = self.counts()
        executed = max(executed, 1)
        passed = max(executed - 1, 0)
        if isinstance(error, AssertionError) and self.last is not None:
            number, sides = self.last
            got, expected = (_cut_repr(sides[0]), _cut_repr(sides[1])) if sides else ("", "")
            return ("failed", declared, executed, passed, self.checks.line(number), expected, got)
        return ("failed", declared, executed, passed, self.last_line(error), "", _one_line(error))

    def last_line(self, error):
        """The line of the tests that an error came out of."""
        line, trace = 0, error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == "<tests>":
                line = trace.tb_lineno
            trace = trace.tb_next
        lines = self.checks.source.splitlines()
        return lines[line - 1].strip()[:REPR_MAX] if 0 < line <= len(lines) else type(error).__name__


def _run_tests(source, entry_point, target, crossing):
    """Runs the tests in a module of their own, with `target` as the tested function."""
    checks = _Checks(source)
    try:
        code = checks.code()
    except Exception as error:
        return ("task", f"the tests do not compile: {_one_line(error)}")
    run = _Run(checks)
    _module("tests")
    space = _Space(crossing.find)
    space.update({"__name__": "tests", "__builtins__": builtins, "_rh_check": run.check})
    space[entry_point] = space["candidate"] = target
    try:
        exec(code, space)
        if crossing.calls == 0 and callable(space.get("check")):
            space["check"](target)
    except SystemExit as stop:
        return ("exit", _exit_code(stop))
    except BaseException as error:
        return _verdict_of(error, run, crossing)
    declared, executed = run.counts()
    if crossing.calls == 0 and crossing.answers == 0:
        return ("task", "the tests never use the code under test")
    if not run.executed and not checks.declared:
        # Every assert lies on a path that was not taken: nothing was shown, so nothing can pass.
        return ("failed", declared, 0, 0, "no assert of the tests ran", "", "")
    return ("done", declared, executed)


def _verdict_of(error, run, crossing):
    """Whose fault it is that the tests ended with an error.

    One that the code under test raised is its own. Any other, once a value of it was in play, is a test that did not
    hold: `candidate(x) - 1` of a function that returns None must not put the task under suspicion. Before that only
    the tests can be at fault.
    """
    declared, executed = run.counts()
    behind = crossing.source_of(error)
    if behind is not None:
        return ("player", declared, executed, *behind)
    if isinstance(error, AssertionError) or crossing.answers > 0:
        return run.failure(error)
    if isinstance(error, _TaskFault):
        return ("task", str(error))
    return ("task", f"the tests raise {_trace(error, run.checks.source, '<tests>')[-TEXT_MAX:]}")


def judge(seed, source, entry_point):
    """Runs the tests against the player in the other interpreter."""
    _seed(seed)
    crossing = _Crossing()
    return _run_tests(source, entry_point, crossing.proxy(entry_point), crossing)


class _Beside(_Crossing):
    """The tests share this interpreter: names are the code's own, an error is its own where its frames are."""

    def __init__(self):
        super().__init__()
        self.answers = 1

    def find(self, name):
        return _player["space"].get(name, _ABSENT)

    def source_of(self, error):
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == "<solution>":
                return _one_line(error), _trace(error, _player["source"], "<solution>")
            trace = trace.tb_next
        return None


def shared(nonce, source, entry_point):
    """Runs the tests beside the code under test, which `load` has run before; only now is there a nonce to know."""
    crossing = _Beside()
    target = _player["space"][entry_point]

    def counted(*args, **kwargs):
        crossing.calls += 1
        return target(*args, **kwargs)

    tested = functools.wraps(target)(counted) if isinstance(target, types.FunctionType) else target
    return ("shared", nonce, _run_tests(source, entry_point, tested, crossing))


_JOBS = {"program": program, "load": load, "call": call, "names": names, "judge": judge, "shared": shared}


def turn():
    """One turn: fetch the job, do it, answer. The interpreter flushes the streams afterwards."""
    job = decode(_host.call(b"J"))
    answer = _JOBS[job[0]](*job[1:])
    try:
        frame = encode(answer)
    except Unserialisable as error:
        frame = encode(("unserialisable", str(error)))
    except BaseException as error:
        frame = encode(("unserialisable", _one_line(error)))
    _host.call(b"R" + frame)
