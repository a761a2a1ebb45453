//! How long to pause after failures: exponential with jitter, so that many readers do not come back at once.

use std::time::Duration;

/// Counts failures in a row and says how long to pause after each.
#[derive(Debug, Default, Clone)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// One more failure: from `min`, doubling up to `max`, each 20 % more or less.
    pub(crate) fn fail(&mut self, min: Duration, max: Duration, rng: &mut fastrand::Rng) -> Duration {
        let doubled = min.saturating_mul(1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        doubled.min(max).mul_f64(0.8 + 0.4 * rng.f64())
    }

    /// How many failures there were in a row.
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }

    /// It worked: the next failure starts small again.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_the_ceiling_with_jitter() {
        let (mut backoff, mut rng) = (Backoff::default(), fastrand::Rng::with_seed(7));
        let (min, max) = (Duration::from_millis(100), Duration::from_secs(5));
        for wanted in [100u64, 200, 400, 800, 1600, 3200, 5000, 5000] {
            let pause = backoff.fail(min, max, &mut rng).as_millis() as u64;
            assert!((wanted * 8 / 10..=wanted * 12 / 10).contains(&pause), "{pause} for {wanted}");
        }
        backoff.reset();
        assert!(backoff.fail(min, max, &mut rng) <= Duration::from_millis(120));
    }
}
