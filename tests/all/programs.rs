//! Programs on their own: limits, exits, determinism, what a guest can reach.

use crate::support::python as sandbox;
use rehearsal_sandboxes::{End, Execution, Limits, Program};

fn run(source: &str) -> Execution {
    run_within(source, &Limits::default())
}

fn run_within(source: &str, limits: &Limits) -> Execution {
    sandbox().execute(&Program::new(source, 7), limits)
}

/// The standard output of a program that must end well.
fn printed(source: &str) -> String {
    let ended = run(source);
    assert_eq!((ended.end, ended.exit), (End::Exited, Some(0)), "{ended:?}\n{}", err(&ended));
    String::from_utf8(ended.stdout).unwrap()
}

fn err(ended: &Execution) -> String {
    String::from_utf8_lossy(&ended.stderr).into_owned()
}

#[test]
fn a_program_prints() {
    assert_eq!(printed("print('hi')"), "hi\n");
    assert_eq!(printed("import sys; sys.stdout.write('no newline')"), "no newline");
    assert_eq!(printed("print(__name__)\nif __name__ == '__main__':\n    print('main')"), "__main__\nmain\n");
    assert_eq!(printed("print(repr(input()) if False else open(0).read() == '')"), "True\n");
}

#[test]
fn the_scientific_stack_is_there() {
    assert_eq!(printed("import numpy as np\nprint(np.arange(6).reshape(2, 3).sum(axis=0).tolist())"), "[3, 5, 7]\n");
    assert_eq!(printed("import email.message, sympy\nprint(sympy.factorint(360))"), "{2: 3, 3: 2, 5: 1}\n");
}

#[test]
fn an_uncaught_exception_is_reported_with_its_line() {
    let ended = run("def f():\n    return 1 / 0\nf()\n");
    assert_eq!((ended.end, ended.exit), (End::Exception, Some(1)));
    assert_eq!(ended.detail, "ZeroDivisionError: division by zero");
    assert!(err(&ended).contains("line 2, in f") && err(&ended).contains("return 1 / 0"), "{}", err(&ended));
    assert!(!err(&ended).contains("harness"), "{}", err(&ended));
    assert_eq!(run("def f(:\n").end, End::Exception);
    assert_eq!(run("x = '\0'").end, End::Exception);
}

#[test]
fn exits_are_reported_with_their_status() {
    for (source, status) in [
        ("import sys; sys.exit(3)", 3),
        ("raise SystemExit", 0),
        ("import os; os._exit(5)", 5),
        ("import sys; sys.exit('words')", 1),
        ("import atexit, os; atexit.register(os._exit, 4)", 4),
        ("exit(2)", 2),
    ] {
        let ended = run(source);
        assert_eq!((ended.end, ended.exit), (End::Exited, Some(status)), "{source}: {ended:?}");
    }
}

#[test]
fn a_loop_for_ever_runs_out_of_fuel() {
    let limits = Limits { fuel: 200_000_000, ..Limits::default() };
    for source in ["while True: pass", "try:\n    while True: pass\nexcept BaseException:\n    print('caught')"] {
        let ended = run_within(source, &limits);
        assert_eq!((ended.end, ended.exit), (End::OutOfFuel, None), "{ended:?}");
        assert!(ended.stdout.is_empty());
    }
}

#[test]
fn what_was_printed_before_the_end_is_kept() {
    let limits = Limits { fuel: 100_000_000, ..Limits::default() };
    let ended = run_within("print('before')\nwhile True: pass", &limits);
    assert_eq!((ended.end, ended.stdout.as_slice()), (End::OutOfFuel, b"before\n".as_slice()));
}

#[test]
fn slow_builtins_run_out_of_fuel_too() {
    let limits = Limits { fuel: 500_000_000, memory_bytes: 64 << 20, ..Limits::default() };
    for source in [
        "x = 10 ** (10 ** 7)\nprint(len(str(x)))",
        "sum(range(10 ** 12))",
        "import re; re.match('(a+)+$', 'a' * 40 + 'b')",
        "'a' * 100 in ('a' * 99 + 'b') * 10 ** 5; list(range(10**9)) if False else [i for i in iter(int, 1)]",
    ] {
        let ended = run_within(source, &limits);
        assert!(matches!(ended.end, End::OutOfFuel | End::OutOfMemory | End::Exception), "{source}: {ended:?}");
        assert!(ended.wall_us < 20_000_000, "{source}: {ended:?}");
    }
}

