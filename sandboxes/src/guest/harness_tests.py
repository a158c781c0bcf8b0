

# --- The player's end of the border ---

# The number under which the judge asks for the module of the code under test itself.
MODULE = 0xFFFFFFFF


class PlayerBorder(Border):
    """Lends everything: what the judge may know of the code under test has no limits."""

    def perform(self, op, number, args, kwargs):
        if op == "trace":
            text = _trace(self.lent[number], _player["source"], "<solution>")
            sys.stderr.write(text)
            return text[-TEXT_MAX:]
        if number != MODULE:
            return Border.perform(self, op, number, args, kwargs)
        space = _player["space"]
        if op == "names":
            listed = space.get("__all__")
            return list(listed) if listed is not None else [name for name in space if not name.startswith("_")]
        [name, *value] = args
        if op == "set":
            space[name] = value[0]
        elif op == "unset":
            del space[name]
        elif name not in space:
            return ("absent", None)
        elif isinstance(space[name], types.ModuleType):
            return ("module", str(space[name].__name__))
        else:
            return ("value", space[name])


def cross(frame):
    """Answers one request of the judge's, which follows the frame's first byte."""
    border = _player.get("border")
    if border is None:
        border = _player["border"] = PlayerBorder()
    return border.serve(frame, 1)


# --- The judge's half: the tests, alone with remotes of the code under test ---


class _TaskFault(BaseException):
    """The tests cannot be run as the task says."""


class _Broken(BaseException):
    """The code under test answers what no harness writes."""


_LENDABLE = (
    types.FunctionType,
    types.MethodType,
    types.BuiltinFunctionType,
    types.GeneratorType,
    functools.partial,
    type(iter([])),
    type(iter(())),
    type(iter("")),
    type(iter({})),
    type(iter(range(0))),
    map,
    zip,
    filter,
    enumerate,
    reversed,
)
_LENT_OPS = frozenset(
    "call get set item setitem contains len iter next bool int float index str repr format enter exit lt le gt ge".split()
) | frozenset(_BINARY) | frozenset("r" + name for name in _BINARY)


class JudgeBorder(Border):
    """Lends callbacks, iterators, and objects of the tests' own classes, never what leads to the tests themselves."""

    def __init__(self):
        Border.__init__(self)
        self.calls = 0
        self.answers = 0
        self.errors = []
        self.failed_inside = None

    def request(self, op, number, args=(), kwargs=None):
        if op == "call":
            self.calls += 1
        value = Border.request(self, op, number, args, kwargs)
        if number != MODULE:
            self.answers += 1
        return value

    def find(self, name):
        """A name of the code under test, or the module of that name."""
        if name.startswith("_"):
            return _ABSENT
        kind, value = self.request("find", MODULE, (name,))
        if kind == "value":
            if not isinstance(value, Remote):
                self.answers += 1
            return value
        if kind == "module" and value == _MODULES.get(name, name):
            try:
                return __import__(value, fromlist=["_"])
            except ImportError:
                return _ABSENT
        return _ABSENT

    def lends(self, value, kind):
        return kind in _LENDABLE or self.own(value)

    def own(self, value):
        """Whether it is a class of the tests, or an instance of one."""
        kind = value if isinstance(value, type) else type(value)
        return getattr(kind, "__module__", None) == "tests"

    def perform(self, op, number, args, kwargs):
        value = self.lent[number]
        if op not in _LENT_OPS or not self.lends(value, type(value)):
            raise TypeError("the tests do not lend this")
        if op in ("get", "set") and (not self.own(value) or type(args[0]) is not str or args[0].startswith("_")):
            raise AttributeError(f"the tests do not lend the attribute {args[0]!r}")
        try:
            return _OPS[op](value, *args, **kwargs)
        except AssertionError as error:
            self.failed_inside = error
            raise

    def unreadable(self):
        return _Broken()

    def uncrossable(self, error):
        return _TaskFault(f"an argument cannot cross to the code under test: {error}; use isolation = \"shared\"")

    def noted(self, error, number, line):
        self.errors.append((error, number, line))

    def source_of(self, error):
        """The player's error behind one that ended the tests, through chains as well: its line and its trace."""
        seen = 0
        while error is not None and seen < 50:
            for mine, number, line in self.errors:
                if mine is error:
                    try:
                        return line, _text(self.request("trace", number))
                    except Exception:
                        return line, line
            error = error.__cause__ or error.__context__
            seen += 1
        return None


_ABSENT = object()

# Under which names tests may find a module that only the code under test has imported: its own, or the usual short one.
# Any other would let that code choose what the tests compute with.
_MODULES = {"np": "numpy", "pd": "pandas"}

_OPERATORS = [
    (ast.Eq, operator.eq),
    (ast.NotEq, operator.ne),
    (ast.Lt, operator.lt),
    (ast.LtE, operator.le),
    (ast.Gt, operator.gt),
    (ast.GtE, operator.ge),
    (ast.Is, operator.is_),
    (ast.IsNot, operator.is_not),
    (ast.In, lambda item, items: item in items),
    (ast.NotIn, lambda item, items: item not in items),
]
_AT = {"lineno": 1, "col_offset": 0, "end_lineno": 1, "end_col_offset": 0}
_CHECK = ast.Name("_rh_check", ast.Load(), **_AT)
_COMPARERS = {kind: ast.Name(f"_rh_compare{at}", ast.Load(), **_AT) for at, (kind, _) in enumerate(_OPERATORS)}
_NUMBERS = [ast.Constant(number, None, **_AT) for number in range(256)]


