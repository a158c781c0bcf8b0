//! The way back from learner to generator: weights are state, not events. The latest wins, and a generator that restarts finds
//! the current version at once.

use tokio::sync::watch;

use rehearsal_models::Weights;

/// The learner's end. Lives outside the learner actor, so a restart of any stage keeps the current weights.
#[derive(Debug, Clone)]
pub struct WeightsChannel {
    sender: watch::Sender<Weights>,
}

impl WeightsChannel {
    /// Starts with `initial`.
    pub fn new(initial: Weights) -> Self {
        Self { sender: watch::Sender::new(initial) }
    }

    /// Makes `weights` the current ones.
    pub fn publish(&self, weights: Weights) {
        self.sender.send_replace(weights);
    }

    /// A reader that has seen nothing yet: its first look finds the current weights.
    pub fn subscribe(&self) -> watch::Receiver<Weights> {
        let mut reader = self.sender.subscribe();
        reader.mark_changed();
        reader
    }

    /// The current version.
    pub fn version(&self) -> u64 {
        self.sender.borrow().version()
    }
}
