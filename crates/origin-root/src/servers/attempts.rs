//! Which server to ask next after a failure, and when; which failures are final.

use crate::{
    options::Options,
    route::{Failure, redirect::merge_cgi},
};
use forebay_origin::{Circuit, OriginError, RefusalKind};
use forebay_types::Endpoint;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Servers of one redirector that are named to it as tried; clusters have fewer replicas of a file.
const TRIED_MAX: usize = 16;

/// Attempts of one operation at most, however long the list of servers is and whatever redirectors answer.
const ATTEMPTS_MAX: u32 = 64;

/// The attempts of one operation over a list of interchangeable servers.
#[derive(Debug)]
pub(crate) struct Attempts<'a> {
    servers: &'a [Endpoint],
    circuit: &'a Circuit,
    options: &'a Options,
    /// How many there are; each server is asked at least once.
    count: u32,
    /// No attempt begins later.
    deadline: Instant,
    current: usize,
    failures: u32,
    /// How many failures without any answer there may be.
    pub(crate) unanswered_count: u32,
    /// Whether a directory is listed. Stock servers answer `kXR_FSError` when it is a file.
    pub(crate) is_listing: bool,
    /// Failures since the first server was last asked again.
    in_round: usize,
    rounds: u32,
    tried: Vec<(String, &'static str)>,
}

impl<'a> Attempts<'a> {
    /// Begins with the first server that could be reached lately, or else with `preferred`.
    pub(crate) fn new(
        servers: &'a [Endpoint],
        preferred: usize,
        circuit: &'a Circuit,
        options: &'a Options,
        count: u32,
        deadline: Instant,
    ) -> Self {
        let mut attempts = Self {
            servers,
            circuit,
            options,
            count,
            deadline,
            current: preferred,
            failures: 0,
            unanswered_count: count,
            is_listing: false,
            in_round: 0,
            rounds: 0,
            tried: Vec::new(),
        };
        attempts.skip_dead_servers();
        attempts
    }

    /// Position in the list of the server to ask next.
    pub(crate) const fn index(&self) -> usize {
        self.current
    }

    /// Whether a redirector is asked again after a server that it named has failed.
    pub(crate) const fn is_asking_again(&self) -> bool {
        !self.tried.is_empty()
    }

    /// `cgi` with a redirector's parameters for servers that have failed, and why.
    pub(crate) fn cgi(&self, cgi: &str) -> String {
        if self.tried.is_empty() {
            return cgi.to_owned();
        }
        let hosts: Vec<&str> = self.tried.iter().map(|(host, _)| host.as_str()).collect();
        let reasons: Vec<&str> = self.tried.iter().map(|(_, reason)| *reason).collect();
        merge_cgi(cgi, &format!("tried={}&triedrc={}", hosts.join(","), reasons.join(",")))
    }

    /// Notes a failure and waits until it is time for the next attempt.
    ///
    /// # Errors
    /// The failure's own error when it is final or the budget is used up.
    pub(crate) async fn after(&mut self, failure: Failure) -> Result<(), OriginError> {
        let pause = self.plan(failure)?;
        if !pause.is_zero() {
            sleep_until(Instant::now() + pause).await;
        }
        Ok(())
    }

    /// Notes a failure; returns the pause before the next attempt.
    pub(crate) fn plan(&mut self, Failure { error, behind_redirector }: Failure) -> Result<Duration, OriginError> {
        self.failures += 1;
        // A list longer than the number of attempts must not leave servers unasked.
        let is_unanswered = matches!(error, OriginError::Unreachable { .. } | OriginError::TimedOut { .. });
        let count = if is_unanswered && behind_redirector.is_none() { self.unanswered_count } else { self.count };
        let attempts = count.max(u32::try_from(self.servers.len()).unwrap_or(ATTEMPTS_MAX));
        if self.failures >= attempts.min(ATTEMPTS_MAX) {
            return Err(error);
        }
        // A redirector may know another server. One that names the same again has none.
        if let Some(server) = behind_redirector
            // It may also be wrong about which server has a file.
            && (error.is_retryable() || error.is_not_found() || error.refusal() == Some(RefusalKind::NotDirectory))
            && self.tried.len() < TRIED_MAX
            && !self.tried.iter().any(|(host, _)| host == server.host())
        {
            // The redirector itself has not failed: it is asked again without a pause.
            self.tried.push((server.host().to_owned(), tried_reason(&error)));
            return Ok(Duration::ZERO);
        }
        if !self.is_retryable(&error) {
            // Another server may accept what this one refuses; a second round would only repeat the answers.
            let was_last = self.in_round + 1 >= self.servers.len();
            if was_last || !concerns_one_server(&error) {
                return Err(error);
            }
        }
        let pause = self.next_server();
        if Instant::now() + pause >= self.deadline { Err(error) } else { Ok(pause) }
    }

