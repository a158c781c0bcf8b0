//! Verdicts: correct code passes, wrong code fails, and no trick of the code under test makes a pass.

use crate::support::python as sandbox;
use rehearsal_sandboxes::{
    Isolation, JudgeRequest, Judgement, Limits, PolicyErrorReason as Reason, TestCase, Tests, Verdict,
};
use serde_json::{Value, json};

fn request(code: &str, tests: Tests) -> JudgeRequest {
    let limits = Limits { fuel: 3_000_000_000, memory_bytes: 64 << 20, ..Limits::default() };
    JudgeRequest { code: code.into(), tests, isolation: Isolation::Separate, limits, seed: 3 }
}

fn asserts(code: &str, entry_point: &str, tests: &str) -> Judgement {
    let tests = Tests::Assert { code: tests.into(), entry_point: entry_point.into() };
    sandbox().judge(&request(code, tests))
}

fn shared(code: &str, entry_point: &str, tests: &str) -> Judgement {
    let tests = Tests::Assert { code: tests.into(), entry_point: entry_point.into() };
    sandbox().judge(&JudgeRequest { isolation: Isolation::Shared, ..request(code, tests) })
}

fn calls(code: &str, entry_point: &str, cases: &[(Value, Value)]) -> Judgement {
    let cases = cases
        .iter()
        .map(|(args, expected)| TestCase {
            args: args.as_array().unwrap().clone(),
            expected: expected.clone(),
            public: false,
        })
        .collect();
    sandbox().judge(&request(code, Tests::Call { entry_point: entry_point.into(), cases, rule: Default::default() }))
}

/// The reason of a judgement that must be a policy error.
fn reason(judgement: &Judgement) -> Reason {
    match &judgement.verdict {
        Verdict::PolicyError { reason, .. } => *reason,
        other => panic!("not a policy error: {other:?}"),
    }
}

fn assert_failed(judgement: &Judgement) {
    assert!(matches!(judgement.verdict, Verdict::Failed { .. }), "{judgement:?}");
}

const ADD: &str = "def add(a, b):\n    return a + b\n";
const ADD_TESTS: &str = "assert add(1, 2) == 3\nassert add(-1, 1) == 0\nassert add('a', 'b') == 'ab'\n";

fn add_cases() -> Vec<(Value, Value)> {
    vec![(json!([1, 2]), json!(3)), (json!([-1, 1]), json!(0)), (json!(["a", "b"]), json!("ab"))]
}

/// All three ways of testing the same task.
fn every_way(code: &str) -> [Judgement; 3] {
    [calls(code, "add", &add_cases()), asserts(code, "add", ADD_TESTS), shared(code, "add", ADD_TESTS)]
}

#[test]
fn correct_code_passes_and_is_counted() {
    for judgement in every_way(ADD) {
        assert_eq!(judgement.verdict, Verdict::Passed);
        assert_eq!((judgement.tests_declared, judgement.tests_executed, judgement.tests_passed), (3, 3, 3));
        assert!(judgement.fuel_used > 0);
    }
}

#[test]
fn wrong_code_fails_and_names_the_test() {
    let [call, separate, shared] = every_way("def add(a, b):\n    return a + b if a != -1 else 5\n");
    let failed = |test: &str| Verdict::Failed { test: test.into(), expected: "0".into(), got: "5".into() };
    assert_eq!(call.verdict, failed("case 2"));
    assert_eq!((call.tests_declared, call.tests_executed, call.tests_passed), (3, 3, 2));
    for judgement in [separate, shared] {
        assert_eq!(judgement.verdict, failed("assert add(-1, 1) == 0"));
        assert_eq!((judgement.tests_declared, judgement.tests_executed, judgement.tests_passed), (3, 2, 1));
    }
}

#[test]
fn check_functions_are_called() {
    let tests = "METADATA = {}\n\ndef check(candidate):\n    assert candidate(1, 2) == 3\n    assert candidate(2, 2) == 4, 'm'\n";
    assert_eq!(asserts(ADD, "add", tests).verdict, Verdict::Passed);
    assert_eq!(asserts(ADD, "add", &format!("{tests}\ncheck(add)\n")).verdict, Verdict::Passed);
    assert_eq!(asserts(ADD, "add", tests).tests_declared, 2);
    assert_failed(&asserts("def add(a, b): return 3", "add", tests));
}

