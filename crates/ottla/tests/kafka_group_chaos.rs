//! A group on a real Kafka whose members come, go, are killed and are frozen at random, under load (`support/chaos`).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "support/chaos/mod.rs"]
mod chaos;
#[path = "support/client.rs"]
mod client_support;
#[path = "support/kafka.rs"]
mod kafka_support;
mod support;

use chaos::{
    Chaos,
    history::{Commit, History, Line, Member},
    plays_a_member,
};
use kafka_support::environment;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a real Kafka: cargo xtask test"]
async fn kafka_chaos_loses_nothing_and_nobody_reads_what_another_has() {
    if plays_a_member().await {
        return;
    }
    let test = "kafka_chaos_loses_nothing_and_nobody_reads_what_another_has";
    let mut chaos = Chaos::begin(test, environment("OTTLA_TEST_KAFKA")).await;
    chaos.rage().await;
    chaos.judge().await;
}

/// That the checker finds what it is there for.
mod checker {
    use super::*;

    /// Two members, one partition of six records: the first does three and gives it up, the second does the rest.
    fn good() -> History {
        let one = "10 assigned 0\n11 out 0 0\n12 ack 0 0\n13 out 0 1\n14 ack 0 1\n15 out 0 2\n16 committing 0 2\n\
                   18 committed 0 2\n20 given 0\n21 closed\n";
        let two =
            "30 assigned 0\n31 out 0 3\n32 ack 0 3\n33 out 0 4\n34 ack 0 4\n35 out 0 5\n36 ack 0 5\n40 gi";
        let members =
            [("one", one), ("two", two)].map(|(name, text)| Member::read(name, text, Vec::new()).unwrap());
        let commits = [(9, 0), (15, 2), (19, 3), (20, 3), (39, 6)];
        let commit = |(at, offset)| Commit { from: at - 1, to: at, partition: 0, offset };
        History { members: members.into(), commits: commits.map(commit).into(), ends: vec![6], batch: 2 }
    }

    fn line(text: &str) -> Line {
        text.parse().unwrap()
    }

    /// What is found when `member` also has these lines.
    fn found(member: usize, more: &[&str], frozen: &[(u64, u64)]) -> Vec<String> {
        let mut history = good();
        let member = &mut history.members[member];
        member.lines.extend(more.iter().map(|text| line(text)));
        member.lines.sort_by_key(|line| line.at);
        member.frozen = frozen.to_vec();
        history.check().0
    }

    #[test]
    fn a_good_run_is_good() {
        let (wrong, tally) = good().check();
        assert!(wrong.is_empty(), "{wrong:?}");
        assert_eq!((tally.records, tally.handed_out, tally.tenures, tally.commits), (6, 6, 2, 5));
        assert_eq!((tally.repeated, tally.late, tally.refused), (0, 0, 0));
    }

    #[test]
    fn lines_are_read_as_they_are_written() {
        for text in [
            "1 assigned",
            "1 assigned 0 7",
            "2 given 3",
            "2 lost 3 4",
            "3 out 1 22",
            "4 ack 1 22",
            "5 committing 1 22",
            "6 committed 1 22",
            "7 refused 1 22 it was given up",
            "8 closed",
        ] {
            assert_eq!(line(text).to_string(), text);
        }
        for text in ["", "x closed", "1 out 1", "1 out 1 x", "1 laughed"] {
            assert!(text.parse::<Line>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_lost_record_is_found() {
        let mut history = good();
        history.ends[0] = 8;
        assert_eq!(history.check().0, ["2 records of partition 0 are lost, from 6 on"]);
    }

    #[test]
    fn a_hole_and_a_repetition_are_found() {
        assert!(found(1, &["37 out 0 5"], &[])[0].contains("got 5 after 5"));
        assert!(found(1, &["37 out 0 7"], &[])[0].contains("got 7 after 5"));
    }

    #[test]
    fn a_record_of_a_partition_that_it_has_not_is_found() {
        assert!(found(0, &["20 out 0 3"], &[])[0].contains("which it has not"));
        assert!(found(0, &["17 assigned 0"], &[])[0].contains("which it has"));
        assert!(found(0, &["22 given 0"], &[])[0].contains("which it has not"));
        assert!(found(0, &["22 lost 0"], &[])[0].contains("which it has not"));
    }

    #[test]
    fn a_commit_that_goes_back_is_found() {
        let mut history = good();
        history.commits[3].offset = 2;
        assert!(history.check().0[0].contains("went from 3 to 2"));
    }

    #[test]
    fn a_commit_of_what_was_not_done_is_found() {
        let mut history = good();
        history.commits[1].offset = 3;
        assert!(history.check().0[0].contains("3 was committed for partition 0, but 2 was not done"));
    }

    #[test]
    fn what_is_committed_while_it_is_given_up_counts() {
        let mut history = good();
        let lines = &mut history.members[0].lines;
        lines[6].at = 21;
        lines[7].at = 22;
        lines.sort_by_key(|line| line.at);
        history.commits.iter_mut().filter(|commit| commit.to < 23).for_each(|commit| commit.to += 4);
        assert_eq!(history.check().0, [""; 0]);
    }

    #[test]
    fn a_record_that_comes_again_though_committed_is_found() {
        let mut history = good();
        history.members[1].lines.insert(1, line("30 out 0 2"));
        assert!(history.check().0[0].contains("began at 2, but 3 was committed"));
    }

    #[test]
    fn two_owners_are_found_and_a_frozen_one_may_hand_out_what_it_held() {
        // The first member does not give the partition up at 20.
        let late = |more: &[&str], frozen: &[(u64, u64)]| {
            let mut history = good();
            let one = &mut history.members[0];
            one.lines.truncate(8);
            one.lines.extend(more.iter().map(|text| line(text)));
            one.frozen = frozen.to_vec();
            history.check()
        };
        assert!(late(&["31 out 0 3"], &[]).0[0].contains("handed out 3 (1 in all, never frozen) while two"));
        let (wrong, tally) = late(&["31 out 0 3", "32 refused 0 3 it was given up"], &[(20, 31)]);
        assert!(wrong.is_empty(), "{wrong:?}");
        assert_eq!((tally.late, tally.refused), (1, 1));
        let three = ["31 out 0 3", "31 out 0 4", "31 out 0 5"];
        assert!(late(&three, &[(20, 31)]).0[0].contains("handed out 5 (3 in all, after a freeze) while two"));
        let commits = ["31 out 0 3", "31 committing 0 3", "32 committed 0 3"];
        assert!(
            late(&commits, &[(20, 31)]).0[0].contains("one with partition 0 since 10 committed 3 while two")
        );
    }
}
