//! `print('hi')` in a fresh sandbox of a warm pool against a fresh `python3` process, in the same run.
//!
//! `cargo bench --bench sandbox` prints medians, 99th percentiles and the ratio; `-- --runs N` changes the number of runs.

#![allow(clippy::print_stdout, reason = "its output is the result")]

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use rehearsal::home::Home;
use rehearsal::prepare;
use rehearsal::progress::Quiet;
use rehearsal::{Limits, Sandbox};
use rehearsal_sandboxes::Program;

const SOURCE: &str = "print('hi')";
/// A process is some thirty times slower: fewer of them give as steady a median.
const RUNS_PER_PROCESS: usize = 10;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let runs = arguments.windows(2).find(|pair| pair[0] == "--runs").map_or(Ok(2000), |pair| pair[1].parse())?;
    let started = Instant::now();
    let sandbox = prepare::sandbox(&Home::open()?, "python", &Quiet)?;
    println!("snapshot mapped in {:.1} ms", started.elapsed().as_secs_f64() * 1e3);

    sample(50, || in_sandbox(sandbox.as_ref()))?;
    let sandboxed = sample(runs, || in_sandbox(sandbox.as_ref()))?;
    let python = interpreter()?;
    let processes = sample((runs / RUNS_PER_PROCESS).max(20), || in_process(&python))?;
    let (fresh, process) = (quantile(&sandboxed, 0.5), quantile(&processes, 0.5));
    println!("sandbox  median {fresh:.3} ms  p99 {:.3} ms  ({} runs)", quantile(&sandboxed, 0.99), sandboxed.len());
    println!("python3  median {process:.3} ms  p99 {:.3} ms  ({} runs)", quantile(&processes, 0.99), processes.len());
    println!("ratio    {:.1}", process / fresh);
    for threads in [1, 2] {
        println!("{threads} thread(s): {:.0} programs/s", throughput(&sandbox, threads, runs)?);
    }
    let mut rates = Vec::new();
    for processes in [1, 2] {
        let program = env!("CARGO_BIN_EXE_rehearsal").into();
        let workers: Arc<dyn Sandbox> =
            Arc::new(prepare::worker_sandbox(&Home::open()?, "python", program, processes, &Quiet)?);
        // Starts them all.
        throughput(&workers, processes, 50 * processes)?;
        rates.push(throughput(&workers, processes, runs)?);
        println!("{processes} worker process(es): {:.0} programs/s", rates[processes - 1]);
    }
    println!("two workers against one: {:.2}", rates[1] / rates[0]);
    Ok(())
}

fn in_sandbox(sandbox: &dyn Sandbox) -> Result<()> {
    let ended = sandbox.execute(&Program::new(SOURCE, 0), &Limits::default());
    ensure!(ended.stdout == b"hi\n", "the sandbox printed something else: {ended:?}");
    Ok(())
}

/// The interpreter itself: `python3` may be a launcher script, whose start-up is not the peer's.
fn interpreter() -> Result<String> {
    let asked = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output();
    Ok(String::from_utf8(asked.context("cannot run python3")?.stdout)?.trim().to_owned())
}

fn in_process(python: &str) -> Result<()> {
    let ended = Command::new(python).args(["-c", SOURCE]).stdin(Stdio::null()).output();
    let ended = ended.with_context(|| format!("cannot run {python}"))?;
    ensure!(ended.stdout == b"hi\n", "{python} printed something else: {ended:?}");
    Ok(())
}

/// Milliseconds of each run, sorted.
fn sample(runs: usize, mut work: impl FnMut() -> Result<()>) -> Result<Vec<f64>> {
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
    sorted[((sorted.len() - 1) as f64 * q).round() as usize]
}

fn throughput(sandbox: &Arc<dyn Sandbox>, threads: usize, runs: usize) -> Result<f64> {
    let started = Instant::now();
    let workers: Vec<_> = (0..threads)
        .map(|_| {
            let sandbox = Arc::clone(sandbox);
            thread::spawn(move || sample(runs / threads, || in_sandbox(sandbox.as_ref())).map(|times| times.len()))
        })
        .collect();
    let mut done = 0;
    for worker in workers {
        done += worker.join().map_err(|_| anyhow::anyhow!("a thread panicked"))??;
    }
    Ok(done as f64 / started.elapsed().as_secs_f64())
}
