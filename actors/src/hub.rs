//! What observers see: rollouts, steps, the end. A subscriber that stops reading is cut off, never waited for without end.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::Stream;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use crate::types::{GroupId, Rollout, TaskId};
use rehearsal_models::StepReport;

/// Events a subscriber may leave unread before senders wait for it.
const BUFFER: usize = 4096;
/// How long senders wait for a full subscriber before it is cut off.
const PATIENCE: Duration = Duration::from_secs(10);

/// Something that happened in the pipeline.
#[derive(Debug, Clone)]
pub enum Event {
    /// An episode ended.
    Rollout(Arc<Rollout>),
    /// A group ended; its rollouts came before.
    GroupEnded {
        /// The group.
        id: GroupId,
        /// Its task.
        task_id: TaskId,
        /// What became of it: a label of `groups_total`, or `finished` for groups that were not trained on by design.
        fate: &'static str,
    },
    /// The learner consumed a batch.
    Step(Arc<StepSummary>),
    /// A stage failed and is being restarted.
    Restarted {
        /// Which.
        role: &'static str,
        /// Why.
        cause: String,
    },
    /// The tree has ended. `None` after a stop that was asked for, otherwise the first cause.
    Stopped(Option<String>),
}

/// One step in numbers: a line of `metrics.jsonl`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepSummary {
    /// Batches consumed, this one included.
    pub step: u64,
    /// The weights version after it.
    pub weights_version: u64,
    /// Mean reward of the batch.
    pub reward: f64,
    /// Standard deviation of the batch's rewards (population).
    pub reward_std: f64,
    /// Share of scored episodes that passed.
    pub pass_rate: f64,
    /// Episodes by outcome.
    pub outcomes: std::collections::BTreeMap<String, u64>,
    /// Groups consumed, groups of zero variance among them.
    pub groups: u64,
    /// Groups whose rewards were all equal.
    pub zero_variance_groups: u64,
    /// Mean tokens per completion.
    pub completion_tokens_mean: f64,
    /// Share of completions cut by `max_tokens` or the context.
    pub truncated: f64,
    /// Completion tokens of the batch.
    pub completion_tokens: u64,
    /// Completion tokens per second while the batch was generated.
    pub generator_tokens_per_second: f64,
    /// Forwarded tokens per second of the learner's step; 0 where no step was taken.
    pub learner_tokens_per_second: f64,
    /// Largest age of a token at consumption, in versions.
    pub staleness_max: u64,
    /// Mean age.
    pub staleness_mean: f64,
    /// What the learner did; `None` where the step was refused or had nothing to learn from.
    pub learner: Option<StepReport>,
    /// Why no step was taken.
    pub refused: Option<String>,
    /// Seconds from the batch before to this one.
    pub seconds: f64,
    /// Seconds the learner's step took.
    pub learner_seconds: f64,
}

/// Fans events out to subscribers.
#[derive(Debug, Default)]
pub struct Hub {
    subscribers: Mutex<Vec<mpsc::Sender<Event>>>,
}

/// A subscriber's end. Dropping it unsubscribes.
#[derive(Debug)]
pub struct Subscription {
    events: mpsc::Receiver<Event>,
}

impl Subscription {
    /// The next event; `None` once the tree has ended or this subscriber was cut off for not reading.
    pub async fn next(&mut self) -> Option<Event> {
        self.events.recv().await
    }

    /// The events as a stream.
    pub fn into_stream(self) -> impl Stream<Item = Event> + Send + Unpin {
        Box::pin(futures::stream::unfold(self.events, |mut events| async move {
            events.recv().await.map(|event| (event, events))
        }))
    }
}

impl Hub {
    /// Receives every event from now on.
    pub fn subscribe(&self) -> Subscription {
        let (sender, events) = mpsc::channel(BUFFER);
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        Subscription { events }
    }

    /// Hands `event` to every subscriber; waits ten seconds for a full one at most.
    pub async fn publish(&self, event: Event) {
        let subscribers: Vec<_> = self.subscribers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for subscriber in subscribers {
            match subscriber.send_timeout(event.clone(), PATIENCE).await {
                Ok(()) => {}
                Err(mpsc::error::SendTimeoutError::Closed(_)) => self.forget(&subscriber),
                Err(mpsc::error::SendTimeoutError::Timeout(_)) => {
                    tracing::error!(buffer = BUFFER, "subscriber does not read its events, cut off");
                    self.forget(&subscriber);
                }
            }
        }
    }

    /// Ends every subscription after the events already sent.
    pub fn close(&self) {
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn forget(&self, gone: &mpsc::Sender<Event>) {
        self.subscribers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .retain(|subscriber| !subscriber.same_channel(gone));
    }
}
