//! What a guest's store holds: limits, captured output, virtual time, the door to the host.

use std::fmt;
use std::sync::Arc;

use wasmtime::{Caller, Memory, ResourceLimiter};

use crate::program::Limits;
use crate::wasi::Library;
use crate::workspace::Workspace;

/// Nanoseconds since the epoch at which every guest starts: 2025-01-01T00:00:00Z.
const CLOCK_START_NS: u64 = 1_735_689_600_000_000_000;

/// Why the host stopped a guest: travels as the error of a host function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Halt {
    /// `proc_exit`.
    #[error("the program left with status {0}")]
    Exit(i32),
    /// Output past its limit.
    #[error("output limit reached")]
    OutputLimit,
    /// The callee behind the door ended for good, so nothing can be answered.
    #[error("the called program ended")]
    CalleeEnded,
}

/// What a callee answers: a frame, or that it has ended.
pub(crate) enum Answer {
    /// The answer's bytes.
    Frame(Vec<u8>),
    /// No answer will ever come.
    Ended,
}

/// Whoever answers a guest's calls through the door.
pub(crate) type Callee = Box<dyn FnMut(&[u8]) -> Answer + Send>;

/// Bytes kept of one output stream.
#[derive(Debug, Default)]
pub(crate) struct Capture {
    /// What was written, cut at the limit.
    pub(crate) bytes: Vec<u8>,
}

/// Decides growth by a fixed cap, never by the host's memory, and remembers what it refused.
#[derive(Debug)]
pub(crate) struct MemoryLimiter {
    /// Largest linear memory allowed, bytes.
    pub(crate) max: usize,
    /// Largest linear memory reached, bytes.
    pub(crate) peak: usize,
    /// Elements that all tables together may still gain: any number until the instance exists, whose first ones are the image's own.
    pub(crate) table_elements: usize,
    /// Whether a growth was refused.
    pub(crate) denied: bool,
}

/// The data of a guest's store.
pub(crate) struct GuestState {
    /// The guest's memory, once instantiated.
    pub(crate) memory: Option<Memory>,
    pub(crate) limiter: MemoryLimiter,
    pub(crate) stdout: Capture,
    pub(crate) stderr: Capture,
    /// Standard input, and how much of it has been read.
    pub(crate) stdin: Vec<u8>,
    pub(crate) stdin_read: usize,
    /// Bytes allowed on each stream.
    pub(crate) output_limit: usize,
    /// Its files and descriptors.
    pub(crate) workspace: Workspace,
    /// State of the generator behind `random_get`.
    pub(crate) entropy: u64,
    /// Fuel given so far: the virtual clock runs on the fuel used.
    pub(crate) fuel_given: u64,
    /// Nanoseconds added to the virtual clock by sleeps.
    pub(crate) slept_ns: u64,
    /// What the guest fetches when it asks for its job.
    pub(crate) job: Vec<u8>,
    /// What the guest answered last.
    pub(crate) reply: Option<Vec<u8>>,
    /// Who answers the guest's calls; nobody for programs and players.
    pub(crate) callee: Option<Callee>,
}

impl fmt::Debug for GuestState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuestState").field("limiter", &self.limiter).finish_non_exhaustive()
    }
}

impl GuestState {
    /// The state of a new guest. `image_bytes` is the size of the snapshot's memory, which the limit comes on top of.
    pub(crate) fn new(library: Arc<Library>, limits: &Limits, image_bytes: usize, seed: u64) -> Self {
        let extra = usize::try_from(limits.memory_bytes).unwrap_or(usize::MAX);
        Self {
            memory: None,
            limiter: MemoryLimiter {
                max: image_bytes.saturating_add(extra),
                peak: image_bytes,
                table_elements: usize::MAX,
                denied: false,
            },
            stdout: Capture::default(),
            stderr: Capture::default(),
            stdin: Vec::new(),
            stdin_read: 0,
            output_limit: limits.output_bytes,
            workspace: Workspace::for_guest(library, limits),
            entropy: seed,
            fuel_given: limits.fuel,
            slept_ns: 0,
            job: Vec::new(),
            reply: None,
            callee: None,
        }
    }

    /// The next 64 bits of the guest's entropy (SplitMix64, Steele et al. 2014): seeded, so the same in every run.
    pub(crate) fn next_entropy(&mut self) -> u64 {
        self.entropy = self.entropy.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.entropy;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// The virtual wall clock in nanoseconds: one per unit of fuel used, plus the sleeps.
    pub(crate) fn clock_ns(&self, fuel_left: u64) -> u64 {
        CLOCK_START_NS + self.monotonic_ns(fuel_left)
    }

    /// Virtual nanoseconds since the guest's start.
    pub(crate) fn monotonic_ns(&self, fuel_left: u64) -> u64 {
        self.fuel_given.saturating_sub(fuel_left).saturating_add(self.slept_ns)
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(&mut self, _current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let allowed = desired <= self.max && maximum.is_none_or(|maximum| desired <= maximum);
        if allowed {
            self.peak = self.peak.max(desired);
        } else {
            self.denied = true;
        }
        Ok(allowed)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.denied = true;
        Ok(())
    }

    fn table_growing(&mut self, current: usize, desired: usize, maximum: Option<usize>) -> wasmtime::Result<bool> {
        let more = desired.saturating_sub(current);
        let allowed = more <= self.table_elements && maximum.is_none_or(|maximum| desired <= maximum);
        if allowed {
            self.table_elements -= more;
        } else {
            self.denied = true;
        }
        Ok(allowed)
    }
}

/// The guest's memory and state, borrowed together; `None` before the instance exists.
pub(crate) fn split<'a>(caller: &'a mut Caller<'_, GuestState>) -> Option<(&'a mut [u8], &'a mut GuestState)> {
    let memory = caller.data().memory?;
    Some(memory.data_and_store_mut(caller))
}

/// Charges fuel for work the host does on the guest's behalf, so that host calls cannot stretch a run.
pub(crate) fn charge(caller: &mut Caller<'_, GuestState>, units: u64) -> wasmtime::Result<()> {
    let left = caller.get_fuel()?;
    caller.set_fuel(left.saturating_sub(units))
}
