//! Completions that are programs, and completions that are answers.

use rehearsal_sandboxes::{
    AnswerFrom, AnswerRule, CaseOutcome, End, Isolation, JudgeRequest, Judgement, Limits, PolicyErrorReason as Reason,
    StdioCase, TestCase, Tests, TextRule, ValueRule, Verdict,
};
use serde_json::{Value, json};

use crate::support::python;

fn judge(code: &str, tests: Tests, limits: Limits) -> Judgement {
    let limits = Limits { wall_ms: 120_000, ..limits };
    python().judge(&JudgeRequest { code: code.into(), tests, isolation: Isolation::Separate, limits, seed: 5 })
}

fn tests(cases: &[(&str, &str)], rule: TextRule) -> Tests {
    let case = |(stdin, expected): &(&str, &str)| StdioCase {
        stdin: (*stdin).into(),
        expected: (*expected).into(),
        public: stdin.len() == 2,
    };
    Tests::Stdio { cases: cases.iter().map(case).collect(), rule, checker: None }
}

fn stdio(code: &str, cases: &[(&str, &str)]) -> Judgement {
    judge(code, tests(cases, TextRule::Judge), Limits { fuel: 2_000_000_000, ..Limits::default() })
}

fn outcomes(judgement: &Judgement) -> Vec<CaseOutcome> {
    judgement.cases.iter().map(|case| case.outcome.clone()).collect()
}

const DOUBLE: [(&str, &str); 3] = [("1\n", "2\n"), ("20\n", "40\n"), ("-300", "-600")];

#[test]
fn a_right_program_passes_every_case() {
    let judgement = stdio("print(int(input()) * 2)", &DOUBLE);
    assert_eq!(judgement.verdict, Verdict::Passed);
    assert_eq!((judgement.tests_declared, judgement.tests_executed, judgement.tests_passed), (3, 3, 3));
    assert_eq!(judgement.stdout, b"-600\n");
    assert_eq!(judgement.end, End::Exited);
    let public: Vec<_> = judgement.cases.iter().map(|case| case.public).collect();
    assert_eq!(public, [true, false, false]);
    assert!(judgement.cases.iter().all(|case| case.fuel_used > 0 && case.detail.is_empty()));
    assert_eq!(judgement.fuel_used, judgement.cases.iter().map(|case| case.fuel_used).sum::<u64>());
}

#[test]
fn the_first_case_that_does_not_hold_is_named_and_the_others_are_run() {
    let judgement = stdio("n = int(input())\nprint(n * 2 if n != 20 else 'forty')", &DOUBLE);
    assert_eq!(
        judgement.verdict,
        Verdict::Failed { test: "case 2".into(), expected: "line 1: \"40\"".into(), got: "line 1: \"forty\"".into() }
    );
    assert_eq!(outcomes(&judgement), [CaseOutcome::Passed, CaseOutcome::Failed, CaseOutcome::Passed]);
    assert_eq!((judgement.tests_executed, judgement.tests_passed), (3, 2));
    assert_eq!(judgement.stdout, b"forty\n", "the first that failed is shown");
}

#[test]
fn an_error_costs_its_case_and_a_limit_ends_them_all() {
    use CaseOutcome::{NotRun, Passed, PolicyError};

    let rows: [(&str, Reason, [CaseOutcome; 3]); 8] = [
        ("1 / 0", Reason::Runtime, [Passed, PolicyError(Reason::Runtime), Passed]),
        ("import sys; sys.exit(3)", Reason::Exited, [Passed, PolicyError(Reason::Exited), Passed]),
        ("import os; os._exit(1)", Reason::Exited, [Passed, PolicyError(Reason::Exited), Passed]),
        ("while True: pass", Reason::OutOfFuel, [Passed, PolicyError(Reason::OutOfFuel), NotRun]),
        ("x = bytearray(1 << 30)", Reason::OutOfMemory, [Passed, PolicyError(Reason::OutOfMemory), NotRun]),
        ("print('x' * (5 << 20))", Reason::OutputLimit, [Passed, PolicyError(Reason::OutputLimit), NotRun]),
        ("raise KeyboardInterrupt", Reason::Runtime, [Passed, PolicyError(Reason::Runtime), Passed]),
        ("open(0).read(); input()", Reason::Runtime, [Passed, PolicyError(Reason::Runtime), Passed]),
    ];
    for (line, reason, cases) in rows {
        let judgement = stdio(&format!("n = int(input())\nif n == 20:\n    {line}\nprint(2 * n)\n"), &DOUBLE);
        assert!(matches!(&judgement.verdict, Verdict::PolicyError { reason: r, .. } if *r == reason), "{judgement:?}");
        assert_eq!(outcomes(&judgement), cases, "{line}");
    }
    let judgement = stdio("print(", &DOUBLE);
    assert!(matches!(judgement.verdict, Verdict::PolicyError { reason: Reason::Compile, .. }), "{judgement:?}");
    assert_eq!(outcomes(&judgement), [PolicyError(Reason::Compile), NotRun, NotRun]);
}