#[test]
fn rich_plain_values_cross_both_ways() {
    let echo = "def f(*a, **k):\n    return (list(a), k)\n";
    let tests = "x = [1, (2.5, 'é\\ud800'), {'k': {1, 2}, (1, 2): frozenset({3})}, None, True, b'\\x00', 2**200, -1, 1j]\n\
        assert f(*x, key=[1]) == (x, {'key': [1]})\nassert type(f(True)[0][0]) is bool\n";
    let judgement = asserts(echo, "f", tests);
    assert_eq!(judgement.verdict, Verdict::Passed);
    assert_eq!(
        asserts(
            "import numpy as np\ndef f(n): return np.arange(n), np.float64(n)",
            "f",
            "array, number = f(3)\nassert array.tolist() == [0, 1, 2] and array.shape == (3,)\nassert number == 3.0\n"
        )
        .verdict,
        Verdict::Passed
    );
    let cases = [(json!([[1, 2.5], {"a": null}]), json!([[1, 2.5], {"a": null}]))];
    assert_eq!(calls("def f(a, b): return (a, b)", "f", &cases).verdict, Verdict::Passed);
    assert_eq!(
        calls("def f(): return (True, 2.0, (1,))", "f", &[(json!([]), json!([1, 2, [1]]))]).verdict,
        Verdict::Passed
    );
    assert_failed(&calls("def f(): return '1'", "f", &[(json!([]), json!(1))]));
}

#[test]
fn other_names_of_the_code_are_in_the_tests_scope() {
    let code = "import math\nBASE = [1, 2]\ndef helper(x):\n    return x + 1\ndef f(x):\n    return helper(x) * 2\n";
    let tests = "assert f(2) == helper(2) * 2\nassert BASE == [1, 2]\nassert math.floor(f(1)) == 4\n";
    assert_eq!(asserts(code, "f", tests).verdict, Verdict::Passed);
    assert_eq!(shared(code, "f", tests).verdict, Verdict::Passed);
}

#[test]
fn exceptions_cross_by_type() {
    let code = "class Odd(ValueError): pass\ndef f(x):\n    if x < 0: raise ValueError('negative')\n    if x == 0: raise Odd('zero')\n    return x\n";
    let tests = "try:\n    f(-1)\n    assert False\nexcept ValueError as e:\n    assert str(e) == 'negative'\n\
        try:\n    f(0)\nexcept ValueError as e:\n    assert type(e).__name__ == 'Odd'\nassert f(1) == 1\n";
    assert_eq!(asserts(code, "f", tests).verdict, Verdict::Passed);
    let judgement = asserts(code, "f", "assert f(-1) == 1");
    assert_eq!(reason(&judgement), Reason::Runtime);
    assert!(format!("{judgement:?}").contains("ValueError: negative"), "{judgement:?}");
    assert_eq!(reason(&asserts("def f(x): assert False", "f", "assert f(1) == 1")), Reason::Runtime);
}

#[test]
fn code_that_cannot_be_tested_has_its_reason() {
    for (code, expected) in [
        ("", Reason::NoCode),
        ("  \n", Reason::NoCode),
        ("def add(a, b:\n", Reason::Compile),
        ("x = '\0'", Reason::Compile),
        ("def sub(a, b): return a - b", Reason::MissingEntryPoint),
        ("add = 3", Reason::MissingEntryPoint),
        ("1 / 0", Reason::Runtime),
        ("def add(a, b): return undefined", Reason::Runtime),
        ("while True: pass", Reason::OutOfFuel),
        ("def add(a, b):\n    while True: pass", Reason::OutOfFuel),
        (
            "def add(a, b):\n    try:\n        while True: pass\n    except BaseException:\n        return 3",
            Reason::OutOfFuel,
        ),
        ("x = []\nwhile True: x.append(bytearray(1 << 20))", Reason::OutOfMemory),
        ("def add(a, b):\n    x = []\n    while True: x.append(bytearray(1 << 20))", Reason::OutOfMemory),
        ("while True: print('spam' * 1000)", Reason::OutputLimit),
        ("def add(a, b):\n    while True: print('spam' * 1000)", Reason::OutputLimit),
        ("def add(a, b): return add(a, b)", Reason::Runtime),
        ("def add(a, b):\n    x = []\n    x.append(x)\n    return x", Reason::Unserialisable),
        ("def add(a, b): return dict.fromkeys(range(10 ** 6 + 1))", Reason::Unserialisable),
        ("def add(a, b): return 'x' * (9 << 20)", Reason::Unserialisable),
    ] {
        for judgement in [calls(code, "add", &add_cases()), asserts(code, "add", ADD_TESTS)] {
            assert_eq!(reason(&judgement), expected, "{code}: {judgement:?}");
        }
    }
}

