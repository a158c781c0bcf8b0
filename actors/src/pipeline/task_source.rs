//! Stage: chooses what runs next, as far as the ledger's bounds allow.
//!
//! The first stage of the flow and the last to be wired. It holds no state of its own: the ledger has the queue, the curriculum and
//! the cursor, so a restart loses nothing.

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::task::JoinHandle;

use crate::pipeline::Shared;
use crate::pipeline::rollout::RolloutMsg;

/// Messages of the source.
#[derive(Debug)]
pub enum SourceMsg {
    /// Hand out whatever may run now.
    Pump,
}

/// The task source actor.
#[derive(Debug)]
pub struct TaskSource;

/// What a source starts from.
#[derive(Debug, Clone)]
pub struct SourceArgs {
    /// Where groups go.
    pub rollout: ActorRef<RolloutMsg>,
    /// The ledger.
    pub shared: Shared,
}

/// The watcher of the ledger; aborted with the actor.
#[derive(Debug)]
pub struct SourceState {
    args: SourceArgs,
    watcher: JoinHandle<()>,
}

impl Drop for SourceState {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

impl Actor for TaskSource {
    type Msg = SourceMsg;
    type State = SourceState;
    type Arguments = SourceArgs;

    async fn pre_start(
        &self,
        myself: ActorRef<SourceMsg>,
        args: SourceArgs,
    ) -> Result<SourceState, ActorProcessingErr> {
        let ledger = Arc::clone(&args.shared.ledger);
        let watcher = tokio::spawn(async move {
            loop {
                let changed = ledger.changed();
                tokio::pin!(changed);
                // Listening starts before the look, so that no change falls in between.
                changed.as_mut().enable();
                if myself.cast(SourceMsg::Pump).is_err() {
                    return;
                }
                changed.await;
            }
        });
        Ok(SourceState { args, watcher })
    }

    async fn handle(
        &self,
        _myself: ActorRef<SourceMsg>,
        msg: SourceMsg,
        state: &mut SourceState,
    ) -> Result<(), ActorProcessingErr> {
        match msg {
            SourceMsg::Pump => {
                while let Some((spec, permit)) = state.args.shared.ledger.next() {
                    state.args.rollout.cast(RolloutMsg::Run { spec, permit })?;
                }
                Ok(())
            }
        }
    }
}
