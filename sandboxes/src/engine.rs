//! The engine: one Wasmtime configuration for all snapshots, and the clock of the wall-time backstop.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use wasmtime::{
    Config, Enabled, EngineWeak, InstanceAllocationStrategy, InstancePre, Linker, Module, OptLevel,
    PoolingAllocationConfig, RegallocAlgorithm, Strategy, WasmBacktraceDetails,
};

use crate::guest::GuestState;
use crate::wasi::{self, Library};

/// The resolution of the wall-clock backstop.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Native stack of a guest, bytes. Each guest runs on a stack of its own, whatever thread calls it.
const GUEST_STACK: usize = 16 << 20;
/// What host functions may use of that stack, bytes.
const HOST_STACK: usize = 2 << 20;
/// Sandboxes alive at once in one process; a judgement takes two.
pub const INSTANCES_MAX: u32 = 256;
/// Address space of one linear memory; with it nearly all bounds checks disappear.
const MEMORY_SLOT: usize = 4 << 30;
/// The interpreter's tables and instance data are far above the allocator's defaults.
const TABLE_ELEMENTS: usize = 100_000;
const INSTANCE_BYTES: usize = 4 << 20;
/// Memory that stays with a slot between two guests: resetting it by copying is cheaper than giving it back.
const KEEP_RESIDENT: usize = 64 << 20;

/// Settings that decide what a program computes, so that the same program does the same everywhere.
fn deterministic() -> Config {
    let mut config = Config::new();
    config
        .strategy(Strategy::Cranelift)
        .consume_fuel(true)
        .epoch_interruption(true)
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        .max_wasm_stack(GUEST_STACK - HOST_STACK)
        .async_stack_size(GUEST_STACK)
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .wasm_backtrace_max_frames(None)
        .native_unwind_info(false);
    config
}

/// The configuration snapshots are compiled for and run under.
pub(crate) fn running() -> Config {
    let mut pool = PoolingAllocationConfig::default();
    pool.total_core_instances(INSTANCES_MAX)
        .total_memories(INSTANCES_MAX)
        .total_tables(INSTANCES_MAX * 2)
        .total_stacks(INSTANCES_MAX)
        .max_core_instance_size(INSTANCE_BYTES)
        .table_elements(TABLE_ELEMENTS)
        .max_tables_per_module(2)
        .max_memory_size(MEMORY_SLOT)
        .linear_memory_keep_resident(KEEP_RESIDENT)
        .table_keep_resident(1 << 20)
        .pagemap_scan(Enabled::Auto)
        .max_unused_warm_slots(16);
    let mut config = deterministic();
    config.memory_init_cow(true).allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
    config
}

/// A configuration for the one run that makes a snapshot: compiles fast, runs slowly.
pub(crate) fn initialising() -> Config {
    let mut config = deterministic();
    config.cranelift_opt_level(OptLevel::None).cranelift_regalloc_algorithm(RegallocAlgorithm::SinglePass);
    config
}

/// The configuration's linker.
pub(crate) fn linker(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<GuestState>> {
    let mut linker = Linker::new(engine);
    wasi::link(&mut linker)?;
    Ok(linker)
}

/// A snapshot ready to be instantiated from any thread.
pub(crate) struct Engine {
    engine: wasmtime::Engine,
    prepared: InstancePre<GuestState>,
    library: Arc<Library>,
    image_bytes: usize,
    _ticker: Arc<Ticker>,
}

impl Engine {
    /// Links a module once for all its instances.
    pub(crate) fn new(engine: wasmtime::Engine, module: &Module, library: Library) -> wasmtime::Result<Self> {
        let prepared = linker(&engine)?.instantiate_pre(module)?;
        let image_bytes = module
            .exports()
            .find_map(|export| export.ty().memory().map(|memory| memory.minimum() << 16))
            .and_then(|bytes| usize::try_from(bytes).ok())
            .ok_or_else(|| wasmtime::Error::msg("the module exports no memory"))?;
        let ticker = Ticker::start(engine.weak())?;
        Ok(Self { engine, prepared, library: Arc::new(library), image_bytes, _ticker: ticker })
    }

    pub(crate) fn wasmtime(&self) -> &wasmtime::Engine {
        &self.engine
    }

    pub(crate) fn prepared(&self) -> &InstancePre<GuestState> {
        &self.prepared
    }

    pub(crate) fn library(&self) -> Arc<Library> {
        Arc::clone(&self.library)
    }

    /// Size of the snapshot's memory, bytes.
    pub(crate) fn image_bytes(&self) -> usize {
        self.image_bytes
    }
}

/// Advances the engine's epoch from a thread of its own, for as long as the engine lives.
///
/// A timer task would starve beside the guests it has to stop.
struct Ticker;

impl Ticker {
    fn start(engine: EngineWeak) -> wasmtime::Result<Arc<Self>> {
        let alive = Arc::new(Self);
        let watched: Weak<Self> = Arc::downgrade(&alive);
        thread::Builder::new()
            .name("sandbox-ticker".into())
            .spawn(move || {
                while watched.strong_count() > 0 {
                    thread::sleep(TICK);
                    match engine.upgrade() {
                        Some(engine) => engine.increment_epoch(),
                        None => return,
                    }
                }
            })
            .map_err(|error| wasmtime::Error::msg(format!("cannot start the sandbox clock's thread: {error}")))?;
        Ok(alive)
    }
}
