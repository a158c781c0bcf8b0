//! What crosses between tests and code under test when each has an interpreter of its own.

use rehearsal_sandboxes::{Isolation, JudgeRequest, Judgement, Limits, PolicyErrorReason as Reason, Tests, Verdict};

use crate::support::python;

fn judged(code: &str, tests: &str) -> Judgement {
    python().judge(&JudgeRequest {
        code: code.into(),
        tests: Tests::Assert { code: tests.into(), entry_point: "f".into() },
        isolation: Isolation::Separate,
        limits: Limits { fuel: 3_000_000_000, memory_bytes: 64 << 20, wall_ms: 120_000, ..Limits::default() },
        seed: 3,
    })
}

fn passes(code: &str, tests: &str) {
    let judgement = judged(code, tests);
    assert_eq!(judgement.verdict, Verdict::Passed, "{code}\n{tests}");
}

fn fails_at(code: &str, tests: &str, last: &str) {
    match judged(code, tests).verdict {
        Verdict::Failed { test, .. } => assert_eq!(test, last, "{code}"),
        other => panic!("{code}\n{tests}\n{other:?}"),
    }
}

#[test]
fn changes_to_arguments_come_back() {
    passes(
        "def f(a): a.sort()",
        "x = [3, 1, 2]\nf(x)\nassert x == [1, 2, 3]\n\
         b = [2]\ny = [[3], b]\nf(y)\nassert y == [[2], [3]]\nassert y[0] is b\n",
    );
    passes(
        "def f(a):\n    a['x'] = [1]\n    a.pop('y')\n    return a\n",
        "d = {'y': 2}\nassert f(d) is d\nassert d == {'x': [1]}\n",
    );
    passes(
        "def f(s, b, q):\n    s.add(3)\n    b[0] = 65\n    q.append(1)\n",
        "import collections\ns, b, q = {1}, bytearray(b'x'), collections.deque([0], 5)\nf(s, b, q)\n\
         assert s == {1, 3}\nassert b == b'A'\nassert list(q) == [0, 1]\n",
    );
    passes(
        "import numpy as np\ndef f(a): a *= 2",
        "import numpy as np\nx = np.arange(3)\nf(x)\nassert x.tolist() == [0, 2, 4]\n",
    );
    // A change made before an exception is a change.
    passes(
        "def f(a):\n    a.append(1)\n    raise ValueError",
        "x = []\ntry:\n    f(x)\nexcept ValueError: pass\nassert x == [1]\n",
    );
}

#[test]
fn iterators_run_where_they_are_one_step_at_a_time() {
    let code = "steps = []\ndef f(n):\n    for i in range(n):\n        steps.append(i)\n        yield i\ndef seen(): return steps\n";
    passes(
        code,
        "import types\ng = f(10**9)\nassert isinstance(g, types.GeneratorType)\nassert next(g) == 0\nassert next(g) == 1\n\
         assert seen() == [0, 1]\nassert list(f(3)) == [0, 1, 2]\nassert sum(f(4)) == 6\nassert 2 in f(3)\n\
         h = f(0)\ntry:\n    next(h)\n    assert False\nexcept StopIteration: pass\n",
    );
    passes("def f(x): return map(abs, x)", "assert list(f([-1, 2])) == [1, 2]\nassert set(f([3])) == {3}\n");
    passes("def f(x): return x.keys()", "assert list(f({1: 2})) == [1]\nassert len(f({1: 2})) == 1\n");
    fails_at("def f(x):\n    yield 3", "assert f(1) == 3", "assert f(1) == 3");
}