    fn is_retryable(&self, error: &OriginError) -> bool {
        let is_no_directory = self.is_listing && error.refusal() == Some(RefusalKind::FileSystemError);
        error.is_retryable() && !is_no_directory
    }

    /// Begins with another server than one that is known to have failed.
    pub(crate) fn avoid(&mut self, failure: Failure) {
        // With one server and no redirector there is no other; the same is asked then.
        let _ = self.plan(failure);
    }

    /// Moves on to the next server; the pause before it is asked, once all have been asked.
    fn next_server(&mut self) -> Duration {
        // Another redirector has not named these servers yet, and in the next round they may have recovered.
        self.tried.clear();
        self.in_round += 1;
        self.current = (self.current + 1) % self.servers.len().max(1);
        if self.in_round < self.servers.len() {
            self.skip_dead_servers();
            return Duration::ZERO;
        }
        self.in_round = 0;
        let pause = self.options.back_off_min.saturating_mul(1 << self.rounds.min(16));
        self.rounds += 1;
        pause.min(self.options.back_off_max)
    }

    fn skip_dead_servers(&mut self) {
        let now = Instant::now();
        let order = (0..self.servers.len()).map(|step| (self.current + step) % self.servers.len());
        let alive = order
            .into_iter()
            .find(|&index| self.servers.get(index).is_some_and(|server| !self.circuit.is_open(server, now)));
        // With all servers unreachable lately, one must be asked nevertheless.
        self.current = alive.unwrap_or(self.current);
    }
}

/// Whether another server of the list may do better although asking this one again cannot help.
const fn concerns_one_server(error: &OriginError) -> bool {
    match error {
        OriginError::Refused { kind, .. } => {
            matches!(kind, RefusalKind::NotAuthenticated | RefusalKind::TlsRequired | RefusalKind::NoReplica)
        }
        OriginError::Protocol { .. }
        | OriginError::Tls { .. }
        | OriginError::Authentication { .. }
        | OriginError::RedirectLoop { .. }
        | OriginError::RedirectRefused { .. }
        | OriginError::Itself { .. } => true,
        OriginError::Unreachable { .. }
        | OriginError::Lost { .. }
        | OriginError::TimedOut { .. }
        | OriginError::Corrupt { .. }
        | OriginError::ShortRead { .. }
        | OriginError::Changed { .. } => error.is_retryable(),
    }
}

