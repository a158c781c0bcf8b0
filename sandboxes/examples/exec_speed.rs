//! How long `print('hi')` takes in a fresh sandbox and in a fresh `python3` process, measured in the same run.
//!
//! `cargo run --release -p rehearsal-sandboxes --example exec_speed -- IMAGE_DIR CACHE_DIR [RUNS] [--json]`

#![allow(clippy::print_stdout, reason = "its output is the result")]

use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rehearsal_sandboxes::{Limits, LocalSandbox, Program, Sandbox as _, Snapshot};

const SOURCE: &str = "print('hi')";

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let (flags, arguments): (Vec<_>, Vec<_>) =
        std::env::args().skip(1).partition(|argument| argument.starts_with("--"));
    let [image_dir, cache_dir, rest @ ..] = arguments.as_slice() else {
        return Err("usage: exec_speed IMAGE_DIR CACHE_DIR [RUNS] [--json]".into());
    };
    let runs: usize = rest.first().map_or(Ok(1000), |runs| runs.parse())?;
    let started = Instant::now();
    let snapshot = Snapshot::open(Path::new(image_dir), Path::new(cache_dir), &|progress| {
        eprintln!("{:6.1} s {progress:?}", started.elapsed().as_secs_f64());
    })?;
    let opened = started.elapsed();
    let sandbox = LocalSandbox::new(snapshot);

    sample(20, || in_sandbox(&sandbox))?;
    let sandbox_times = sample(runs, || in_sandbox(&sandbox))?;
    let process_times = sample((runs / 10).clamp(20, 200), in_process)?;
    let two_threads = throughput(&sandbox, 2, runs)?;
    let one_thread = throughput(&sandbox, 1, runs)?;

    let (sandbox_ms, process_ms) = (quantile(&sandbox_times, 0.5), quantile(&process_times, 0.5));
    let report = serde_json::json!({
        "program": SOURCE,
        "snapshot_open_ms": opened.as_secs_f64() * 1e3,
        "sandbox": {"runs": sandbox_times.len(), "median_ms": sandbox_ms, "p99_ms": quantile(&sandbox_times, 0.99)},
        "process": {"runs": process_times.len(), "median_ms": process_ms, "p99_ms": quantile(&process_times, 0.99)},
        "median_ratio": process_ms / sandbox_ms,
        "runs_per_second": {"one_thread": one_thread, "two_threads": two_threads},
    });
    if flags.iter().any(|flag| flag == "--json") {
        println!("{report:#}");
    } else {
        println!("sandbox: median {sandbox_ms:.3} ms, p99 {:.3} ms", quantile(&sandbox_times, 0.99));
        println!("python3: median {process_ms:.3} ms, p99 {:.3} ms", quantile(&process_times, 0.99));
        println!("python3 / sandbox: {:.1}", process_ms / sandbox_ms);
        println!("sandboxes per second: {one_thread:.0} on one thread, {two_threads:.0} on two");
    }
    Ok(())
}

/// One program in a fresh sandbox, its output checked.
fn in_sandbox(sandbox: &LocalSandbox) -> Result<(), String> {
    let program = Program { source: SOURCE.into(), seed: 0 };
    let ended = sandbox.execute(&program, &Limits::default());
    if ended.stdout == b"hi\n" { Ok(()) } else { Err(format!("the sandbox printed something else: {ended:?}")) }
}

/// The same in a fresh interpreter process.
fn in_process() -> Result<(), String> {
    let ended = Command::new("python3").args(["-c", SOURCE]).stdin(Stdio::null()).output();
    let ended = ended.map_err(|error| format!("cannot run python3: {error}"))?;
    if ended.stdout == b"hi\n" { Ok(()) } else { Err("python3 printed something else".into()) }
}

/// Milliseconds of each of `runs` runs, sorted.
fn sample(runs: usize, mut work: impl FnMut() -> Result<(), String>) -> Result<Vec<f64>, String> {
    let mut times = Vec::with_capacity(runs);
    for _ in 0..runs {
        let started = Instant::now();
        work()?;
        times.push(started.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

fn quantile(sorted: &[f64], q: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    sorted.get((last as f64 * q).round() as usize).copied().unwrap_or(f64::NAN)
}

/// Sandboxes per second over `threads` threads of this process.
fn throughput(sandbox: &LocalSandbox, threads: usize, runs: usize) -> Result<f64, String> {
    let started = Instant::now();
    let each = runs.div_ceil(threads);
    thread::scope(|scope| {
        let handles: Vec<_> =
            (0..threads).map(|_| scope.spawn(|| sample(each, || in_sandbox(sandbox)).map(drop))).collect();
        handles.into_iter().try_for_each(|handle| handle.join().map_err(|_| "a thread panicked".to_owned())?)
    })?;
    let elapsed: Duration = started.elapsed();
    Ok((each * threads) as f64 / elapsed.as_secs_f64())
}
