//! Randomness follows the seed, although the interpreter was frozen before there was one; nothing of the host is visible.

use rehearsal_sandboxes::{End, Limits, Program};

use crate::support::python;

fn printed(source: &str, seed: u64) -> String {
    let ended = python().execute(&Program::new(source, seed), &Limits { wall_ms: 120_000, ..Limits::default() });
    assert_eq!((ended.end, ended.exit), (End::Exited, Some(0)), "{ended:?}");
    String::from_utf8(ended.stdout).unwrap()
}

#[test]
fn every_source_of_randomness_follows_the_seed() {
    for source in [
        "import random; print(random.random())",
        "import random; print(random.SystemRandom().random())",
        "import random; print(random.Random().random())",
        "import numpy as np; print(np.random.rand())",
        "import numpy as np; print(np.random.default_rng().random())",
        "import numpy as np; print(np.random.RandomState().rand())",
        "import secrets; print(secrets.token_hex(8), secrets.randbelow(10**9))",
        "import os; print(os.urandom(8))",
        "import uuid; print(uuid.uuid4())",
        "import uuid; print(uuid.uuid1())",
        "import tempfile; print(next(tempfile._get_candidate_names()))",
    ] {
        let first = printed(source, 1);
        assert_eq!(printed(source, 1), first, "{source}");
        assert_ne!(printed(source, 2), first, "{source}");
    }
}

#[test]
fn hashes_of_texts_are_a_constant_of_the_image() {
    // The snapshot holds dictionaries laid out by them: they cannot follow the seed, so they follow nothing.
    let source = "import sys; print(sys.flags.hash_randomization, hash('a'), hash(b'bc'), list({'x', 'y', 'z', 'w'}))";
    let first = printed(source, 1);
    assert!(first.starts_with("0 "), "{first}");
    assert!((2..6).all(|seed| printed(source, seed) == first));
}

#[test]
fn nothing_of_the_host_is_visible() {
    assert_eq!(printed("import os; print(dict(os.environ))", 0), "{}\n");
    assert_eq!(printed("import sys; print(sys.argv)", 0), "['program.py']\n");
    assert_eq!(printed("import os; print(os.cpu_count())", 0), "1\n");
    assert_eq!(printed("import time; print(time.tzname, time.timezone)", 0), "('UTC', 'UTC') 0\n");
    assert_eq!(printed("import locale; print(locale.setlocale(locale.LC_ALL, None))", 0).trim(), "C");
    assert_eq!(printed("import datetime; print(datetime.datetime.now().date())", 0), "2025-01-01\n");
}
