//! Stage: judgement → outcome and reward. The one place that turns evidence into a number.
//!
//! Asked by episode drivers. Task errors put the task into quarantine; infrastructure errors are handed back unscored.

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use serde::Serialize;

use rehearsal_sandboxes::{Judgement, PolicyErrorReason};

use crate::pipeline::Shared;
use crate::task::Task;
use crate::types::{Outcome, RewardRule};

/// What there is to score.
#[derive(Debug)]
pub enum Evidence {
    /// The completion held no code.
    NoCode,
    /// The sandbox's judgement.
    Judged(Judgement),
}

/// An outcome and what it is worth.
#[derive(Debug, Clone, PartialEq)]
pub struct Scored {
    /// The outcome.
    pub outcome: Outcome,
    /// `None` where the outcome may not become a reward.
    pub reward: Option<f64>,
    /// The evidence, handed back.
    pub judgement: Option<Judgement>,
}

/// Messages of the evaluator.
#[derive(Debug)]
pub enum EvaluatorMsg {
    /// Score a completion.
    Score {
        /// The task.
        task: Arc<Task>,
        /// What came of it.
        evidence: Box<Evidence>,
        /// Where the score goes.
        reply: RpcReplyPort<Scored>,
    },
    /// Decide whether a task may be used, from the judgement of its own reference. `None` is a yes.
    Admit {
        /// The task.
        task: Arc<Task>,
        /// The reference's judgement.
        judgement: Box<Judgement>,
        /// Where the answer goes: why not, or `None`.
        reply: RpcReplyPort<Option<String>>,
    },
    /// What it has scored so far.
    Counters(RpcReplyPort<EvaluatorCounters>),
}

/// The evaluator's observable state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct EvaluatorCounters {
    /// Completions scored.
    pub scored: u64,
    /// Completions handed back without a reward.
    pub unscored: u64,
    /// Tasks refused.
    pub quarantined: u64,
}

/// The evaluator actor.
#[derive(Debug)]
pub struct Evaluator;

/// What an evaluator starts from.
#[derive(Debug, Clone)]
pub struct EvaluatorArgs {
    /// How outcomes become rewards.
    pub rewards: RewardRule,
    /// Ledger and metrics.
    pub shared: Shared,
}

/// Its rule and counters.
#[derive(Debug)]
pub struct EvaluatorState {
    args: EvaluatorArgs,
    counters: EvaluatorCounters,
}

impl Actor for Evaluator {
    type Msg = EvaluatorMsg;
    type State = EvaluatorState;
    type Arguments = EvaluatorArgs;

    async fn pre_start(
        &self,
        _myself: ActorRef<EvaluatorMsg>,
        args: EvaluatorArgs,
    ) -> Result<EvaluatorState, ActorProcessingErr> {
        Ok(EvaluatorState { args, counters: EvaluatorCounters::default() })
    }

    async fn handle(
        &self,
        _myself: ActorRef<EvaluatorMsg>,
        msg: EvaluatorMsg,
        state: &mut EvaluatorState,
    ) -> Result<(), ActorProcessingErr> {
        // An asker that is gone is not our failure.
        match msg {
            EvaluatorMsg::Score { task, evidence, reply } => drop(reply.send(state.score(&task, *evidence))),
            EvaluatorMsg::Admit { task, judgement, reply } => drop(reply.send(state.admit(&task, *judgement))),
            EvaluatorMsg::Counters(reply) => drop(reply.send(state.counters.clone())),
        }
        Ok(())
    }
}

impl EvaluatorState {
    fn score(&mut self, task: &Task, evidence: Evidence) -> Scored {
        let scored = match evidence {
            Evidence::NoCode => {
                let outcome = Outcome::PolicyError { reason: PolicyErrorReason::NoCode, detail: String::new() };
                Scored { reward: self.args.rewards.reward(&outcome, None), outcome, judgement: None }
            }
            Evidence::Judged(judgement) => {
                // The reference was judged before the task's first episode, and passed.
                let outcome = blame(checked_outcome(&judgement), task.reference.is_some());
                Scored {
                    reward: self.args.rewards.reward(&outcome, Some(&judgement)),
                    outcome,
                    judgement: Some(judgement),
                }
            }
        };
        match scored.reward {
            Some(_) => self.counters.scored += 1,
            None => self.counters.unscored += 1,
        }
        if let Outcome::TaskError { detail } = &scored.outcome {
            self.quarantine(task, detail);
        }
        scored
    }

