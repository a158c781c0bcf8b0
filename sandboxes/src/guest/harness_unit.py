

# --- Test files in the manner of unittest and pytest ---


class _Skipped(BaseException):
    """`pytest.skip()` and its kin."""


class _SolutionModule(types.ModuleType):
    """The module under which a test file imports the code under test: every name of it lies across the border."""

    def __init__(self, name, border):
        types.ModuleType.__init__(self, name)
        types.ModuleType.__setattr__(self, "_rh_border", border)

    def __getattr__(self, name):
        if name == "__all__":
            return self._rh_border.request("names", MODULE)
        if name.startswith("__"):
            raise AttributeError(name)
        kind, value = self._rh_border.request("find", MODULE, (name,))
        if kind == "value":
            return value
        if kind == "module":
            found = sys.modules.get(value)
            if found is not None:
                return found
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __setattr__(self, name, value):
        if name.startswith("__"):
            types.ModuleType.__setattr__(self, name, value)
        else:
            self._rh_border.request("set", MODULE, (name, value))

    def __delattr__(self, name):
        self._rh_border.request("unset", MODULE, (name,))


class _Approx:
    """Equal within 1e-6 relatively or 1e-12 absolutely, or as told; sequences and dicts element by element."""

    def __init__(self, expected, rel=None, abs=None, nan_ok=False):
        self.expected, self.rel, self.abs, self.nan_ok = expected, rel, abs, nan_ok

    def __eq__(self, got):
        return self.close(got, self.expected)

    def __ne__(self, got):
        return not self.close(got, self.expected)

    __hash__ = None

    def __repr__(self):
        return f"approx({self.expected!r})"

    def close(self, got, expected):
        if isinstance(expected, dict):
            return isinstance(got, dict) and got.keys() == expected.keys() and all(
                self.close(got[key], expected[key]) for key in expected
            )
        if hasattr(expected, "tolist"):
            expected = expected.tolist()
        if hasattr(got, "tolist") and not isinstance(got, Remote):
            got = got.tolist()
        if isinstance(expected, (list, tuple)):
            return isinstance(got, (list, tuple)) and len(got) == len(expected) and all(map(self.close, got, expected))
        if isinstance(expected, bool) or not isinstance(expected, numbers.Number):
            return got == expected
        if isinstance(got, bool) or not isinstance(got, numbers.Number):
            return False
        if got == expected:
            return True
        if expected != expected:
            return self.nan_ok and got != got
        rel = self.rel if self.rel is not None else (1e-6 if self.abs is None else 0.0)
        room = max(rel * builtins.abs(expected), self.abs if self.abs is not None else 1e-12)
        distance = builtins.abs(got - expected)
        return distance <= room and distance != float("inf")


class _Raises:
    """`pytest.raises`, with `.value` and `.type` of what was raised."""

    def __init__(self, expected, match):
        self.expected, self.match = expected, match
        self.value = self.type = None

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        if kind is None:
            raise AssertionError(f"did not raise {_name_of(self.expected)}")
        if not issubclass(kind, self.expected):
            return False
        self.value, self.type = error, kind
        if self.match is not None and re.search(self.match, str(error)) is None:
            raise AssertionError(f"{_one_line(error)!r} does not match {self.match!r}")
        return True


def _name_of(kinds):
    return " or ".join(map(_name_of, kinds)) if isinstance(kinds, tuple) else getattr(kinds, "__name__", repr(kinds))


class _Mark:
    """`pytest.mark`: parametrize, skip, skipif and usefixtures mean something, other marks nothing."""

    def __getattr__(self, name):
        if name == "xfail":
            raise _TaskFault("the test file uses `pytest.mark.xfail`, which has no verdict here")

        def mark(*args, **kwargs):
            if len(args) == 1 and not kwargs and isinstance(args[0], (types.FunctionType, type)):
                if name in ("skip",):
                    args[0]._rh_marks = [*getattr(args[0], "_rh_marks", ()), (name, (), {})]
                return args[0]

            def decorate(target):
                target._rh_marks = [*getattr(target, "_rh_marks", ()), (name, args, kwargs)]
                return target

            return decorate

        return mark


