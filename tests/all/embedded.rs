//! `examples/embedded.rs`, which `cargo test` has just built, run: the tree under a foreign supervisor.

use std::path::Path;
use std::process::Command;

use crate::support::python;

#[test]
fn the_example_runs_as_written() {
    python();
    let binary = Path::new(env!("CARGO_BIN_EXE_rehearsal"));
    let output = Command::new(binary.with_file_name("examples").join("embedded")).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("ten rollouts, 6 passed"), "{said}");
}
