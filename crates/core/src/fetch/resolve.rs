//! Where to begin and where to stop: which questions a broker must answer, and what the answers mean.

use crate::config::{OnOutOfRange, Start, Until, unix_ms};

/// A question that ListOffsets answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Question {
    Earliest,
    Latest,
    /// The first record at this time (unix ms) or later.
    Time(i64),
}

impl Question {
    /// How the protocol writes it.
    pub(crate) fn timestamp(self) -> i64 {
        match self {
            Self::Latest => -1,
            Self::Earliest => -2,
            Self::Time(ms) => ms,
        }
    }
}

/// Why the position has to be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Aim {
    /// To begin a turn.
    Start(Start),
    /// Our offset is not in the log.
    Reset { from: i64, policy: OnOutOfRange },
}

/// The search for a position and for the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Resolving {
    pub(crate) aim: Aim,
    until: Option<Until>,
    earliest: Option<i64>,
    latest: Option<i64>,
    /// By question in ms: the offset, or `None` where no record is that late.
    times: Vec<(i64, Option<i64>)>,
    /// The newest leader epoch that an answer named, -1 for none.
    epoch: i32,
    /// Another leader has taken over since the first question.
    pub(crate) unsure: bool,
}

/// What was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// Begin here; stop there, if an end was asked for.
    At { start: i64, until: Option<i64> },
    /// The policy is to fail.
    OutOfRange { offset: i64, earliest: i64, latest: i64 },
}

/// The value is known, or this question has to be asked first.
type Known = Result<i64, Question>;

impl Resolving {
    pub(crate) fn new(aim: Aim, until: Option<Until>) -> Self {
        Self { aim, until, earliest: None, latest: None, times: Vec::new(), epoch: -1, unsure: false }
    }

    /// What is still to be asked, or what was found.
    pub(crate) fn step(&self) -> Result<Found, Question> {
        let until = self.until.map(|until| self.end(until)).transpose()?;
        match self.aim {
            Aim::Start(start) => Ok(Found::At { start: self.start(start)?, until }),
            Aim::Reset { from, policy } => self.reset(from, policy, until),
        }
    }

    /// Takes an answer; `None` says that no record is that late.
    pub(crate) fn answer(&mut self, question: Question, offset: Option<i64>, epoch: i32) {
        self.epoch = self.epoch.max(epoch);
        match question {
            Question::Earliest => self.earliest = Some(offset.unwrap_or(0)),
            Question::Latest => self.latest = Some(offset.unwrap_or(0)),
            Question::Time(ms) => self.times.push((ms, offset)),
        }
    }

    /// Whether the end is known, and lies before `start`.
    pub(crate) fn is_beyond_end(&self, start: i64) -> bool {
        self.latest.is_some_and(|latest| start > latest)
    }

    /// The leader epoch of a position that was found by asking, so that a log cut before anything was read from there is
    /// noticed; -1 for one that the user named.
    pub(crate) fn epoch(&self) -> i32 {
        match self.aim {
            Aim::Start(Start::Offset(_)) => -1,
            _ => self.epoch,
        }
    }

    fn start(&self, start: Start) -> Known {
        match start {
            Start::Earliest => self.earliest(),
            Start::Latest => self.latest(),
            Start::Offset(offset) => Ok(offset),
            Start::Last(count) => {
                let count = i64::try_from(count).unwrap_or(i64::MAX);
                Ok((self.latest()? - count).max(self.earliest()?))
            }
            Start::At(time) => self.time(unix_ms(time)),
            // Replaced by `At` before it comes here; without a clock it can only mean the end.
            Start::Ago(_) => self.latest(),
        }
    }

    fn end(&self, until: Until) -> Known {
        match until {
            Until::End => self.latest(),
            Until::Offset(offset) => Ok(offset),
            Until::At(time) => self.time(unix_ms(time)),
        }
    }