#[test]
fn silence_is_right_only_where_it_is_expected() {
    assert_eq!(stdio("pass", &[("", "")]).verdict, Verdict::Passed);
    for code in ["import sys; sys.exit(0)", "import os; os._exit(0)", "pass", "raise SystemExit"] {
        assert!(matches!(stdio(code, &[("", "1")]).verdict, Verdict::Failed { .. }), "{code}");
    }
    assert!(matches!(stdio("1 / 0", &[("", "")]).verdict, Verdict::PolicyError { reason: Reason::Runtime, .. }));
}

#[test]
fn input_is_a_real_descriptor_and_ends() {
    let echo = [("a\nb\n\nc", "a\nb\n\nc")];
    for code in [
        "print(open(0).read(), end='')",
        "import sys\nprint(sys.stdin.read(), end='')",
        "import sys\nfor line in sys.stdin: print(line, end='')",
        "import sys\nfor line in sys.stdin.buffer: sys.stdout.buffer.write(line)\nsys.stdout.flush()",
        "import sys\nwhile line := sys.stdin.buffer.readline(): sys.stdout.buffer.write(line)\nsys.stdout.flush()",
        "import os\nwhile part := os.read(0, 2): os.write(1, part)",
        "import fileinput\nfor line in fileinput.input(): print(line, end='')",
        "try:\n    while True: print(input())\nexcept EOFError: pass",
    ] {
        assert_eq!(stdio(code, &echo).verdict, Verdict::Passed, "{code}");
    }
}

#[test]
fn bytes_are_compared_as_they_were_written() {
    let write = |bytes: &str| format!("import sys\nsys.stdout.buffer.write({bytes})\nsys.stdout.flush()\n");
    let exact = |code: &str, expected: &str| {
        judge(code, tests(&[("", expected)], TextRule::Exact), Limits::default()).verdict == Verdict::Passed
    };
    assert!(exact(&write("'é\\0\\x1b[0m'.encode()"), "é\0\u{1b}[0m"));
    assert!(!exact(&write("b'\\xff'"), "\u{fffd}"), "invalid UTF-8 is not what replaces it");
    assert!(!exact("print(1)", "1"));
    assert!(exact("print(1)", "1\n"));
}

#[test]
fn the_rule_of_the_task_decides() {
    let rows = [
        (TextRule::Exact, "1 2\n", "1 2", false),
        (TextRule::RstripNl, "1 2\n", "1 2", true),
        (TextRule::Judge, "1 2  \n\n", "1 2", true),
        (TextRule::Tokens, "1\n2\n", "1 2", true),
        (TextRule::Judge, "1\n2\n", "1 2", false),
        (TextRule::Float { absolute: 1e-6, relative: 0.0 }, "0.3000001", "0.3", true),
        (TextRule::Judge, "0.3000001", "0.3", false),
        (TextRule::UnorderedLines, "b\na\n", "a\nb\n", true),
        (TextRule::SfOj, "YES\n", "yes", true),
        (TextRule::Lcb, "1.0\n", "1", true),
    ];
    for (rule, prints, expected, holds) in rows {
        let code = format!("import sys\nsys.stdout.write({prints:?})\n");
        let judgement = judge(&code, tests(&[("", expected)], rule), Limits::default());
        assert_eq!(judgement.verdict == Verdict::Passed, holds, "{rule:?} {prints:?} {expected:?}: {judgement:?}");
    }
}

#[test]
fn too_much_input_is_the_tasks_fault() {
    let limits = || Limits { stdin_bytes: 4, ..Limits::default() };
    assert_eq!(judge("print(input())", tests(&[("1234", "1234")], TextRule::Judge), limits()).verdict, Verdict::Passed);
    let judgement = judge("print(1)", tests(&[("1", "1"), ("12345", "1")], TextRule::Judge), limits());
    let Verdict::TaskError { detail } = &judgement.verdict else { panic!("{judgement:?}") };
    assert!(detail.contains("case 2") && detail.contains("stdin_bytes"), "{detail}");
}

#[test]
fn a_judgement_keeps_head_and_tail_of_what_was_printed() {
    let limits = Limits { output_kept_bytes: 10, ..Limits::default() };
    let judgement = judge("print('a' * 6 + 'b' * 400_000 + 'c' * 5)", tests(&[("", "x")], TextRule::Judge), limits);
    assert_eq!(String::from_utf8_lossy(&judgement.stdout), "aaaaa\n… 400002 bytes cut …\ncccc\n");
}