#[test]
fn allocating_for_ever_runs_out_of_memory() {
    let limits = Limits { memory_bytes: 64 << 20, ..Limits::default() };
    for source in [
        "x = []\nwhile True:\n    x.append(bytearray(1 << 20))",
        "x = 'a'\nwhile True:\n    x += x",
        "b = bytes(10 ** 9)",
        "x = []\nwhile True:\n    x.append([])",
    ] {
        let ended = run_within(source, &limits);
        assert_eq!(ended.end, End::OutOfMemory, "{source}: {ended:?}");
        assert!(ended.peak_memory_bytes <= (64 << 20) + (64 << 20), "{ended:?}");
    }
}

#[test]
fn a_caught_memory_error_is_the_programs_own_business() {
    let limits = Limits { memory_bytes: 64 << 20, ..Limits::default() };
    let ended = run_within("try:\n    bytearray(1 << 30)\nexcept MemoryError:\n    print('small')", &limits);
    assert_eq!((ended.end, ended.stdout.as_slice()), (End::Exited, b"small\n".as_slice()));
}

#[test]
fn printing_for_ever_hits_the_output_limit() {
    let limits = Limits { output_bytes: 65536, output_kept_bytes: 65536, ..Limits::default() };
    let run = |source: &str| run_within(source, &limits);
    let ended = run("while True: print('spam')");
    assert_eq!((ended.end, ended.stdout.len()), (End::OutputLimit, 65536));
    let ended = run("import sys\nwhile True: sys.stderr.write('spam\\n')");
    assert_eq!((ended.end, ended.stderr.len()), (End::OutputLimit, 65536));
    let ended = run("print('x' * 65535)");
    assert_eq!((ended.end, ended.stdout.len()), (End::Exited, 65536));
    assert_eq!(run("print('x' * 65536)").end, End::OutputLimit);
}

#[test]
fn of_a_long_output_the_head_and_the_tail_are_kept() {
    let ended = run("print('a' * 40000)\nprint('b' * 40000)");
    let text = String::from_utf8(ended.stdout).unwrap();
    assert_eq!(ended.end, End::Exited);
    assert!(text.starts_with("aaaa") && text.ends_with("bbb\n"), "{} bytes", text.len());
    assert!(text.contains("\n… 14466 bytes cut …\n"), "{:?}", text.find('…').map(|at| &text[at..at + 30]));
}

#[test]
fn recursing_for_ever_ends_in_an_exception_or_an_overflow() {
    let ended = run("def f(): return f()\nf()");
    assert_eq!(ended.end, End::Exception);
    assert!(ended.detail.starts_with("RecursionError"), "{ended:?}");
    for source in [
        "import sys\nsys.setrecursionlimit(10 ** 8)\ndef f(x): return f(x + 1)\nf(0)",
        "import sys\nsys.setrecursionlimit(10 ** 8)\nclass A:\n    def __repr__(self): return repr(self)\nrepr(A())",
        "import sys\nsys.setrecursionlimit(10 ** 8)\nclass A:\n    def __eq__(self, o): return o == self\nA() == A()",
        "x = []\nfor _ in range(10 ** 6): x = [x]\nprint(repr(x))",
        "x = ()\nfor _ in range(10 ** 5): x = (x,)\nhash(x)\nx == x\nprint(len(str(x)))",
        "import sys\nsys.setrecursionlimit(10 ** 8)\nf = lambda: list(map(lambda _: f(), [1]))\nf()",
        "import json\nx = {}\nfor _ in range(10 ** 5): x = {'a': x}\njson.dumps(x)",
    ] {
        let ended = run(source);
        assert!(
            matches!(ended.end, End::Exception | End::StackOverflow | End::OutOfMemory | End::OutOfFuel | End::Exited),
            "{source}: {ended:?}"
        );
    }
}

#[test]
fn nested_source_does_not_take_the_host_down() {
    let parens = format!("{}1{}", "(".repeat(100_000), ")".repeat(100_000));
    let minus = format!("x = {}1", "-".repeat(100_000));
    let attributes = format!("x{}", ".a".repeat(100_000));
    let lists = format!("x = {}{}", "[".repeat(150), "]".repeat(150));
    for source in [parens, minus, attributes, lists] {
        let ended = run(&source);
        assert!(!matches!(ended.end, End::HostError | End::WallBackstop), "{ended:?}");
    }
}

#[test]
fn a_thread_with_a_small_stack_may_call() {
    let thread = std::thread::Builder::new().stack_size(64 << 10);
    let source =
        "import sys\nsys.setrecursionlimit(10 ** 8)\nclass A:\n    def __repr__(self): return repr(self)\nrepr(A())";
    let sandbox = sandbox();
    let handle = thread.spawn(move || sandbox.execute(&Program::new(source, 0), &Limits::default()));
    let ended = handle.unwrap().join().unwrap();
    assert!(matches!(ended.end, End::Exception | End::StackOverflow), "{ended:?}");
}

