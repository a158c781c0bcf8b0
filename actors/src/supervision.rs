//! The root of the tree: starts the stages, restarts them rest-for-one, watches for progress, keeps the first cause.
//!
//! What it promises: a stage that fails is back within its back-off, together with the stages wired after it; one that fails too often,
//! or a tree in which nothing moves, ends the run with the *first* cause and a diagnosis. Nothing waits for ever.

pub mod restart;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SupervisionEvent};

use crate::hub::Event;
use crate::pipeline::learner::{LearnerMsg, SaveReply};
use crate::pipeline::{PipelineParts, Role, Stages, spawn_pipeline};
use restart::{Decision, RestartWindow};

/// How often the supervisor looks whether anything moved.
const TICK: Duration = Duration::from_secs(1);
/// How long one stage may take to stop before it is killed.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// Messages of the supervisor.
#[derive(Debug)]
pub enum SupervisorMsg {
    /// A back-off is over: spawn what is missing. Ignored if another failure came in between.
    Respawn {
        /// The failure it answers.
        generation: u64,
    },
    /// Look for progress.
    Tick,
    /// Write a checkpoint.
    Save {
        /// The directory to create it in.
        root: PathBuf,
        /// Where the answer goes.
        reply: SaveReply,
    },
    /// Stop every stage but the learner, for good: what it has is consumed, and nothing more comes.
    Quiesce,
    /// Stop every stage in flow order, then this actor.
    Stop,
}

/// The supervisor actor. Its failure, seen by whoever supervises it, carries the first cause.
#[derive(Debug)]
pub struct Supervisor;

/// The running tree.
#[derive(Debug)]
pub struct SupervisorState {
    parts: PipelineParts,
    stages: Stages,
    windows: BTreeMap<&'static str, RestartWindow>,
    first_cause: Option<String>,
    generation: u64,
    ticks_seen: u64,
    moved_at: Instant,
}

impl Actor for Supervisor {
    type Msg = SupervisorMsg;
    type State = SupervisorState;
    type Arguments = PipelineParts;

    async fn pre_start(
        &self,
        myself: ActorRef<SupervisorMsg>,
        parts: PipelineParts,
    ) -> Result<SupervisorState, ActorProcessingErr> {
        let mut stages = Stages::default();
        if let Err((role, error)) = spawn_pipeline(&parts, &mut stages, &myself.get_cell()).await {
            return Err(format!("{} did not start: {error}", role.label()).into());
        }
        let state = SupervisorState {
            parts,
            stages,
            windows: BTreeMap::new(),
            first_cause: None,
            generation: 0,
            ticks_seen: 0,
            moved_at: Instant::now(),
        };
        state.show_up();
        myself.send_interval(TICK, || SupervisorMsg::Tick);
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<SupervisorMsg>,
        msg: SupervisorMsg,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        match msg {
            SupervisorMsg::Respawn { generation } => state.respawn(&myself, generation).await,
            SupervisorMsg::Tick => state.watch().await,
            SupervisorMsg::Save { root, reply } => state.save(root, reply),
            SupervisorMsg::Quiesce => {
                state.parts.shared.ledger.close();
                state.stop_from(Role::Evaluator).await;
                Ok(())
            }
            SupervisorMsg::Stop => {
                state.stop_from(Role::Learner).await;
                state.parts.shared.hub.publish(Event::Stopped(None)).await;
                state.parts.shared.hub.close();
                myself.stop(None);
                Ok(())
            }
        }
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<SupervisorMsg>,
        event: SupervisionEvent,
        state: &mut SupervisorState,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(cell, error) => state.bury(&myself, &cell, error.to_string()).await,
            SupervisionEvent::ActorTerminated(cell, _state, reason) => {
                state.bury(&myself, &cell, reason.unwrap_or_else(|| "ended without being asked to".to_owned())).await
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => Ok(()),
        }
    }
}

impl SupervisorState {
    /// A stage is gone. Those we stopped ourselves were forgotten first, so whoever is still known here failed.
    async fn bury(
        &mut self,
        myself: &ActorRef<SupervisorMsg>,
        cell: &ActorCell,
        cause: String,
    ) -> Result<(), ActorProcessingErr> {
        let Some((role, _)) = self.stages.cells().into_iter().find(|(_, known)| known.get_id() == cell.get_id()) else {
            return Ok(());
        };
        self.failed(myself, role, cause).await
    }