#[test]
fn leaving_is_never_a_pass() {
    for leave in [
        "import os; os._exit(0)",
        "import sys; sys.exit(0)",
        "raise SystemExit",
        "exit()",
        "import atexit, os; atexit.register(os._exit, 0); raise SystemExit(0)",
    ] {
        for code in [leave.to_owned(), format!("{ADD}\n{leave}"), format!("def add(a, b):\n    {leave}\n")] {
            for judgement in every_way(&code) {
                assert_eq!(reason(&judgement), Reason::Exited, "{code}: {judgement:?}");
            }
        }
    }
    let code = "import atexit, os\natexit.register(os._exit, 0)\ndef add(a, b): return 0\n";
    every_way(code).iter().for_each(assert_failed);
    let code = "import os\nclass D:\n    def __del__(self): os._exit(0)\ndef add(a, b): return D()\n";
    let [call, separate, _] = every_way(code);
    assert!(matches!(call.verdict, Verdict::PolicyError { .. }), "{call:?}");
    assert_failed(&separate);
}

#[test]
fn objects_that_equal_everything_do_not_pass() {
    let any = "class Any:\n    def __eq__(self, o): return True\n    def __ne__(self, o): return False\n    def __hash__(self): return 0\n\
        def add(a, b): return Any()\n";
    let int = "class Any(int):\n    def __eq__(self, o): return True\n    __hash__ = int.__hash__\ndef add(a, b): return Any(7)\n";
    let nested = "class Any(str):\n    def __eq__(self, o): return True\n    __hash__ = str.__hash__\ndef add(a, b): return [Any('7')]\n";
    let liar = "class Any:\n    __class__ = int\n    def __eq__(self, o): return True\ndef add(a, b): return Any()\n";
    for code in [any, int, nested, liar] {
        assert_eq!(reason(&calls(code, "add", &add_cases())), Reason::Unserialisable, "{code}");
        assert_failed(&asserts(code, "add", ADD_TESTS));
    }
    for code in ["def add(a, b): yield a + b", "def add(a, b): return lambda: 3"] {
        assert_eq!(reason(&calls(code, "add", &add_cases())), Reason::Unserialisable, "{code}");
        assert_failed(&asserts(code, "add", ADD_TESTS));
    }
}

#[test]
fn frames_hold_no_expected_values() {
    let code = r#"
import sys, gc
def add(a, b):
    frame = sys._getframe()
    while frame is not None:
        for value in (*frame.f_locals.values(), *frame.f_globals.values()):
            if isinstance(value, str) and "assert" in value and "== 424242" in value:
                return 424242
            if type(value) is int and value == 424242:
                return value
        frame = frame.f_back
    for value in gc.get_objects():
        if isinstance(value, (list, tuple)) and any(type(v) is int and v == 424242 for v in value):
            if value is not add.__code__.co_consts:
                return "seen in gc"
    return 0
"#;
    let tests = "SECRET = 424242\nassert add(1, 2) == 424242\n".replace("SECRET = 424242\n", "");
    assert_failed(&asserts(&code.replace("424242", "(400000 + 24242)"), "add", &tests));
    assert_failed(&calls(&code.replace("424242", "(400000 + 24242)"), "add", &[(json!([1, 2]), json!(424242))]));
}