class _Param:
    def __init__(self, *values, id=None, marks=()):
        if marks:
            raise _TaskFault("the test file uses `pytest.param(marks=…)`, which is not supported")
        self.values, self.id = values, id


def _pytest():
    """The part of pytest's interface that test files of tasks use."""
    shim = types.ModuleType("pytest")

    def raises(expected, *call, match=None, **kwargs):
        context = _Raises(expected, match)
        if call:
            with context:
                call[0](*call[1:], **kwargs)
        return context

    def fixture(function=None, *, scope="function", autouse=False, params=None, name=None, ids=None):
        if params is not None:
            raise _TaskFault("the test file uses fixtures with `params`, which are not supported")

        def decorate(function):
            function._rh_fixture = (name or function.__name__, autouse, scope)
            return function

        return decorate if function is None else decorate(function)

    def skip(reason="", **kwargs):
        raise _Skipped(reason)

    def fail(reason="", pytrace=True):
        raise AssertionError(reason)

    def missing(name):
        if name.startswith("__"):
            raise AttributeError(name)
        raise _TaskFault(f"the test file uses `pytest.{name}`, which is not supported")

    shim.__dict__.update(
        raises=raises, approx=_Approx, fixture=fixture, skip=skip, fail=fail, mark=_Mark(), param=_Param,
        main=lambda *args, **kwargs: 0, __getattr__=missing,
    )
    return shim


class _Case:
    """One collected test: its name and how it runs."""

    def __init__(self, name, run):
        self.name, self.run = name, run


class _Result(unittest.TestResult):
    """What became of one unittest test."""

    def __init__(self):
        unittest.TestResult.__init__(self)
        self.error = None
        self.skip = None

    def addError(self, test, error):
        self.error = self.error or error[1]

    addFailure = addError

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.error = self.error or error[1]

    def addSkip(self, test, reason):
        self.skip = reason

    def addUnexpectedSuccess(self, test):
        self.error = self.error or AssertionError("an expected failure did not come")


def _unittest_cases(kind):
    for name in unittest.TestLoader().getTestCaseNames(kind):
        method = getattr(kind, name)
        if getattr(method, "__unittest_skip__", False) or getattr(kind, "__unittest_skip__", False):
            raise _TaskFault(f"the test file skips `{kind.__name__}.{name}`")

        def run(name=name):
            result = _Result()
            suite = unittest.TestSuite([kind(name)])
            suite.run(result)
            if result.skip is not None:
                raise _Skipped(result.skip)
            if result.error is not None:
                raise result.error
            if result.testsRun != 1:
                raise AssertionError("the test did not run")

        yield _Case(f"{kind.__name__}.{name}", run)


class _Fixtures:
    """The fixtures of a file: made when asked for, once a test or once a file, and closed in reverse."""

    def __init__(self, space):
        self.made = {}
        self.known = {}
        self.collect(space.values(), None)

    def collect(self, values, owner):
        for value in values:
            about = getattr(value, "_rh_fixture", None) if isinstance(value, types.FunctionType) else None
            if about is not None:
                self.known[about[0]] = (value, about[1], about[2], owner)

    def value(self, name, instance, cache, closing, kept):
        if name not in self.known:
            raise _TaskFault(f"the fixture `{name}` is not supported")
        function, _, scope, owner = self.known[name]
        if scope != "function":
            cache, closing = self.made, kept
        if name not in cache:
            own = [instance] if owner is not None else []
            wanted = _wanted(function)[len(own) :]
            made = function(*own, *(self.value(each, instance, cache, closing, kept) for each in wanted))
            if isinstance(made, types.GeneratorType):
                closing.append(made)
                made = next(made)
            cache[name] = made
        return cache[name]


def _wanted(function):
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    return names[: len(names) - len(function.__defaults__ or ())]