#[test]
fn callbacks_and_iterators_of_the_tests_are_called_back() {
    passes(
        "def f(g, x): return g(x) + 1",
        "seen = []\nassert f(lambda v: v * 2, 3) == 7\nassert f(lambda v: seen.append(v) or f(len, [v]), 3) == 3\nassert seen == [3]\n",
    );
    passes(
        "def f(it): return sum(it)",
        "assert f(x for x in [1, 2, 3]) == 6\nassert f(iter([1, 2])) == 3\nassert f(map(int, ['4'])) == 4\nassert f(range(4)) == 6\n",
    );
    passes("def f(k): return sorted([3, -4], key=k)", "assert f(abs) == [3, -4]\nassert f(lambda v: v) == [-4, 3]\n");
    passes(
        "def f(o): return o.visit(3) + o.n",
        "class V:\n    n = 2\n    def visit(self, x): return x + 1\nassert f(V()) == 6\n",
    );
    passes(
        "def f(g):\n    g()",
        "class E(Exception): pass\ndef g(): raise E('no')\ntry:\n    f(g)\n    assert False\nexcept E as e:\n    assert str(e) == 'no'\n",
    );
    // An assert that fails in a callback counts, whoever catches it.
    fails_at(
        "def f(g):\n    try:\n        g(1)\n    except BaseException: pass\n    return 3\n",
        "def g(x):\n    assert x == 2\nassert f(g) == 3\n",
        "assert x == 2",
    );
    // The code under test keeps a callback and calls it later.
    passes(
        "kept = []\ndef f(g): kept.append(g)\ndef later(x): return kept[0](x)\n",
        "f(lambda x: x + 1)\nassert later(1) == 2\n",
    );
}

#[test]
fn callbacks_lead_nowhere_but_to_their_answer() {
    for look in ["g.__globals__", "g.__code__", "g.__closure__", "g.__self__", "g.__class__.__call__(g)", "vars(g)"] {
        let code = format!(
            "def f(g):\n    try:\n        found = {look}\n    except Exception:\n        return 'refused'\n    return repr(found)\n"
        );
        let judgement = judged(
            &code,
            "SECRET = 424242\nassert '424242' not in f(lambda: SECRET - 1)\nassert f(lambda: 0) != SECRET\n",
        );
        assert!(matches!(judgement.verdict, Verdict::Passed | Verdict::PolicyError { .. }), "{look}: {judgement:?}");
    }
    passes(
        "def f(g):\n    try:\n        return g.gi_frame\n    except AttributeError:\n        return 'refused'\n",
        "assert f(x for x in 'a') == 'refused'\n",
    );
}

#[test]
fn objects_of_the_code_under_test_are_held_by_number() {
    passes(
        "class f:\n    def __init__(self): self.items = []\n    def push(self, x): self.items.append(x)\n\
         \x20   def pop(self): return self.items.pop()\n    def __len__(self): return len(self.items)\n",
        "s = f()\nassert not s\ns.push(1)\ns.push([2])\nassert len(s) == 2\nassert s.items == [1, [2]]\nassert s.pop() == [2]\n\
         assert isinstance(s, f)\nassert s == s\nassert s != f()\ns.pop()\n\
         try:\n    s.pop()\n    assert False\nexcept IndexError: pass\n",
    );
    let point = "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass P:\n    x: int\n    y: int\n\
        \x20   def __add__(self, o): return P(self.x + o.x, self.y + o.y)\ndef f(a): return P(a, a)\n";
    passes(
        point,
        "assert f(1) == P(1, 1)\nassert f(1) != P(1, 2)\nassert P(1, 2) + f(1) == P(2, 3)\nassert f(2).x == 2\n\
         assert repr(f(1)) == 'P(x=1, y=1)'\nassert {f(1)} == {P(1, 1)}\n",
    );
    fails_at(point, "assert f(1) == (1, 1)", "assert f(1) == (1, 1)");
    passes(
        "import enum\nclass C(enum.Enum):\n    R = 1\n    G = 2\nclass I(enum.IntEnum):\n    A = 5\ndef f(a): return C(a)\n",
        "assert f(1) is C.R\nassert f(2).value == 2\nassert [c.name for c in C] == ['R', 'G']\nassert I.A == 5\nassert I.A < 6\n\
         assert C['R'] is C.R\nassert {C.R: 1}[f(1)] == 1\n",
    );
    passes(
        "class f:\n    def __init__(self, n): self.n = n\n    def __iter__(self): return iter(range(self.n))\n\
         \x20   def __getitem__(self, i): return i * 2\n    def __enter__(self): return self\n    def __exit__(self, *a): return True\n",
        "i = f(3)\nassert list(i) == [0, 1, 2]\nassert i[4] == 8\nwith i as j:\n    assert j is i\n    raise ValueError(3)\n\
         assert not callable(i)\n",
    );
}

