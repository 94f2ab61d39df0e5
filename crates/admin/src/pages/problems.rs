//! Problems of a server, most urgent first.

use super::format;
use crate::model::{IndexState, State, Status};

/// Time before the end of a certificate in which it is reported.
const CERTIFICATE_WARNING_S: i64 = 14 * 86_400;

/// Share of the memory budget above which it is reported.
const MEMORY_SHARE_MAX: f64 = 0.95;

#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Problem {
    /// Whether clients notice it now.
    pub(super) is_urgent: bool,
    pub(super) text: String,
}

pub(super) fn of(status: &Status) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut add = |is_urgent, text| problems.push(Problem { is_urgent, text });
    if status.state != State::Ready {
        add(true, format!("The server is {}: it accepts no new work.", status.state.as_str()));
    }
    for volume in status.volumes.iter().filter(|volume| volume.health != "healthy") {
        add(true, format!("Disk {} is {}.", volume.id, volume.health));
    }
    for (file, seconds) in status.certificates.iter().map(|end| (&end.file, end.seconds)) {
        if seconds < 0 {
            add(true, format!("{} has expired.", name_of(file)));
        } else if seconds < CERTIFICATE_WARNING_S {
            add(false, format!("{} expires in {}.", name_of(file), format::duration(seconds.unsigned_abs())));
        }
    }
    let since = |since: i64| format::time(since);
    for failing in &status.failing_origins {
        add(false, format!("Origin {} fails since {}: {}", failing.server, since(failing.since), failing.problem));
    }
    if format::share(status.memory.used_bytes, status.memory.budget_bytes).is_some_and(|share| share > MEMORY_SHARE_MAX)
    {
        add(false, "The memory for data in transit is used up: reads wait or bypass the cache.".to_owned());
    }
    if status.index.state == IndexState::Rebuilding {
        add(false, "The index is being rebuilt: lists of files are incomplete.".to_owned());
    }
    if status.scrub.bad_blocks > 0 {
        add(false, format!("The last scrub found {} damaged blocks.", status.scrub.bad_blocks));
    }
    problems.sort_by_key(|problem| !problem.is_urgent);
    problems
}

/// The last component: open pages do not name directories of the machine.
fn name_of(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}