def _parameters(target, name):
    """Every combination of the parametrize marks: a suffix of the test's name, and arguments by name."""
    combinations = [("", {})]
    for kind, args, kwargs in getattr(target, "_rh_marks", ()):
        if kind == "skip" or (kind == "skipif" and (not args or args[0])):
            raise _TaskFault(f"the test file skips `{name}`")
        if kind != "parametrize":
            continue
        names, values = args[0], list(args[1] if len(args) > 1 else kwargs["argvalues"])
        if kwargs.get("indirect"):
            raise _TaskFault("the test file uses `parametrize(indirect=…)`, which is not supported")
        names = [each.strip() for each in names.split(",")] if isinstance(names, str) else list(names)
        rows = []
        for at, row in enumerate(values):
            label = row.id if isinstance(row, _Param) and row.id else str(at)
            row = row.values if isinstance(row, _Param) else (row,) if len(names) == 1 else tuple(row)
            if len(row) != len(names):
                raise _TaskFault(f"`{name}` is parametrized with {len(row)} values for {len(names)} names")
            rows.append((label, dict(zip(names, row))))
        combinations = [
            (f"{before}-{label}" if before else label, {**known, **more})
            for before, known in combinations
            for label, more in rows
        ]
    return combinations


class _Functions:
    """Collects the plain functions and `Test*` classes of a file."""

    def __init__(self, space):
        self.space = space
        self.fixtures = _Fixtures(space)
        self.kept = []

    def cases(self):
        for name, value in list(self.space.items()):
            if isinstance(value, types.FunctionType) and name.startswith("test"):
                yield from self.function(name, value, None)
            elif isinstance(value, type) and not issubclass(value, unittest.TestCase) and name.startswith("Test"):
                if value.__module__ == "tests" and value.__init__ is object.__init__:
                    self.fixtures.collect(vars(value).values(), value)
                    for method in [each for each in dir(value) if each.startswith("test")]:
                        function = inspect.getattr_static(value, method)
                        if isinstance(function, types.FunctionType):
                            yield from self.function(f"{name}.{method}", function, value)

    def function(self, name, function, owner):
        if function.__code__.co_flags & 0x80:
            raise _TaskFault(f"`{name}` is asynchronous, which is not supported")
        marks = [*getattr(owner, "_rh_marks", ()), *getattr(function, "_rh_marks", ())]
        bearer = types.SimpleNamespace(_rh_marks=marks)
        also = [each for kind, args, _ in marks if kind == "usefixtures" for each in args]
        for label, values in _parameters(bearer, name):

            def run(values=values):
                self.run(function, owner, values, also)

            yield _Case(f"{name}[{label}]" if label else name, run)

    def run(self, function, owner, values, also):
        instance = owner() if owner is not None else None
        cache, closing = {}, []
        around = self.space if owner is None else {each: getattr(instance, each) for each in dir(instance)}
        suffix = "function" if owner is None else "method"
        if owner is not None and owner not in self.fixtures.made:
            self.fixtures.made[owner] = True
            if "setup_class" in around:
                around["setup_class"]()
        self.hook(around.get(f"setup_{suffix}"), function)
        try:
            automatic = [each for each, known in self.fixtures.known.items() if known[1] and known[3] in (None, owner)]
            for name in (*automatic, *also):
                self.fixtures.value(name, instance, cache, closing, self.kept)
            own = [instance] if owner is not None else []
            for name in _wanted(function)[len(own) :]:
                if name not in values:
                    values = {**values, name: self.fixtures.value(name, instance, cache, closing, self.kept)}
            function(*own, **values)
        finally:
            _close(closing)
            self.hook(around.get(f"teardown_{suffix}"), function)

    def hook(self, hook, function):
        if hook is not None:
            code = getattr(hook, "__func__", hook).__code__
            bound = 1 if hasattr(hook, "__func__") else 0
            hook(*(function,) * (code.co_argcount - bound))


def _close(closing):
    for made in reversed(closing):
        for _ in made:
            raise AssertionError("a fixture yields twice")


def _collected(space):
    if "load_tests" in space:
        raise _TaskFault("the test file defines `load_tests`, which is not supported")
    functions = _Functions(space)
    cases = []
    for value in list(space.values()):
        if isinstance(value, type) and issubclass(value, unittest.TestCase) and value.__module__ == "tests":
            cases += _unittest_cases(value)
    cases += functions.cases()
    return functions, cases