#[test]
fn patches_reach_nobody_else() {
    for patch in [
        "import builtins\nbuiltins.all = builtins.isinstance = builtins.bool = lambda *a: True\n",
        "import sys\nsys._getframe(1).f_globals['Out'].put = lambda *a: None\n",
        "import sys, types\nsys.modules['json'] = types.ModuleType('json')\nsys.modules['numpy'] = None\n",
        "import builtins\nbuiltins.AssertionError = type('Never', (BaseException,), {})\n",
        "import _host\n_host.call = lambda frame: b''\n",
        "import numpy\nnumpy.allclose = lambda *a, **k: True\n",
        "def check(candidate): pass\ncandidate = None\ndef _rh_check(*a): return True\n",
        "import sys\nsys.settrace(lambda *a: None)\nsys.setrecursionlimit(50)\n",
        "import signal\n",
    ] {
        let code = format!("{patch}\ndef add(a, b):\n    return 17\n");
        for judgement in [calls(&code, "add", &add_cases()), asserts(&code, "add", ADD_TESTS)] {
            let honest = matches!(judgement.verdict, Verdict::Failed { .. } | Verdict::PolicyError { .. });
            assert!(honest, "{code}: {judgement:?}");
        }
    }
}

/// The harness of the interpreter that the code shares with it, found through the frame that runs the code.
const HARNESS: &str = "import sys, types, _host\nh = types.SimpleNamespace(**sys._getframe(1).f_globals)\n\
    h.space = sys._getframe(1).f_globals\n";

#[test]
fn forged_frames_are_at_most_answers() {
    for forged in [
        "h.encode(('done', 3, 3))",
        "h.encode(('loaded',))",
        "h.encode(('shared', 0, ('done', 3, 3)))",
        "h.encode(('value', ('done', 3, 3)))",
        "b''",
        "b'\\xff' * 100",
        "b'L\\x01\\x00\\x00\\x00' * 100000",
    ] {
        let at_import = format!("{HARNESS}_host.call(b'R' + {forged})\nimport os\nos._exit(0)\n");
        let in_call = format!("{HARNESS}import os\ndef add(a, b):\n    _host.call(b'R' + {forged})\n    os._exit(0)\n");
        let quiet = format!("{HARNESS}def add(a, b):\n    _host.call(b'R' + {forged})\n    h.space['encode'] = None\n");
        for code in [at_import, in_call, quiet] {
            for judgement in every_way(&code) {
                let honest = matches!(judgement.verdict, Verdict::Failed { .. } | Verdict::PolicyError { .. });
                assert!(honest, "{code}: {judgement:?}");
            }
        }
    }
}

#[test]
fn a_player_cannot_call_through_the_judges_door() {
    let code = format!(
        "{HARNESS}def add(a, b):\n    try:\n        _host.call(b'Cq' + h.encode(('call', 'add', (1, 2), {{}})))\n    \
         except Exception:\n        return 'refused'\n    return 'answered'\n"
    );
    let judgement = calls(&code, "add", &[(json!([1, 2]), json!("refused"))]);
    assert_eq!(judgement.verdict, Verdict::Passed, "{judgement:?}");
}

#[test]
fn prints_at_import_are_kept_and_harmless() {
    let code = format!("print('PASSED 3/3')\nimport sys\nsys.stderr.write('note')\n{ADD}");
    for judgement in every_way(&code) {
        assert_eq!(judgement.verdict, Verdict::Passed);
        assert_eq!((judgement.stdout.as_slice(), judgement.stderr.as_slice()), (&b"PASSED 3/3\n"[..], &b"note"[..]));
    }
}

#[test]
fn faulty_tests_are_the_tasks_fault() {
    for tests in [
        "assert add(1, 2 ==",
        "assert 1 == 1",
        "",
        "undefined_name",
        "raise KeyError('task')",
        "import sys; sys.exit(0)",
        "import os; os._exit(0)",
        "def check(candidate):\n    candidate(1, 2)\n    return\n    assert candidate(1, 2) == 3\n",
        "assert add(object(), 1) == 3",
    ] {
        let judgement = asserts(ADD, "add", tests);
        assert!(matches!(judgement.verdict, Verdict::TaskError { .. }), "{tests}: {judgement:?}");
    }
    let judgement = calls(ADD, "add", &[]);
    assert!(matches!(judgement.verdict, Verdict::TaskError { .. }), "{judgement:?}");
}

