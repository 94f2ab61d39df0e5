//! Problems of a server, most urgent first.

use super::format;
use crate::model::{CertificateEnd, IndexState, State, Status};

/// Time before the end of a certificate, and of a proxy, in which it is reported.
const CERTIFICATE_WARNING_S: i64 = 14 * 86_400;
const PROXY_WARNING_S: i64 = 3600;

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
    problems.extend(status.certificates.iter().filter_map(of_certificate));
    problems.sort_by_key(|problem| !problem.is_urgent);
    problems
}

fn of_certificate(end: &CertificateEnd) -> Option<Problem> {
    let CertificateEnd { file, is_proxy, seconds } = end;
    let warning_s = if *is_proxy { PROXY_WARNING_S } else { CERTIFICATE_WARNING_S };
    let text = match *seconds {
        ..0 => format!("{} has expired.", name_of(file)),
        seconds if seconds < warning_s => {
            format!("{} expires in {}.", name_of(file), format::duration(seconds.unsigned_abs()))
        }
        _ => return None,
    };
    Some(Problem { is_urgent: *seconds < 0, text })
}

/// The last component: open pages do not name directories of the machine.
fn name_of(file: &str) -> &str {
    file.rsplit('/').next().unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_are_reported_an_hour_and_certificates_a_fortnight_before_their_end() {
        let problem = |is_proxy, seconds| {
            let end = CertificateEnd { file: "/etc/grid-security/host.pem".to_owned(), is_proxy, seconds };
            of_certificate(&end).map(|problem| (problem.is_urgent, problem.text))
        };
        let soon = |text: &str| Some((false, format!("host.pem expires in {text}.")));
        assert_eq!((problem(false, 14 * 86_400), problem(true, 3600)), (None, None));
        assert_eq!(problem(false, 86_400), soon(&format::duration(86_400)));
        assert_eq!(problem(true, 600), soon(&format::duration(600)));
        let expired = Some((true, "host.pem has expired.".to_owned()));
        assert_eq!((problem(false, -1), problem(true, -1)), (expired.clone(), expired));
    }
}
