//! A guest and its turns.

use std::time::{Duration, Instant};

use wasmtime::{Store, Trap, TypedFunc};

use super::{Callee, GuestState, Halt, block_on};
use crate::engine::{Engine, TICK};
use crate::program::{End, Limits};
use crate::workspace::Workspace;

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TurnEnd {
    /// The harness came to its end; its answer, if the code it ran left it able to give one.
    Returned(Option<Vec<u8>>),
    /// The program left the interpreter (`os._exit`).
    Exit(i32),
    /// The one it called ended first.
    CalleeEnded,
    /// A limit, a trap or a failure of the host, and what it says.
    Ended(End, String),
}

/// A live instance. After anything but `Returned` it must be dropped, not run again.
pub(crate) struct Guest {
    store: Store<GuestState>,
    turn: TypedFunc<(i32, i32), i32>,
    fuel_given: u64,
    start: Duration,
    wall: Duration,
    wall_limit: Duration,
    fuel_used: u64,
}

impl Guest {
    /// A fresh instance of the engine's snapshot.
    pub(crate) fn new(engine: &Engine, limits: &Limits, seed: u64) -> wasmtime::Result<Self> {
        let started = Instant::now();
        let state = GuestState::new(engine.library(), limits, engine.image_bytes(), seed);
        let mut store = Store::new(engine.wasmtime(), state);
        store.limiter(|state| &mut state.limiter);
        store.set_fuel(u64::MAX)?;
        store.set_epoch_deadline(u64::MAX >> 1);
        let instance = match block_on(engine.prepared().instantiate_async(&mut store)) {
            Some(instance) => instance?,
            None => return Err(wasmtime::Error::msg("the instance's start waits for something")),
        };
        let memory = instance
            .get_memory(&mut store, "memory")
            .ok_or_else(|| wasmtime::Error::msg("the module exports no memory"))?;
        let turn = instance.get_typed_func(&mut store, "turn")?;
        store.data_mut().memory = Some(memory);
        store.data_mut().limiter.table_elements = limits.table_elements as usize;
        store.set_fuel(limits.fuel)?;
        let start = started.elapsed();
        Ok(Self {
            store,
            turn,
            fuel_given: limits.fuel,
            start,
            wall: start,
            wall_limit: Duration::from_millis(limits.wall_ms),
            fuel_used: 0,
        })
    }

    /// Sets what the guest reads from descriptor 0.
    pub(crate) fn set_stdin(&mut self, stdin: Vec<u8>) {
        self.store.data_mut().stdin = stdin;
    }

    /// The guest's files.
    pub(crate) fn workspace(&mut self) -> &mut Workspace {
        &mut self.store.data_mut().workspace
    }

    /// Sets who answers the guest's calls through the door.
    pub(crate) fn set_callee(&mut self, callee: Callee) {
        self.store.data_mut().callee = Some(callee);
    }

    /// Runs one turn on a job the harness understands, within what is left of the limits.
    pub(crate) fn turn(&mut self, job: Vec<u8>) -> TurnEnd {
        let started = Instant::now();
        let state = self.store.data_mut();
        state.job = job;
        state.reply = None;
        let ticks = self.wall_limit.saturating_sub(self.wall).as_millis() / TICK.as_millis() + 1;
        self.store.set_epoch_deadline(u64::try_from(ticks).unwrap_or(u64::MAX >> 1));
        let outcome = self.enter();
        self.fuel_used = self.fuel_given.saturating_sub(self.store.get_fuel().unwrap_or(0));
        self.wall += started.elapsed();
        match outcome {
            Ok(()) => TurnEnd::Returned(self.store.data_mut().reply.take()),
            Err(error) => self.classify(&error),
        }
    }

    /// Enters the interpreter with no source: the snapshot put the harness where turns would run their source.
    fn enter(&mut self) -> wasmtime::Result<()> {
        let entered = block_on(self.turn.call_async(&mut self.store, (0, 0)));
        entered.unwrap_or_else(|| Err(wasmtime::Error::msg("the guest waits for something that never comes")))?;
        Ok(())
    }

    /// What stopped the guest. Traps of the guest are deterministic and its own fault; the rest is the host's.
    fn classify(&self, error: &wasmtime::Error) -> TurnEnd {
        let denied = self.store.data().limiter.denied;
        let text = || format!("{:#}", error.root_cause());
        match (error.downcast_ref::<Halt>(), error.downcast_ref::<Trap>()) {
            (Some(Halt::Exit(code)), _) => TurnEnd::Exit(*code),
            (Some(Halt::OutputLimit), _) => TurnEnd::Ended(End::OutputLimit, Halt::OutputLimit.to_string()),
            (Some(Halt::CalleeEnded), _) => TurnEnd::CalleeEnded,
            (None, Some(Trap::OutOfFuel)) => TurnEnd::Ended(End::OutOfFuel, "all fuel consumed".into()),
            (None, Some(Trap::Interrupt)) => {
                let limit = self.wall_limit.as_millis();
                TurnEnd::Ended(End::WallBackstop, format!("still running after {limit} ms with fuel left"))
            }
            (None, Some(_)) if denied => TurnEnd::Ended(End::OutOfMemory, "memory limit reached".into()),
            // The interpreter's own C stack lies at the bottom of its memory: running off it is an access out of bounds.
            (None, Some(Trap::StackOverflow | Trap::MemoryOutOfBounds)) => TurnEnd::Ended(End::StackOverflow, text()),
            (None, Some(_)) => TurnEnd::Ended(End::Exception, format!("the interpreter aborted: {}", text())),
            (None, None) => TurnEnd::Ended(End::HostError, format!("{error:#}")),
        }
    }

    /// Whether a growth of the memory was refused.
    pub(crate) fn memory_denied(&self) -> bool {
        self.store.data().limiter.denied
    }

    /// Instructions used so far.
    pub(crate) fn fuel_used(&self) -> u64 {
        self.fuel_used
    }

    /// Wall-clock time until it could run, microseconds.
    pub(crate) fn start_us(&self) -> u64 {
        u64::try_from(self.start.as_micros()).unwrap_or(u64::MAX)
    }

    /// Wall-clock time so far.
    pub(crate) fn wall(&self) -> Duration {
        self.wall
    }

    /// Largest linear memory so far, bytes.
    pub(crate) fn peak_memory_bytes(&self) -> u64 {
        self.store.data().limiter.peak as u64
    }

    /// What was printed so far: standard output, standard error.
    pub(crate) fn take_output(&mut self) -> (Vec<u8>, Vec<u8>) {
        let state = self.store.data_mut();
        (std::mem::take(&mut state.stdout.bytes), std::mem::take(&mut state.stderr.bytes))
    }
}