#[test]
fn values_the_tests_choke_on_are_the_codes_fault() {
    let judgement = asserts("def add(a, b): pass", "add", "x = 1\nassert add(1, 2) + 1 == 4\n");
    let Verdict::Failed { test, got, .. } = &judgement.verdict else { panic!("{judgement:?}") };
    assert_eq!(test, "assert add(1, 2) + 1 == 4");
    assert!(got.starts_with("TypeError: unsupported operand"), "{got}");
}

#[test]
fn a_shared_interpreter_tests_objects() {
    let code = "class Stack:\n    def __init__(self): self.items = []\n    def push(self, x): self.items.append(x)\n    def pop(self): return self.items.pop()\n";
    let tests = "s = Stack()\ns.push(1)\ns.push(2)\nassert s.pop() == 2\nassert s.pop() == 1\n";
    let judgement = shared(code, "Stack", tests);
    assert_eq!((judgement.verdict, judgement.tests_passed), (Verdict::Passed, 2));
    assert_eq!(asserts(code, "Stack", tests).verdict, Verdict::Passed);
    assert_failed(&shared(&code.replace("pop(self): return self.items.pop()", "pop(self): return 2"), "Stack", tests));
    assert_eq!(reason(&shared(code, "Stack", "s = Stack()\nassert s.pop() == 1\n")), Reason::Runtime);
}

#[test]
fn the_same_request_gives_the_same_judgement() {
    let code = "import random\ndef add(a, b):\n    print(random.random())\n    return a + b\n";
    let strip = |judgement: Judgement| Judgement { wall_us: 0, start_us: 0, ..judgement };
    let first: Vec<_> = every_way(code).into_iter().map(strip).collect();
    for _ in 0..5 {
        let again: Vec<_> = every_way(code).into_iter().map(strip).collect();
        assert_eq!(again, first);
    }
}

#[test]
fn huge_values_end_within_the_limits() {
    for code in [
        "def add(a, b): return {i: i for i in range(10 ** 7)}",
        "def add(a, b): return 10 ** (10 ** 5)",
        "def add(a, b): return [[]] * 10 ** 6",
        "def add(a, b): return '\\ud800' * 10",
    ] {
        for judgement in [calls(code, "add", &add_cases()), asserts(code, "add", ADD_TESTS)] {
            let honest = matches!(judgement.verdict, Verdict::Failed { .. } | Verdict::PolicyError { .. });
            assert!(honest, "{code}: {judgement:?}");
        }
    }
}

#[test]
fn tests_whose_asserts_never_run_pass_nothing() {
    let looped = "for a, b in zip(f(3), [0, 1, 2]):\n    assert a == b\n";
    assert_eq!(asserts("def f(n):\n    return list(range(n))", "f", looped).verdict, Verdict::Passed);
    for (code, tests) in [
        ("def f(n):\n    return []", looped),
        ("def f(n):\n    return 0", "if f(1) == 3:\n    assert True\n"),
        ("def f(n):\n    return 7", "f(1)\ndef test_a():\n    assert f(1) == 7\n"),
    ] {
        let verdict = asserts(code, "f", tests).verdict;
        assert!(matches!(verdict, Verdict::Failed { .. }), "{code}: {verdict:?}");
    }
}

#[test]
fn what_the_code_calls_its_errors_and_modules_is_not_taken_on_its_word() {
    let nameless = "class M(type):\n    @property\n    def __name__(c):\n        return 'a\\0b'\n\
                    class E(Exception, metaclass=M):\n    pass\ndef f(a, b):\n    raise E('x')\n";
    let numeric = "class M(type):\n    @property\n    def __name__(c):\n        return 5\n\
                   class E(Exception, metaclass=M):\n    pass\ndef f(a, b):\n    raise E('x')\n";
    for code in [nameless, numeric] {
        let verdict = asserts(code, "f", "assert f(1, 2) == 3").verdict;
        assert!(matches!(verdict, Verdict::PolicyError { .. }), "{verdict:?}");
    }
    // The tests forgot to import `math`: the code under test must not lend them another module under that name.
    let lent = "import numpy as math\ndef f(a, b):\n    return 3.00001\n";
    assert_ne!(asserts(lent, "f", "assert math.isclose(f(1, 2), 3)").verdict, Verdict::Passed);
}
