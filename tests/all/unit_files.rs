//! Test files in the manner of unittest and pytest.

use rehearsal_sandboxes::{
    CaseOutcome, Isolation, JudgeRequest, Judgement, Limits, PolicyErrorReason as Reason, Tests, Verdict,
};

use crate::support::python;

const CODE: &str = "class E(Exception): pass\ndef add(a, b): return a + b\ndef bad(): raise E('x')\n";

fn judged(code: &str, tests: &str, isolation: Isolation) -> Judgement {
    python().judge(&JudgeRequest {
        code: code.into(),
        tests: Tests::Unit { code: tests.into(), module: "solution".into() },
        isolation,
        limits: Limits { fuel: 3_000_000_000, memory_bytes: 64 << 20, wall_ms: 120_000, ..Limits::default() },
        seed: 3,
    })
}

fn both(code: &str, tests: &str) -> [Judgement; 2] {
    [Isolation::Separate, Isolation::Shared].map(|isolation| judged(code, tests, isolation))
}

const FILE: &str = "import unittest, pytest, solution\nfrom solution import add, E, bad\n\n\
class T(unittest.TestCase):\n    def setUp(self): self.n = 1\n    def test_a(self): self.assertEqual(add(self.n, 2), 3)\n\
\x20   def test_b(self):\n        with self.assertRaises(E): bad()\n\
\x20   def test_sub(self):\n        for i in range(2):\n            with self.subTest(i): self.assertEqual(add(i, 0), i)\n\n\
@pytest.fixture\ndef two():\n    yield 2\n\n\
@pytest.mark.parametrize('a, b', [(1, 2), pytest.param(3, 4, id='z')])\ndef test_p(a, b, two): assert add(a, b) == a + b and two == 2\n\n\
class TestX:\n    def setup_method(self): self.k = 1\n    def test_m(self): assert solution.add(self.k, .1) == pytest.approx(1.1)\n\
\x20   def test_r(self):\n        with pytest.raises(E, match='x') as info: bad()\n        assert str(info.value) == 'x'\n\n\
if __name__ == '__main__': unittest.main()\n";

#[test]
fn every_collected_test_counts() {
    for judgement in both(CODE, FILE) {
        assert_eq!(judgement.verdict, Verdict::Passed, "{judgement:?}");
        assert_eq!((judgement.tests_declared, judgement.tests_executed, judgement.tests_passed), (7, 7, 7));
        let names: Vec<_> = judgement.cases.iter().map(|case| case.test.as_str()).collect();
        assert_eq!(
            names,
            ["T.test_a", "T.test_b", "T.test_sub", "test_p[0]", "test_p[z]", "TestX.test_m", "TestX.test_r"]
        );
    }
    let judgement = judged(CODE, FILE, Isolation::Separate);
    assert!(judgement.cases.iter().all(|case| case.fuel_used > 0), "{judgement:?}");
    assert!(judgement.cases.iter().map(|case| case.fuel_used).sum::<u64>() < judgement.fuel_used);
}

#[test]
fn the_first_test_that_does_not_hold_is_named_and_the_others_run() {
    for judgement in both("class E(Exception): pass\ndef add(a, b): return a * b\ndef bad(): raise E('x')\n", FILE) {
        let Verdict::Failed { test, got, .. } = &judgement.verdict else { panic!("{judgement:?}") };
        assert_eq!(test, "T.test_a");
        assert!(got.contains("2 != 3"), "{got}");
        assert_eq!(
            (judgement.tests_declared, judgement.tests_executed, judgement.tests_passed),
            (7, 7, 2),
            "{judgement:?}"
        );
    }
    let raises = "def test_a(): assert add(1, 2) == 3\ndef test_b(): assert add(None, 1) == 1\n";
    for judgement in both(CODE, &format!("from solution import add\n{raises}")) {
        assert!(
            matches!(&judgement.verdict, Verdict::PolicyError { reason: Reason::Runtime, detail } if detail.contains("TypeError"))
        );
        let outcomes: Vec<_> = judgement.cases.iter().map(|case| case.outcome.clone()).collect();
        assert_eq!(outcomes, [CaseOutcome::Passed, CaseOutcome::PolicyError(Reason::Runtime)]);
    }
}

#[test]
fn a_player_that_dies_leaves_a_report_of_what_ran() {
    let code = "import os\ndef add(a, b):\n    if a == 2: os._exit(0)\n    return a + b\n";
    let tests = "from solution import add\ndef test_a(): assert add(1, 2) == 3\ndef test_b(): assert add(2, 2) == 4\ndef test_c(): assert add(3, 2) == 5\n";
    let judgement = judged(code, tests, Isolation::Separate);
    assert!(matches!(judgement.verdict, Verdict::PolicyError { reason: Reason::Exited, .. }), "{judgement:?}");
    let outcomes: Vec<_> = judgement.cases.iter().map(|case| case.outcome.clone()).collect();
    assert_eq!(outcomes, [CaseOutcome::Passed, CaseOutcome::PolicyError(Reason::Exited), CaseOutcome::NotRun]);
    assert_eq!((judgement.tests_declared, judgement.tests_executed, judgement.tests_passed), (3, 1, 1));
}

#[test]
fn what_is_not_supported_is_the_tasks_fault_and_named() {
    for (tests, named) in [
        ("def test_a(capsys): add(1, 2)", "`capsys`"),
        ("import pytest\n@pytest.mark.skip\ndef test_a(): add(1, 2)", "skips `test_a`"),
        ("import pytest\n@pytest.mark.skipif(True, reason='x')\ndef test_a(): add(1, 2)", "skips `test_a`"),
        ("import pytest\n@pytest.mark.xfail\ndef test_a(): add(1, 2)", "xfail"),
        ("import pytest\ndef test_a():\n    with pytest.warns(UserWarning): add(1, 2)", "pytest.warns"),
        (
            "import unittest\nclass T(unittest.TestCase):\n    @unittest.skip('x')\n    def test_a(self): add(1, 2)",
            "skips `T.test_a`",
        ),
        ("async def test_a(): add(1, 2)", "asynchronous"),
        ("def load_tests(*a): pass", "load_tests"),
        ("x = add(1, 2)", "no tests"),
        ("def test_a(: pass", "SyntaxError"),
        ("def test_a(): assert 1 == 1", "never use"),
        ("raise KeyError('task')", "KeyError"),
        ("import sys; sys.exit(0)", "leave with status 0"),
    ] {
        let judgement = judged(CODE, &format!("from solution import add\n{tests}\n"), Isolation::Separate);
        let Verdict::TaskError { detail } = &judgement.verdict else { panic!("{tests}: {judgement:?}") };
        assert!(detail.contains(named), "{tests}: {detail}");
    }
}

#[test]
fn a_skipped_test_has_not_passed() {
    for skip in ["import pytest\n    pytest.skip('no')", "import unittest\n    raise unittest.SkipTest('no')"] {
        let tests = format!("from solution import add\ndef test_a():\n    add(1, 2)\n    {skip}\n");
        for judgement in both(CODE, &tests) {
            assert!(matches!(judgement.verdict, Verdict::Failed { .. }), "{judgement:?}");
            assert_eq!(judgement.tests_passed, 0);
        }
    }
}

#[test]
fn a_name_that_the_code_lacks_is_its_fault() {
    let judgement =
        judged("x = 1", "from solution import add\ndef test_a(): assert add(1, 2) == 3\n", Isolation::Separate);
    assert!(
        matches!(judgement.verdict, Verdict::PolicyError { reason: Reason::MissingEntryPoint, .. }),
        "{judgement:?}"
    );
}