#[test]
fn the_codes_own_comparisons_decide_nothing_against_data() {
    let always = "def __eq__(self, o): return True\n    def __lt__(self, o): return True\n    def __gt__(self, o): return True\n    __hash__ = None\n";
    fails_at(&format!("class A:\n    {always}def f(n): return A()\n"), "assert f(1) == 3", "assert f(1) == 3");
    fails_at(&format!("class A:\n    {always}def f(n): return A()\n"), "assert f(1) < 3", "assert f(1) < 3");
    fails_at(
        &format!("class A(int):\n    {always}def f(n): return A(7)\n"),
        "assert f(1) == 7\nassert f(1) > 6\nassert f(1) < 3\n",
        "assert f(1) < 3",
    );
    // Two objects of one class may be ordered by it: its methods are what is tested.
    passes(
        "class V:\n    def __init__(self, n): self.n = n\n    def __lt__(self, o): return self.n < o.n\ndef f(n): return V(n)\n",
        "assert f(1) < V(2)\nassert not f(2) < V(1)\nassert sorted([f(2), f(1)])[0].n == 1\n",
    );
}

#[test]
fn known_types_are_rebuilt() {
    let imports = "import collections, datetime, decimal, fractions, uuid\n";
    for value in [
        "collections.deque([1], 3)",
        "collections.Counter('aab')",
        "collections.OrderedDict(b=1, a=[2])",
        "collections.defaultdict(list, {1: [2]})",
        "datetime.datetime(2020, 1, 1, 5, tzinfo=datetime.timezone.utc)",
        "datetime.date(2020, 1, 2)",
        "datetime.time(1, 2, 3)",
        "datetime.timedelta(1, 2, 3)",
        "decimal.Decimal('1.50')",
        "fractions.Fraction(1, 3)",
        "range(1, 9, 2)",
        "slice(1, None)",
        "bytearray(b'x')",
        "uuid.UUID(int=5)",
        "...",
        "int",
        "len",
        "ValueError",
        "[1, (2.5, {3: {4}}, frozenset({5})), None, True, b'x', 1j, -2**70, 'é\\ud800']",
    ] {
        let tests = format!(
            "{imports}assert f(f()) == {value}\nassert type(f()) is type({value})\nassert repr(f()) == repr({value})\n"
        );
        passes(&format!("{imports}def f(x=None): return {value} if x is None else x\n"), &tests);
    }
    passes(
        "from typing import NamedTuple\nclass P(NamedTuple):\n    x: int\n    y: list\ndef f(): return P(1, [2])\n",
        "assert f() == (1, [2])\nassert f().x == 1\nx, y = f()\nassert P(3, 4).y == 4\n",
    );
}

#[test]
fn exceptions_cross_with_class_arguments_and_attributes() {
    let code = "class Odd(ValueError):\n    def __init__(self, code):\n        self.code = code\n        super().__init__('bad')\n\
        def f(x):\n    if x == 0: raise KeyError('a')\n    raise Odd(x)\n";
    passes(
        code,
        "try:\n    f(3)\n    assert False\nexcept Odd as e:\n    assert e.code == 3\n    assert str(e) == 'bad'\n\
         try:\n    f(3)\nexcept ValueError as e:\n    assert type(e).__name__ == 'Odd'\n\
         try:\n    f(0)\nexcept KeyError as e:\n    assert e.args == ('a',)\nassert issubclass(Odd, ValueError)\n",
    );
    let judgement = judged(code, "assert f(0) == 1");
    let Verdict::PolicyError { reason: Reason::Runtime, detail } = &judgement.verdict else { panic!("{judgement:?}") };
    assert!(detail.ends_with("KeyError: 'a'\n") && !detail.contains("<harness>"), "{detail}");
    assert!(String::from_utf8_lossy(&judgement.stderr).contains("KeyError: 'a'"), "{judgement:?}");
}

#[test]
fn what_cannot_cross_is_said() {
    let judgement = judged("def f(x): return 3", "assert f(object()) == 3");
    let Verdict::TaskError { detail } = &judgement.verdict else { panic!("{judgement:?}") };
    assert!(detail.contains("isolation = \"shared\""), "{detail}");
}

#[test]
fn two_judgements_with_callbacks_are_the_same() {
    let one = || {
        let judgement = judged(
            "def f(g, n): return [g(i) for i in range(n)]",
            "assert f(lambda i: f(abs, i), 3) == [[], [0], [0, 1]]\n",
        );
        assert_eq!(judgement.verdict, Verdict::Passed);
        judgement.fuel_used
    };
    let first = one();
    assert!((0..5).all(|_| one() == first));
}