    async fn failed(
        &mut self,
        myself: &ActorRef<SupervisorMsg>,
        role: Role,
        cause: String,
    ) -> Result<(), ActorProcessingErr> {
        let first = self.first_cause.get_or_insert_with(|| format!("{}: {cause}", role.label())).clone();
        self.stop_from(role).await;
        let window = self.windows.entry(role.label()).or_default();
        match window.decide(&self.parts.restart, Instant::now()) {
            Decision::Restart { after } => {
                tracing::warn!(
                    role = role.label(),
                    cause,
                    after_ms = after.as_millis() as u64,
                    "stage failed, restarting"
                );
                self.parts.shared.metrics.actor_restarts_total.add(role.label(), 1);
                self.publish(Event::Restarted { role: role.label(), cause });
                self.generation += 1;
                let generation = self.generation;
                myself.send_after(after, move || SupervisorMsg::Respawn { generation });
                Ok(())
            }
            Decision::Escalate { restarts } => {
                let cause = format!("{} failed {restarts} times; first cause: {first}; last: {cause}", role.label());
                Err(self.give_up(cause).await)
            }
        }
    }

    async fn respawn(&mut self, myself: &ActorRef<SupervisorMsg>, generation: u64) -> Result<(), ActorProcessingErr> {
        if generation != self.generation {
            return Ok(());
        }
        let spawned = spawn_pipeline(&self.parts, &mut self.stages, &myself.get_cell()).await;
        self.show_up();
        match spawned {
            Ok(()) => Ok(()),
            Err((role, error)) => self.failed(myself, role, error.to_string()).await,
        }
    }

    /// Stops `from` and every stage after it, last wired first: that is flow order. What they held goes back to the ledger.
    async fn stop_from(&mut self, from: Role) {
        let doomed: Vec<_> = self.stages.cells().into_iter().filter(|(role, _)| *role >= from).collect();
        self.stages.forget_from(from);
        for (_, cell) in doomed.into_iter().rev() {
            if cell.stop_and_wait(None, Some(STOP_PATIENCE)).await.is_err() {
                cell.kill();
            }
        }
        self.show_up();
    }

    fn show_up(&self) {
        let up = self.stages.cells();
        for role in Role::ALL {
            let is_up = up.iter().any(|(known, _)| *known == role);
            self.parts.shared.metrics.actor_up.set(role.label(), if is_up { 1.0 } else { 0.0 });
        }
    }

    /// The watchdog: work in flight and nothing moving ends the run, and says who waited for whom.
    async fn watch(&mut self) -> Result<(), ActorProcessingErr> {
        let shared = &self.parts.shared;
        for (id, task_id) in shared.ledger.take_abandoned() {
            shared.metrics.groups_total.add("quarantined", 1);
            shared.hub.publish(Event::GroupEnded { id, task_id, fate: "quarantined" }).await;
        }
        if shared.ledger.is_starved() {
            let (task, reason) = shared
                .ledger
                .quarantined()
                .into_iter()
                .next()
                .map_or_else(Default::default, |(t, r)| (t.to_string(), r));
            let cause = format!("every training task is quarantined; the first, `{task}`: {reason}");
            return Err(self.give_up(cause).await);
        }
        let ticks = shared.progress.ticks();
        let idle = shared.ledger.running() == 0 && shared.ledger.pending() == 0;
        if ticks != self.ticks_seen || idle {
            self.ticks_seen = ticks;
            self.moved_at = Instant::now();
        } else if self.moved_at.elapsed() > self.parts.watchdog {
            let first =
                self.first_cause.as_ref().map_or_else(String::new, |cause| format!("; an earlier failure: {cause}"));
            let cause = format!(
                "no progress for {:?}: {} groups in flight, {}{first}",
                self.parts.watchdog,
                shared.ledger.running(),
                shared.progress.diagnosis(),
            );
            return Err(self.give_up(cause).await);
        }
        Ok(())
    }

    /// Ends the tree with a cause; the error is what this actor's own supervisor sees.
    async fn give_up(&mut self, cause: String) -> ActorProcessingErr {
        tracing::error!(cause, "the run cannot go on");
        self.parts.shared.ledger.close();
        self.stop_from(Role::Learner).await;
        self.parts.shared.hub.publish(Event::Stopped(Some(cause.clone()))).await;
        self.parts.shared.hub.close();
        cause.into()
    }

    fn save(&self, root: PathBuf, reply: SaveReply) -> Result<(), ActorProcessingErr> {
        match &self.stages.learner {
            Some(learner) => {
                // If the learner has just died the port is dropped, and the asker sees that.
                let _ = learner.cast(LearnerMsg::Save { root, reply });
            }
            None => {
                let _ = reply.send(Err("there is no learner, or it is being restarted".to_owned()));
            }
        }
        Ok(())
    }

    fn publish(&self, event: Event) {
        let hub = Arc::clone(&self.parts.shared.hub);
        tokio::spawn(async move { hub.publish(event).await });
    }
}