#[test]
fn the_wall_clock_backstop_is_the_hosts_failure() {
    let limits = Limits { wall_ms: 50, fuel: u64::MAX >> 1, ..Limits::default() };
    assert_eq!(run_within("while True: pass", &limits).end, End::WallBackstop);
}

#[test]
fn sleeping_costs_virtual_time_only() {
    let ended = run(
        "import time\na = time.time(); m = time.monotonic()\ntime.sleep(3600)\nprint(round(time.time() - a), round(time.monotonic() - m))",
    );
    assert_eq!(ended.stdout, b"3600 3600\n");
    assert!(ended.wall_us < 5_000_000, "{ended:?}");
    assert_eq!(printed("import datetime; print(datetime.datetime.now().year)"), "2025\n");
}

#[test]
fn the_same_program_uses_the_same_fuel() {
    let source = "import random, numpy, os, time, uuid\nx = [random.random() for _ in range(100)]\n\
        print(x[0], numpy.random.rand(), os.urandom(4).hex(), hash('a'), time.time(), uuid.uuid4(), {'a', 'b', 'c'})";
    let first = run(source);
    assert_eq!(first.end, End::Exited, "{}", err(&first));
    for _ in 0..20 {
        let again = run(source);
        assert_eq!((again.fuel_used, &again.stdout), (first.fuel_used, &first.stdout));
    }
    let other = sandbox().execute(&Program::new(source, 8), &Limits::default());
    assert_ne!(other.stdout, first.stdout);
    assert_eq!(sandbox().execute(&Program::new(source, 8), &Limits::default()).fuel_used, other.fuel_used);
}

#[test]
fn threads_do_not_disturb_each_other() {
    let source = "print(sum(i * i for i in range(20000)))";
    let alone = run(source);
    let ended: Vec<_> = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..8).map(|_| scope.spawn(|| run(source))).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    });
    for other in ended {
        assert_eq!((other.end, other.fuel_used, &other.stdout), (End::Exited, alone.fuel_used, &alone.stdout));
    }
}

#[test]
fn nothing_survives_a_run() {
    run(
        "import builtins, sys, json\nbuiltins.leak = 1\nsys.leak = 1\njson.dumps = None\nopen = None\nCANARY = 'c4n4ry' * 1000",
    );
    let seen = "import builtins, sys, json\nprint(hasattr(builtins, 'leak'), hasattr(sys, 'leak'), json.dumps([1]))";
    assert_eq!(printed(seen), "False False [1]\n");
}

#[test]
fn the_host_is_out_of_reach() {
    assert_eq!(printed("import os; print(dict(os.environ))"), "{}\n");
    assert_eq!(printed("import os; print(os.listdir('/usr/local/lib'))"), "['python315.zip']\n");
    for source in [
        "open('/etc/passwd')",
        "open('/usr/local/lib/../../../etc/passwd')",
        "open('/usr/local/lib/x', 'w')",
        "open('/usr/local/lib/python315.zip', 'r+b', buffering=0).write(b'x')",
        "import os; os.remove('/usr/local/lib/python315.zip')",
        "import socket; socket.create_connection(('127.0.0.1', 80))",
        "import subprocess; subprocess.run(['ls'])",
        "import os; os.fork()",
    ] {
        assert_eq!(run(source).end, End::Exception, "{source}");
    }
    for fd in [0, 3, 4, 5, 100, -1] {
        assert_eq!(run(&format!("import os; os.write({fd}, b'x')")).end, End::Exception, "{fd}");
    }
}

#[test]
fn signals_and_tracing_change_nothing() {
    let limits = Limits { fuel: 200_000_000, ..Limits::default() };
    let source = "import sys\nsys.settrace(None)\ntry:\n    import signal\n    signal.signal(signal.SIGTERM, signal.SIG_IGN)\nexcept Exception: pass\nwhile True: pass";
    assert_eq!(run_within(source, &limits).end, End::OutOfFuel);
}

#[test]
fn breaking_the_interpreter_is_the_programs_fault() {
    for source in [
        "import sys; sys.modules.clear()",
        "import _host; _host.call = None",
        "import _rehearsal; _rehearsal.encode = None",
        "import _host; print(_host.call(b'X'))",
        "import _host; _host.call(b'C' + b'x')",
        "import ctypes; ctypes.string_at(0)",
    ] {
        let ended = run(source);
        assert!(!matches!(ended.end, End::HostError | End::WallBackstop), "{source}: {ended:?}");
    }
}