    fn admit(&mut self, task: &Task, judgement: Judgement) -> Option<String> {
        let reason = match checked_outcome(&judgement) {
            Outcome::Passed => return None,
            Outcome::TaskError { detail } => detail,
            outcome => format!("its reference solution does not pass: {}: {}", outcome.label(), outcome.detail()),
        };
        self.quarantine(task, &reason);
        Some(reason)
    }

    fn quarantine(&mut self, task: &Task, reason: &str) {
        self.counters.quarantined += 1;
        tracing::warn!(task = %task.id, reason, "task quarantined");
        self.args.shared.ledger.quarantine(&task.id, reason);
    }
}

/// The outcome a judgement stands for. A pass is believed only when every declared test was executed and held: anything else that
/// calls itself a pass is the host's failure, never a reward.
pub fn checked_outcome(judgement: &Judgement) -> Outcome {
    let outcome = Outcome::from(judgement.verdict.clone());
    let complete = judgement.tests_declared > 0
        && judgement.tests_executed == judgement.tests_declared
        && judgement.tests_passed == judgement.tests_declared;
    if outcome == Outcome::Passed && !complete {
        let (executed, declared) = (judgement.tests_executed, judgement.tests_declared);
        return Outcome::InfraError { detail: format!("a pass with {executed} of {declared} declared tests executed") };
    }
    outcome
}

/// Whose fault it is that tests could not be run: where the reference passes the same tests, they can be, and it is the completion that
/// makes them fail (a value the tests choke on, a name it hides from them). A completion must not be able to choose not to be scored.
pub fn blame(outcome: Outcome, reference_passes: bool) -> Outcome {
    match outcome {
        Outcome::TaskError { detail } if reference_passes => {
            Outcome::Failed { test: "the tests ran to their end".to_owned(), expected: String::new(), got: detail }
        }
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rehearsal_sandboxes::{End, Verdict};

    fn judgement(verdict: Verdict, declared: u32, executed: u32, passed: u32) -> Judgement {
        Judgement {
            verdict,
            tests_declared: declared,
            tests_executed: executed,
            tests_passed: passed,
            cases: vec![],
            fuel_used: 1,
            start_us: 1,
            wall_us: 1,
            peak_memory_bytes: 1,
            stdout: vec![],
            stderr: vec![],
            end: End::Exited,
        }
    }

    #[test]
    fn a_pass_needs_every_declared_test() {
        assert_eq!(checked_outcome(&judgement(Verdict::Passed, 3, 3, 3)), Outcome::Passed);
        for (declared, executed, passed) in [(0, 0, 0), (3, 2, 2), (3, 3, 2), (3, 0, 0), (2, 3, 3)] {
            let outcome = checked_outcome(&judgement(Verdict::Passed, declared, executed, passed));
            assert_eq!(outcome.label(), "infra_error", "{declared} {executed} {passed}");
        }
    }

    #[test]
    fn a_completion_cannot_choose_not_to_be_scored() {
        let fault = || Outcome::TaskError { detail: "the tests run out of fuel".into() };
        assert_eq!(blame(fault(), true).label(), "failed");
        assert_eq!(blame(fault(), false), fault());
        let host = Outcome::InfraError { detail: "x".into() };
        assert_eq!(blame(host.clone(), true), host, "the host's failures stay the host's");
    }

    #[test]
    fn partial_credit_is_for_failed_tests_alone() {
        let rule = RewardRule { partial: 0.5, ..RewardRule::default() };
        let failed = Verdict::Failed { test: "case 2".into(), expected: "1".into(), got: "2".into() };
        let reward = |verdict: Verdict| {
            let judgement = judgement(verdict, 4, 4, 2);
            rule.reward(&Outcome::from(judgement.verdict.clone()), Some(&judgement))
        };
        assert_eq!(reward(failed), Some(0.25));
        assert_eq!(reward(Verdict::PolicyError { reason: PolicyErrorReason::Runtime, detail: "x".into() }), Some(0.0));
        assert_eq!(reward(Verdict::InfraError { detail: "x".into() }), None);
    }
}
