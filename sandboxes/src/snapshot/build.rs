//! Making a snapshot: start the interpreter, let it import, write its memory back as a module, compile that.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use wasmtime::{Instance, Module, Store};
use wasmtime_wizer::{WasmtimeWizer, Wizer};

use super::{SnapshotError, SnapshotProgress};
use crate::engine;
use crate::guest::{GuestState, HARNESS, block_on};
use crate::image::ImageSpec;
use crate::program::Limits;
use crate::wasi::Library;

/// What the interpreter runs before it is frozen: common imports, the harness, and each of its paths once.
pub(super) const WARM_UP: &str = include_str!("warm_up.py");

/// Between two reports of a long phase.
const REPORT: Duration = Duration::from_millis(200);

/// The serialised, compiled snapshot.
pub(super) fn build(
    engine: &wasmtime::Engine,
    image: &'static ImageSpec,
    image_dir: &Path,
    progress: &dyn Fn(SnapshotProgress),
) -> Result<Vec<u8>, SnapshotError> {
    let fail = |error: wasmtime::Error| SnapshotError::Build { image: image.name, detail: format!("{error:#}") };
    let read = |path: &Path, source| SnapshotError::Image { image: image.name, path: path.to_owned(), source };
    let module_path = image.module_path(image_dir);
    let library_path = image.library_path(image_dir);
    let library = Library::open(&library_path, image.library_dir, image.library_name)
        .map_err(|source| read(&library_path, source))?;
    let wasm = fs::read(&module_path).map_err(|source| read(&module_path, source))?;
    let initialised =
        reporting(&|elapsed| progress(SnapshotProgress::Initialising { elapsed }), || initialise(&wasm, library))
            .map_err(fail)?;
    drop(wasm);
    reporting(&|elapsed| progress(SnapshotProgress::Compiling { elapsed }), || engine.precompile_module(&initialised))
        .map_err(fail)
}

/// Runs `work` on a thread of its own, and reports from this one until it is done.
fn reporting<T: Send>(
    report: &dyn Fn(Duration),
    work: impl FnOnce() -> wasmtime::Result<T> + Send,
) -> wasmtime::Result<T> {
    let started = Instant::now();
    thread::scope(|scope| {
        let handle = scope.spawn(work);
        while !handle.is_finished() {
            report(started.elapsed());
            thread::park_timeout(REPORT.min(started.elapsed() + Duration::from_millis(5)));
        }
        handle.join().unwrap_or_else(|_| Err(wasmtime::Error::msg("it panicked")))
    })
}

/// Starts the interpreter and returns it as a module whose memory is what the start left.
fn initialise(wasm: &[u8], library: Library) -> wasmtime::Result<Vec<u8>> {
    let engine = wasmtime::Engine::new(&engine::initialising())?;
    let wizer = Wizer::new();
    let (context, instrumented) = wizer.instrument(wasm)?;
    let module = Module::new(&engine, &instrumented)?;
    drop(instrumented);
    let limits = Limits { output_bytes: 1 << 20, ..Limits::default() };
    let mut state = GuestState::new(Arc::new(library), &limits, 1 << 30, 0);
    state.job = HARNESS.as_bytes().to_vec();
    state.fuel_given = u64::MAX;
    let mut store = Store::new(&engine, state);
    store.set_fuel(u64::MAX)?;
    store.set_epoch_deadline(u64::MAX >> 1);
    let linker = engine::linker(&engine)?;
    let instance = ran(block_on(linker.instantiate_async(&mut store, &module)))?;
    warm_up(&mut store, &instance)?;
    ran(block_on(wizer.snapshot(&context, &mut WasmtimeWizer { store: &mut store, instance })))
}

fn warm_up(store: &mut Store<GuestState>, instance: &Instance) -> wasmtime::Result<()> {
    let memory = instance
        .get_memory(&mut *store, "memory")
        .ok_or_else(|| wasmtime::Error::msg("the module exports no memory"))?;
    store.data_mut().memory = Some(memory);
    let turn = instance.get_typed_func::<(i32, i32), i32>(&mut *store, "turn")?;
    let alloc = instance.get_typed_func::<i32, i32>(&mut *store, "host_alloc")?;
    let length = i32::try_from(WARM_UP.len()).map_err(wasmtime::Error::new)?;
    let at = ran(block_on(alloc.call_async(&mut *store, length)))?;
    memory.write(&mut *store, at as u32 as usize, WARM_UP.as_bytes())?;
    let status = ran(block_on(turn.call_async(&mut *store, (at, length))))?;
    if status == 0 {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&store.data().stderr.bytes).into_owned();
    Err(wasmtime::Error::msg(format!("its first program failed with status {status}: {said}")))
}

fn ran<T>(result: Option<wasmtime::Result<T>>) -> wasmtime::Result<T> {
    result.unwrap_or_else(|| Err(wasmtime::Error::msg("the interpreter's start waits for something")))
}