class _Checks:
    """Rewrites every `assert` so that its evaluation is counted and its two sides are kept.

    Asserts that stand directly in the module or in `check` must run for a pass; others may lie on paths not taken.
    """

    def __init__(self, source):
        self.source = source
        self.nodes = []
        self.declared = set()

    def code(self, frozen=None):
        if frozen is not None:
            code, self.nodes, self.declared = marshal.loads(frozen)
            return code
        tree = ast.parse(self.source, "<tests>")
        self.rewrite(tree.body, True)
        return compile(tree, "<tests>", "exec")

    def frozen(self):
        """The rewritten tests as bytes that another instance runs without parsing them again."""
        return marshal.dumps((self.code(), self.nodes, self.declared))

    def rewrite(self, body, must_run):
        for node in body:
            kind = type(node)
            if kind is ast.Assert:
                if must_run:
                    self.declared.add(len(self.nodes))
                self.count(node)
            elif kind not in _FLAT:
                direct = must_run and kind is ast.FunctionDef and node.name == "check"
                for field in ("body", "orelse", "finalbody"):
                    part = getattr(node, field, None)
                    if part:
                        self.rewrite(part, direct)
                for part in (*getattr(node, "handlers", ()), *getattr(node, "cases", ())):
                    self.rewrite(part.body, False)

    def count(self, node):
        test = node.test
        number = len(self.nodes)
        self.nodes.append((node.lineno, node.end_lineno))
        constant = _NUMBERS[number] if number < 256 else ast.Constant(number, None, **_AT)
        if type(test) is ast.Compare and len(test.ops) == 1:
            check, arguments = _COMPARERS[type(test.ops[0])], [constant, test.left, test.comparators[0]]
        else:
            check, arguments = _CHECK, [constant, test]
        node.test = ast.Call(
            check,
            arguments,
            [],
            lineno=test.lineno,
            col_offset=test.col_offset,
            end_lineno=test.end_lineno,
            end_col_offset=test.end_col_offset,
        )

    def line(self, number):
        """The source of an assert."""
        first, last = self.nodes[number]
        return " ".join(" ".join(self.source.splitlines()[first - 1 : last]).split())[:REPR_MAX]


_FLAT = frozenset({ast.Assign, ast.Expr, ast.Import, ast.ImportFrom, ast.Return, ast.AugAssign, ast.AnnAssign, ast.Pass})


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

    def names(self):
        """What the rewritten asserts call. The functions are bound here, not looked up when an assert runs."""
        check = self.check
        names = {"_rh_check": check}
        for at, (_, compare) in enumerate(_OPERATORS):
            names[f"_rh_compare{at}"] = lambda number, left, right, compare=compare: check(
                number, compare(left, right), left, right
            )
        return names

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
        line = _last_line(error, self.checks.source) or type(error).__name__
        return ("failed", declared, executed, passed, line, "", _one_line(error))


def _last_line(error, source):
    """The line of the tests that an error came out of."""
    line, trace = 0, error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<tests>":
            line = trace.tb_lineno
        trace = trace.tb_next
    lines = source.splitlines()
    return lines[line - 1].strip()[:REPR_MAX] if 0 < line <= len(lines) else ""


def freeze(source):
    """Compiles tests for every instance that will run them."""
    try:
        return ("frozen", _Checks(source).frozen())
    except Exception as error:
        return ("task", f"the tests do not compile: {_one_line(error)}")


def _run_tests(source, entry_point, target, crossing, frozen=None):
    """Runs the tests in a module of their own, with `target` as the tested function."""
    checks = _Checks(source)
    try:
        code = checks.code(frozen)
    except Exception as error:
        return ("task", f"the tests do not compile: {_one_line(error)}")
    run = _Run(checks)
    _module("tests")
    space = _Space(crossing.find)
    space.update(run.names())
    space.update({"__name__": "tests", "__builtins__": builtins, "candidate": target})
    space[entry_point.partition(".")[0]] = target
    try:
        exec(code, space)
        if crossing.calls == 0 and callable(space.get("check")):
            space["check"](target)
        if crossing.failed_inside is not None:
            return run.failure(crossing.failed_inside)
    except SystemExit as stop:
        return ("exit", _exit_code(stop))
    except _Broken:
        return ("broken",)
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


def judge(seed, source, entry_point, frozen=None):
    """Runs the tests against the player in the other interpreter."""
    _seed(seed)
    crossing = JudgeBorder()
    try:
        target = crossing.find(entry_point.partition(".")[0])
    except _Broken:
        return ("broken",)
    if not callable(target):
        # The host saw it load as something that can be called: only the code under test can have changed that.
        return ("broken",)
    return _run_tests(source, entry_point, target, crossing, frozen)


class _Beside:
    """The tests share this interpreter: names are the code's own, an error is its own where its frames are."""

    calls = 0
    answers = 1
    failed_inside = None

    def find(self, name):
        return _player["space"].get(name, _ABSENT)

    def source_of(self, error):
        trace = error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == "<solution>":
                return _one_line(error), _trace(error, _player["source"], "<solution>")[-TEXT_MAX:]
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
