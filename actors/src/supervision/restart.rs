//! Restarts as a pure function: deaths and the time go in, `Restart { after }` or `Escalate` comes out.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How often something may be restarted, and how long to wait before each time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RestartPolicy {
    /// Restarts permitted …
    pub max_restarts: u32,
    /// … within this window.
    pub window: Duration,
    /// Wait before the first restart; doubled at each further one within the window.
    pub backoff: Duration,
    /// The longest wait.
    pub backoff_max: Duration,
}

impl Default for RestartPolicy {
    fn default() -> Self {
        Self {
            max_restarts: 5,
            window: Duration::from_secs(300),
            backoff: Duration::from_millis(200),
            backoff_max: Duration::from_secs(30),
        }
    }
}

/// What to do about a death.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Start it again after this long.
    Restart {
        /// The back-off.
        after: Duration,
    },
    /// It died too often: the next one up decides.
    Escalate {
        /// Deaths within the window.
        restarts: u32,
    },
}

/// The deaths of one child within its window.
#[derive(Debug, Clone, Default)]
pub struct RestartWindow {
    deaths: VecDeque<Instant>,
}

impl RestartWindow {
    /// Records a death at `now` and decides. The wait carries up to a quarter of jitter, taken from the clock's low bits, so
    /// that children that died together do not come back together.
    pub fn decide(&mut self, policy: &RestartPolicy, now: Instant) -> Decision {
        while self.deaths.front().is_some_and(|first| now.saturating_duration_since(*first) >= policy.window) {
            self.deaths.pop_front();
        }
        self.deaths.push_back(now);
        let deaths = self.deaths.len() as u32;
        if deaths > policy.max_restarts {
            return Decision::Escalate { restarts: deaths };
        }
        let wait =
            policy.backoff.saturating_mul(1_u32.checked_shl(deaths - 1).unwrap_or(u32::MAX)).min(policy.backoff_max);
        let jitter = wait.mul_f64(0.25 * f64::from(rand::random::<u8>()) / 255.0);
        Decision::Restart { after: wait + jitter }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn waits_double_up_to_the_cap_then_escalate() {
        let policy = RestartPolicy {
            max_restarts: 4,
            window: Duration::from_secs(60),
            backoff: Duration::from_millis(100),
            backoff_max: Duration::from_millis(400),
        };
        let (mut window, now) = (RestartWindow::default(), Instant::now());
        for expected_ms in [100_u64, 200, 400, 400] {
            let Decision::Restart { after } = window.decide(&policy, now) else { panic!("escalated too early") };
            let ms = after.as_millis() as u64;
            assert!((expected_ms..=expected_ms * 5 / 4).contains(&ms), "{ms} ms");
        }
        assert_eq!(window.decide(&policy, now), Decision::Escalate { restarts: 5 });
        let later = now + Duration::from_secs(61);
        assert!(matches!(window.decide(&policy, later), Decision::Restart { .. }), "old deaths are forgiven");
    }

    proptest! {
        /// In any window of the policy's length there are at most `max_restarts` restarts.
        #[test]
        fn intensity_is_never_exceeded(gaps_ms in prop::collection::vec(0_u64..2000, 1..100), max in 0_u32..6) {
            let policy = RestartPolicy { max_restarts: max, window: Duration::from_secs(2), ..RestartPolicy::default() };
            let (mut window, mut now, mut restarts) = (RestartWindow::default(), Instant::now(), Vec::new());
            for gap in gaps_ms {
                now += Duration::from_millis(gap);
                if matches!(window.decide(&policy, now), Decision::Restart { .. }) { restarts.push(now); }
                let recent = restarts.iter().filter(|at| now.duration_since(**at) < policy.window).count();
                prop_assert!(recent <= max as usize);
            }
        }
    }
}