    fn reset(&self, offset: i64, policy: OnOutOfRange, until: Option<i64>) -> Result<Found, Question> {
        let (earliest, latest) = (self.earliest()?, self.latest()?);
        let start = match policy {
            // It was a passing confusion: the log holds our offset.
            _ if (earliest..=latest).contains(&offset) => offset,
            OnOutOfRange::Error => return Ok(Found::OutOfRange { offset, earliest, latest }),
            OnOutOfRange::Earliest => earliest,
            OnOutOfRange::Latest => latest,
            OnOutOfRange::Nearest => offset.clamp(earliest, latest.max(earliest)),
        };
        Ok(Found::At { start, until })
    }

    fn earliest(&self) -> Known {
        self.earliest.ok_or(Question::Earliest)
    }

    fn latest(&self) -> Known {
        self.latest.ok_or(Question::Latest)
    }

    fn time(&self, ms: i64) -> Known {
        match self.times.iter().find(|(asked, _)| *asked == ms) {
            None => Err(Question::Time(ms)),
            Some((_, Some(offset))) => Ok(*offset),
            Some((_, None)) => self.latest(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    /// Answers from a log that holds 10 to 100, with a record at 5 s at offset 50 and none later than that.
    fn resolve(aim: Aim, until: Option<Until>) -> (Found, usize) {
        let mut resolving = Resolving::new(aim, until);
        for asked in 0.. {
            match resolving.step() {
                Ok(found) => return (found, asked),
                Err(q @ Question::Earliest) => resolving.answer(q, Some(10), 3),
                Err(q @ Question::Latest) => resolving.answer(q, Some(100), 4),
                Err(q @ Question::Time(ms)) => resolving.answer(q, (ms <= 5000).then_some(50), 3),
            }
        }
        unreachable!()
    }

    #[test]
    fn starts_and_ends_are_found_with_the_fewest_questions() {
        let at = |s| UNIX_EPOCH + Duration::from_secs(s);
        for (start, until, begin, end, questions) in [
            (Start::Earliest, None, 10, None, 1),
            (Start::Latest, Some(Until::End), 100, Some(100), 1),
            (Start::Offset(42), None, 42, None, 0),
            (Start::Offset(42), Some(Until::Offset(50)), 42, Some(50), 0),
            (Start::Last(5), None, 95, None, 2),
            (Start::Last(5000), Some(Until::End), 10, Some(100), 2),
            (Start::Last(u64::MAX), None, 10, None, 2),
            (Start::At(at(5)), None, 50, None, 1),
            (Start::At(at(6)), None, 100, None, 2),
            (Start::Earliest, Some(Until::At(at(5))), 10, Some(50), 2),
            (Start::Earliest, Some(Until::At(at(6))), 10, Some(100), 3),
        ] {
            let wanted = (Found::At { start: begin, until: end }, questions);
            assert_eq!(resolve(Aim::Start(start), until), wanted, "{start:?} {until:?}");
        }
    }

    #[test]
    fn times_before_1970_do_not_collide_with_the_brokers_own_numbers() {
        let before = UNIX_EPOCH - Duration::from_millis(1);
        assert_eq!(Resolving::new(Aim::Start(Start::At(before)), None).step(), Err(Question::Time(0)));
    }

    #[test]
    fn resets_follow_the_policy() {
        use OnOutOfRange::{Earliest, Error, Latest, Nearest};
        for (from, policy, to) in [
            (5, Nearest, 10),
            (500, Nearest, 100),
            (5, Latest, 100),
            (500, Earliest, 10),
            (70, Latest, 70),
            (70, Error, 70),
        ] {
            let found = resolve(Aim::Reset { from, policy }, None).0;
            assert_eq!(found, Found::At { start: to, until: None }, "{from} {policy:?}");
        }
        let found = resolve(Aim::Reset { from: 500, policy: Error }, None).0;
        assert_eq!(found, Found::OutOfRange { offset: 500, earliest: 10, latest: 100 });
    }
}
