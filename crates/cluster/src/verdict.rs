//! The rule for questions of managers.

use forebay_cms::Held;
use std::time::Duration;

/// Times that fit the window in which a manager releases waiting clients at the first answer: 178 ms by default.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Pace {
    /// Delay after which the second-best member acts for the best one, if that has not taken the file. The best one has received its
    /// answers from the other members by then, and this one still can.
    pub(crate) runner_up_delay: Duration,
    /// Longest wait for other members to report whether they have a file. Members that do not answer do not have it.
    pub(crate) question_time_max: Duration,
}

/// The shortest and the longest window that is believed.
const WINDOW_MIN: Duration = Duration::from_millis(50);
const WINDOW_MAX: Duration = Duration::from_secs(30);

impl Pace {
    pub(crate) fn within(window: Duration) -> Self {
        let window = window.clamp(WINDOW_MIN, WINDOW_MAX);
        Self { runner_up_delay: window * 2 / 5, question_time_max: window / 4 }
    }
}

/// Whether this node has a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Holding {
    /// There is data of it in the cache.
    Data,
    /// A manager was answered that it will be fetched here.
    Assigned,
    Nothing,
}

/// The answer to a manager.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Verdict {
    Have(Held),
    /// After this time, have it if no other member has.
    Ask {
        after: Duration,
    },
    /// No answer: it is not here.
    Silent,
}

/// Decides on a question; `runner_up_delay` is that of the manager's [`Pace`], `rank` is the position of this node among the members ranked for the file. It `is_alone` if no
/// other live member may have the file.
pub(crate) fn verdict(
    holding: Holding,
    rank: Option<usize>,
    is_alone: bool,
    is_refresh: bool,
    runner_up_delay: Duration,
) -> Verdict {
    match (holding, rank) {
        (Holding::Data, _) => Verdict::Have(Held::Online),
        (Holding::Assigned, _) => Verdict::Have(Held::Pending),
        // A client comes back from a failure: it is offered two nodes, at the price of a second copy.
        (Holding::Nothing, Some(0 | 1)) if is_refresh => Verdict::Have(Held::Pending),
        (Holding::Nothing, Some(0)) if is_alone => Verdict::Have(Held::Pending),
        (Holding::Nothing, Some(0)) => Verdict::Ask { after: Duration::ZERO },
        (Holding::Nothing, Some(1)) => Verdict::Ask { after: runner_up_delay },
        (Holding::Nothing, _) => Verdict::Silent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELAY: Duration = Duration::from_millis(70);

    #[test]
    fn files_stay_where_they_are() {
        for rank in [None, Some(0), Some(1), Some(7)] {
            assert_eq!(verdict(Holding::Data, rank, false, false, DELAY), Verdict::Have(Held::Online));
            assert_eq!(verdict(Holding::Assigned, rank, false, true, DELAY), Verdict::Have(Held::Pending));
        }
    }

    #[test]
    fn new_files_go_to_the_best_member_or_after_a_delay_to_the_second() {
        let new = |rank, is_alone, is_refresh| verdict(Holding::Nothing, rank, is_alone, is_refresh, DELAY);
        assert_eq!(new(Some(0), false, false), Verdict::Ask { after: Duration::ZERO });
        assert_eq!(new(Some(1), false, false), Verdict::Ask { after: DELAY });
        assert_eq!(new(Some(0), true, false), Verdict::Have(Held::Pending));
        assert_eq!(new(Some(1), false, true), Verdict::Have(Held::Pending));
        for rank in [None, Some(2)] {
            assert_eq!(new(rank, false, true), Verdict::Silent);
        }
    }

    #[test]
    fn both_questions_fit_the_window_of_a_manager() {
        for window in [178, 500, 20_000].map(Duration::from_millis) {
            let Pace { runner_up_delay, question_time_max } = Pace::within(window);
            assert!(runner_up_delay > question_time_max);
            assert!(runner_up_delay + question_time_max < window * 7 / 10);
        }
        assert_eq!(Pace::within(Duration::ZERO), Pace::within(WINDOW_MIN));
        assert_eq!(Pace::within(Duration::MAX), Pace::within(WINDOW_MAX));
    }
}