fn calls(code: &str, cases: &[(Value, Value)], rule: ValueRule) -> Judgement {
    let case = |(args, expected): &(Value, Value)| TestCase {
        args: args.as_array().unwrap().clone(),
        expected: expected.clone(),
        public: false,
    };
    let cases = cases.iter().map(case).collect();
    judge(code, Tests::Call { entry_point: "f".into(), cases, rule }, Limits::default())
}

#[test]
fn a_call_that_raises_costs_its_case_alone() {
    let judgement = calls("def f(x): return 6 // x", &[0, 1, 2].map(|x| (json!([x]), json!(6))), ValueRule::PyEq);
    assert!(
        matches!(&judgement.verdict, Verdict::PolicyError { reason: Reason::Runtime, detail } if detail.contains("ZeroDivision"))
    );
    assert_eq!(
        outcomes(&judgement),
        [CaseOutcome::PolicyError(Reason::Runtime), CaseOutcome::Passed, CaseOutcome::Failed]
    );
    assert_eq!((judgement.tests_executed, judgement.tests_passed), (3, 1));
    assert!(judgement.cases[2].detail.contains("expected 6, got 3"), "{judgement:?}");
    let left = calls(
        "def f(x):\n    if x: exit(0)\n    return 1",
        &[0, 1, 0].map(|x| (json!([x]), json!(1))),
        ValueRule::PyEq,
    );
    assert_eq!(outcomes(&left), [CaseOutcome::Passed, CaseOutcome::PolicyError(Reason::Exited), CaseOutcome::NotRun]);
}

#[test]
fn values_json_cannot_say_cross_both_ways() {
    let echo = "def f(x): return x";
    for value in [
        json!({"$tuple": [1, {"$set": [1, 2]}]}),
        json!({"$int": "123456789012345678901234567890"}),
        json!({"$dict": [[1, "a"], [{"$tuple": [1]}, null]]}),
        json!({"$complex": [1, -2]}),
        json!({"$bytes": "00ff"}),
        json!({"$float": "-inf"}),
    ] {
        let judgement = calls(echo, &[(json!([value]), value.clone())], ValueRule::PyEq);
        assert_eq!(judgement.verdict, Verdict::Passed, "{value}");
    }
    let nan = json!({"$float": "nan"});
    assert!(matches!(calls(echo, &[(json!([nan]), nan.clone())], ValueRule::PyEq).verdict, Verdict::Failed { .. }));
    assert!(matches!(
        calls("def f(x): return [1]", &[(json!([1]), json!({"$tuple": [1]}))], ValueRule::PyEq).verdict,
        Verdict::Failed { .. }
    ));
}

#[test]
fn the_rule_of_the_values_decides() {
    let near = ValueRule::Approx { absolute: 1e-9, relative: 0.0 };
    assert_eq!(calls("def f(): return 0.1 + 0.2", &[(json!([]), json!(0.3))], near).verdict, Verdict::Passed);
    let any_order = calls("def f(): return [2, 1]", &[(json!([]), json!([1, 2]))], ValueRule::Unordered);
    assert_eq!(any_order.verdict, Verdict::Passed);
    let set = calls("def f(): return {2, 1}", &[(json!([]), json!([1, 2, 1]))], ValueRule::Set);
    assert_eq!(set.verdict, Verdict::Passed);
}

#[test]
fn answers_are_read_and_compared_without_a_sandbox() {
    let answer = |completion: &str, expected: &[&str], from: AnswerFrom, rule| {
        let expected = expected.iter().map(|text| (*text).to_owned()).collect();
        judge(completion, Tests::Answer { expected, from, rule }, Limits::default())
    };
    let auto = |completion: &str| answer(completion, &["1/2"], AnswerFrom::Auto, AnswerRule::Math);
    assert_eq!(auto("So it is \\boxed{\\frac{1}{2}}.").verdict, Verdict::Passed);
    assert_eq!(auto("#### 0.5").verdict, Verdict::Passed);
    let wrong = auto("#### 0.6");
    assert_eq!(wrong.verdict, Verdict::Failed { test: "answer".into(), expected: "1/2".into(), got: "0.6".into() });
    assert_eq!((wrong.tests_declared, wrong.tests_executed, wrong.fuel_used), (1, 1, 0));
    for (completion, from) in [("", AnswerFrom::Auto), ("1/2", AnswerFrom::Boxed), ("\n \n", AnswerFrom::LastLine)] {
        let none = answer(completion, &["1/2"], from, AnswerRule::Math);
        assert!(matches!(none.verdict, Verdict::PolicyError { reason: Reason::NoAnswer, .. }), "{none:?}");
    }
    let one_of = answer("Paris", &["London", "paris"], AnswerFrom::Whole, AnswerRule::Text);
    assert_eq!(one_of.verdict, Verdict::Passed);
}