def _outcome(case, crossing, source):
    """Runs one test: its name, how it went, what there is to say."""
    try:
        case.run()
        if crossing.failed_inside is not None:
            raise crossing.failed_inside
    except _Skipped as skipped:
        return (case.name, "skipped", f"skipped: {skipped}", "")
    except unittest.SkipTest as skipped:
        return (case.name, "skipped", f"skipped: {skipped}", "")
    except (_Broken, _TaskFault):
        raise
    except SystemExit as stop:
        return (case.name, "failed", f"the test leaves with status {_exit_code(stop)}", "")
    except BaseException as error:
        behind = crossing.source_of(error)
        if behind is not None:
            return (case.name, "player", *behind)
        line = _last_line(error, source)
        return (case.name, "failed", f"{line}: {_one_line(error)}" if line else _one_line(error), "")
    finally:
        crossing.failed_inside = None
    return (case.name, "passed", "", "")


def _run_unit(source, crossing, marked):
    """Runs a test file: every collected test, whether or not an earlier one held."""
    pytest, main = _pytest(), unittest.main
    sys.modules["pytest"] = pytest
    unittest.main = unittest.TextTestRunner.run = lambda *args, **kwargs: None
    space = _module("tests")
    try:
        exec(compile(source, "<tests>", "exec", dont_inherit=True), space)
        functions, cases = _collected(space)
        if not cases:
            return ("task", "the test file holds no tests")
        if len({case.name for case in cases}) != len(cases):
            return ("task", "two tests of the file have the same name")
        marked(("collected", [case.name for case in cases]))
        for hook in ("setup_module", "setUpModule"):
            if hook in space:
                functions.hook(space[hook], sys.modules["tests"])
        outcomes = []
        for case in cases:
            outcomes.append(_outcome(case, crossing, source))
            marked(outcomes[-1])
        _close(functions.kept)
        for hook in ("tearDownModule", "teardown_module"):
            if hook in space:
                functions.hook(space[hook], sys.modules["tests"])
    except _Broken:
        return ("broken",)
    except _TaskFault as error:
        return ("task", str(error))
    except SystemExit as stop:
        return ("exit", _exit_code(stop))
    except BaseException as error:
        behind = crossing.source_of(error)
        if behind is not None:
            return ("player", *behind)
        missing = isinstance(error, ImportError) and getattr(error, "name", None) == crossing.module
        if missing:
            return ("missing", str(error))
        return ("task", f"the test file raises {_trace(error, source, '<tests>')[-TEXT_MAX:]}")
    finally:
        unittest.main = main
    if crossing.calls == 0 and crossing.answers == 0:
        return ("task", "the tests never use the code under test")
    return ("unit", outcomes)


def unit(seed, source, module):
    """Runs a test file against the player in the other interpreter."""
    _seed(seed)
    crossing = JudgeBorder()
    crossing.module = module
    parent = None
    *parents, last = module.split(".")
    for at, name in enumerate(parents):
        path = ".".join(parents[: at + 1])
        _module(path)
        package = sys.modules[path]
        package.__path__ = []
        if parent is not None:
            setattr(parent, name, package)
        parent = package
    sys.modules[module] = proxy = _SolutionModule(module, crossing)
    if parent is not None:
        setattr(parent, last, proxy)
    return _run_unit(source, crossing, lambda mark: _host.call(b"Cm" + encode(mark)))


def shared_unit(nonce, source, module):
    """Runs a test file beside the code under test, which `load` has run before under the module's name."""
    crossing = _Beside()
    crossing.module = module
    return ("shared", nonce, _run_unit(source, crossing, lambda mark: None))


_JOBS = {
    "program": program,
    "load": load,
    "call": call,
    "freeze": freeze,
    "judge": judge,
    "shared": shared,
    "unit": unit,
    "shared_unit": shared_unit,
}


def turn():
    """One turn: fetch the job, do it, answer. The interpreter flushes the streams afterwards."""
    job = _host.call(b"J")
    if job[:1] == b"!":
        _host.call(b"R" + cross(job))
        return
    job = decode(job)
    answer = _JOBS[job[0]](*job[1:])
    try:
        frame = encode(answer)
    except Unserialisable as error:
        frame = encode(("unserialisable", str(error)))
    except BaseException as error:
        frame = encode(("unserialisable", _one_line(error)))
    _host.call(b"R" + frame)