/// Why a server failed, in the redirector's terms.
const fn tried_reason(error: &OriginError) -> &'static str {
    match error.refusal() {
        Some(RefusalKind::NotFound) => "enoent",
        Some(RefusalKind::FileSystemError | RefusalKind::NotDirectory) => "fserr",
        Some(RefusalKind::ServerError) => "srverr",
        _ => "ioerr",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Case {
        servers: Vec<Endpoint>,
        circuit: Circuit,
        options: Options,
    }

    impl Case {
        fn new(servers: u16) -> Self {
            Self {
                servers: (1..=servers).map(|port| Endpoint::new("origin", port)).collect(),
                circuit: Circuit::new(Duration::from_secs(30)),
                options: Options::default(),
            }
        }

        fn attempts(&self, attempts: u32) -> Attempts<'_> {
            self.attempts_within(attempts, Duration::from_secs(600))
        }

        fn attempts_within(&self, count: u32, time: Duration) -> Attempts<'_> {
            Attempts::new(&self.servers, 0, &self.circuit, &self.options, count, Instant::now() + time)
        }
    }

    fn refused(kind: RefusalKind) -> OriginError {
        OriginError::Refused { endpoint: Endpoint::new("origin", 1), kind, text: "no".to_owned() }
    }

    fn failure(kind: RefusalKind) -> Failure {
        Failure { error: refused(kind), behind_redirector: None }
    }

    fn behind(kind: RefusalKind, host: &str) -> Failure {
        Failure { error: refused(kind), behind_redirector: Some(Endpoint::new(host, 1094)) }
    }

    #[test]
    fn each_server_is_asked_before_the_first_pause_and_pauses_double() {
        let case = Case::new(2);
        let mut attempts = case.attempts(6);
        let mut plans = Vec::new();
        while let Ok(pause) = attempts.plan(failure(RefusalKind::Busy)) {
            plans.push((attempts.index(), pause.as_millis()));
        }
        assert_eq!(plans, [(1, 0), (0, 250), (1, 0), (0, 500), (1, 0)]);
    }

    #[test]
    fn every_server_is_asked_however_few_attempts_are_allowed() {
        let case = Case::new(3);
        let mut attempts = case.attempts(1);
        assert!(attempts.plan(failure(RefusalKind::IoError)).is_ok());
        assert!(attempts.plan(failure(RefusalKind::IoError)).is_ok());
        assert_eq!(attempts.plan(failure(RefusalKind::IoError)), Err(refused(RefusalKind::IoError)));
    }

    #[test]
    fn servers_that_do_not_answer_may_have_fewer_attempts() {
        let case = Case::new(2);
        let mut attempts = case.attempts(5);
        attempts.unanswered_count = 1;
        let silent = OriginError::Unreachable { endpoint: Endpoint::new("origin", 1), reason: String::new() };
        let behind = Failure { error: silent.clone(), behind_redirector: Some(Endpoint::new("pool", 1)) };
        assert_eq!(attempts.plan(behind), Ok(Duration::ZERO), "the redirector answers");
        assert!(attempts.plan(Failure { error: silent, behind_redirector: None }).is_err(), "both have been asked");
        let mut attempts = case.attempts(5);
        attempts.unanswered_count = 1;
        assert!(attempts.plan(failure(RefusalKind::Busy)).is_ok());
        assert!(attempts.plan(failure(RefusalKind::Busy)).is_ok(), "they answer");
    }

    #[test]
    fn final_errors_are_not_retried_and_those_of_one_server_only_at_another() {
        let case = Case::new(2);
        assert!(case.attempts(5).plan(failure(RefusalKind::NotFound)).is_err());
        let mut attempts = case.attempts(5);
        assert_eq!(attempts.plan(failure(RefusalKind::TlsRequired)), Ok(Duration::ZERO));
        assert!(attempts.plan(failure(RefusalKind::TlsRequired)).is_err());
    }

    #[test]
    fn a_listing_of_a_file_is_refused_at_once() {
        let case = Case::new(2);
        let mut attempts = case.attempts(5);
        attempts.is_listing = true;
        assert!(attempts.plan(failure(RefusalKind::IoError)).is_ok());
        assert!(attempts.plan(failure(RefusalKind::FileSystemError)).is_err());
    }

    #[test]
    fn a_redirector_learns_which_servers_failed() {
        let case = Case::new(1);
        let mut attempts = case.attempts(5);
        assert_eq!(attempts.plan(behind(RefusalKind::NotFound, "pool1")), Ok(Duration::ZERO));
        assert_eq!(attempts.plan(behind(RefusalKind::IoError, "pool2")), Ok(Duration::ZERO));
        assert_eq!(attempts.cgi("a=1"), "a=1&tried=pool1,pool2&triedrc=enoent,ioerr");
        let mut attempts = case.attempts(5);
        assert_eq!(attempts.plan(behind(RefusalKind::NotDirectory, "pool1")), Ok(Duration::ZERO));
        assert_eq!(attempts.cgi(""), "tried=pool1&triedrc=fserr");
        // The same server again: the redirector has no other.
        assert!(attempts.plan(behind(RefusalKind::NotFound, "pool1")).is_err());
        assert!(case.attempts(5).plan(behind(RefusalKind::Denied, "pool1")).is_err(), "no other server would allow it");
    }

    #[test]
    fn servers_that_could_not_be_reached_are_skipped() {
        let case = Case::new(3);
        case.circuit.trip(&case.servers[0], Instant::now());
        assert_eq!(case.attempts(5).index(), 1);
        for server in &case.servers {
            case.circuit.trip(server, Instant::now());
        }
        assert_eq!(case.attempts(5).index(), 0);
    }

    #[test]
    fn no_attempt_begins_after_the_deadline() {
        let case = Case::new(1);
        assert!(case.attempts_within(5, Duration::from_millis(100)).plan(failure(RefusalKind::Busy)).is_err());
    }

    #[test]
    fn final_refusals_concern_all_servers() {
        for kind in [RefusalKind::NotFound, RefusalKind::Denied, RefusalKind::InvalidArgument, RefusalKind::IsDirectory]
        {
            assert!(!refused(kind).is_retryable(), "{kind:?}");
            assert!(!concerns_one_server(&refused(kind)), "{kind:?}");
        }
        for kind in [RefusalKind::Busy, RefusalKind::IoError, RefusalKind::ServerError] {
            assert!(refused(kind).is_retryable(), "{kind:?}");
        }
    }
}
