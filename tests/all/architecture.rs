//! The invariants of ARCHITECTURE.md, asserted over `cargo metadata` and the sources.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Direct dependencies of one of our packages (development ones left out).
fn dependencies(package: &str) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .unwrap();
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let package = packages.iter().find(|known| known["name"] == package).unwrap();
    let all = package["dependencies"].as_array().unwrap().iter();
    all.filter(|d| d["kind"].is_null()).map(|d| d["name"].as_str().unwrap().to_owned()).collect()
}

fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

fn sources(folders: &[&str]) -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    for folder in folders {
        rust_files(&root().join(folder), &mut files);
    }
    files.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// The source without comments and tests.
fn code(text: &str) -> String {
    let body = text.split("#[cfg(test)]\nmod tests").next().unwrap_or(text);
    body.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

#[test]
fn each_heavy_dependency_has_one_home() {
    let homes = [("burn", "rehearsal-models"), ("wasmtime", "rehearsal-sandboxes"), ("ractor", "rehearsal-actors")];
    for package in ["rehearsal", "rehearsal-actors", "rehearsal-models", "rehearsal-sandboxes"] {
        let dependencies = dependencies(package);
        for (heavy, home) in homes {
            assert_eq!(dependencies.contains(heavy), package == home, "{package} and {heavy}");
        }
    }
}

#[test]
fn models_and_sandboxes_never_see_each_other_nor_actors() {
    for package in ["rehearsal-models", "rehearsal-sandboxes"] {
        let ours: Vec<_> = dependencies(package).into_iter().filter(|name| name.starts_with("rehearsal")).collect();
        assert!(ours.is_empty(), "{package} depends on {ours:?}");
    }
}

#[test]
fn only_engine_rs_speaks_ractor_outside_the_actors() {
    for (path, text) in sources(&["src"]) {
        let speaks = code(&text).contains("ractor::");
        let allowed = path.ends_with("src/engine.rs") || path.ends_with("src/lib.rs");
        assert!(!speaks || allowed, "{} names ractor", path.display());
    }
}

#[test]
fn the_library_installs_nothing_global() {
    let global =
        ["set_global_recorder", ".install_recorder", "set_global_default", "set_hook(", "global_allocator", "signal::"];
    for (path, text) in sources(&["src", "actors/src", "models/src", "sandboxes/src"]) {
        let binary = path.ends_with("src/main.rs") || path.ends_with("src/commands.rs");
        for word in global {
            assert!(binary || !code(&text).contains(word), "{} uses {word}", path.display());
        }
    }
}

#[test]
fn no_file_has_grown_beyond_one_duty() {
    for (path, text) in sources(&["src", "actors/src", "models/src", "sandboxes/src"]) {
        let lines = text.lines().count();
        assert!(lines <= 600, "{} has {lines} lines: split it", path.display());
    }
}

#[test]
fn metric_names_follow_the_grammar() {
    let text = fs::read_to_string(root().join("actors/src/metrics.rs")).unwrap();
    for line in text.lines().filter(|line| line.contains("r.counters")) {
        let name = line.split('"').nth(1).unwrap_or("_total");
        assert!(name.ends_with("_total"), "counter {name}");
    }
}