fn checked(code: &str, checker: &str) -> Judgement {
    let cases = vec![
        StdioCase { stdin: "10\n".into(), expected: "any".into(), public: false },
        StdioCase { stdin: "15\n".into(), expected: "any".into(), public: false },
    ];
    let checker = Some(rehearsal_sandboxes::Checker { source: checker.into() });
    judge(code, Tests::Stdio { cases, rule: TextRule::Exact, checker }, Limits::default())
}

/// Any two factors whose product is the input.
const FACTORS: &str = "import sys\n\
    n = int(open(sys.argv[1]).read())\nassert open(sys.argv[2]).read() == 'any'\n\
    words = open(sys.argv[3]).read().split()\n\
    ok = len(words) == 2 and all(w.isdigit() for w in words) and int(words[0]) * int(words[1]) == n and '1' not in words\n\
    print('ok' if ok else 'wrong: the product is not ' + str(n))";

#[test]
fn a_checker_decides_where_there_are_many_right_outputs() {
    assert_eq!(checked("n = int(input())\nprint(5, n // 5)", FACTORS).verdict, Verdict::Passed);
    let judgement = checked("print(2, 5)", FACTORS);
    let Verdict::Failed { test, expected, .. } = &judgement.verdict else { panic!("{:?}", judgement.verdict) };
    assert_eq!(test, "case 2");
    assert!(expected.contains("the product is not 15"), "{expected}");
    assert_eq!((judgement.tests_executed, judgement.tests_passed), (2, 1));
}

#[test]
fn a_checker_that_does_not_answer_is_the_tasks_fault() {
    for (checker, says) in [
        ("print('maybe')", "neither yes nor no"),
        ("", "neither yes nor no"),
        ("1 / 0", "ZeroDivisionError"),
        ("import sys; print('ok'); sys.exit(1)", "status 1"),
        ("import os; print('ok', flush=True); os._exit(3)", "status 3"),
        ("while True: pass", "out_of_fuel"),
        ("def (:", "SyntaxError"),
    ] {
        let judgement = checked("print(1)", checker);
        let Verdict::TaskError { detail } = &judgement.verdict else { panic!("{checker}: {:?}", judgement.verdict) };
        assert!(detail.contains(says), "{checker}: {detail}");
    }
}

#[test]
fn an_output_cannot_speak_for_the_checker() {
    for output in ["ok", "accepted\n1\n", "__import__('sys').exit(0)", "\u{0}ok"] {
        let judgement = checked(&format!("print({output:?})"), FACTORS);
        assert!(matches!(judgement.verdict, Verdict::Failed { .. }), "{output}: {:?}", judgement.verdict);
    }
}

#[test]
fn files_left_are_compared() {
    use rehearsal_sandboxes::File;
    let file = |path: &str, text: &str| File { path: path.into(), bytes: text.as_bytes().to_vec() };
    let tests = || Tests::Files {
        stdin: "3\n".into(),
        files: vec![file("in/data.csv", "a,b\n1,2\n")],
        expected: vec![file("out/sum.txt", "6\n"), file("rows.txt", "1\n")],
        rule: TextRule::Judge,
    };
    let right = "import csv, os\nn = int(input())\nrows = list(csv.reader(open('in/data.csv')))[1:]\nos.mkdir('out')\n\
                 open('out/sum.txt', 'w').write(str(n + sum(int(x) for r in rows for x in r)))\nopen('rows.txt', 'w').write(str(len(rows)))";
    let judgement = judge(right, tests(), Limits::default());
    assert_eq!(judgement.verdict, Verdict::Passed);
    assert_eq!((judgement.tests_declared, judgement.tests_passed), (2, 2));
    let judgement = judge(&right.replace("len(rows)", "7"), tests(), Limits::default());
    assert!(matches!(&judgement.verdict, Verdict::Failed { test, .. } if test == "case 2"), "{:?}", judgement.verdict);
    let judgement = judge("print(6)", tests(), Limits::default());
    assert!(
        matches!(&judgement.verdict, Verdict::Failed { got, .. } if got == "no such file"),
        "{:?}",
        judgement.verdict
    );
    let judgement = judge(&format!("{right}\n1 / 0"), tests(), Limits::default());
    assert!(
        matches!(judgement.verdict, Verdict::PolicyError { reason: Reason::Runtime, .. }),
        "{:?}",
        judgement.verdict
    );
    let judgement = judge(right, tests(), Limits { workspace_bytes: 4, ..Limits::default() });
    assert!(matches!(judgement.verdict, Verdict::TaskError { .. }), "{:?}", judgement.verdict);
}
