//! Whom to ask next after a failure, and when; which failures are final.

use crate::{Options, OriginError, circuit::Circuit, redirect::merge_cgi};
use forebay_proto::ErrorCode;
use forebay_types::Endpoint;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Servers behind one redirector that are named to it as tried; it then runs out of servers anyway.
const TRIED_MAX: usize = 16;

/// Tries of one operation at most, however long the list of servers and whatever redirectors say.
const TRIES_MAX: u32 = 64;

/// A request that failed, and where.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) error: OriginError,
    /// The server that failed, when a redirector had sent us there.
    pub(crate) behind_redirector: Option<Endpoint>,
}

/// How much an operation may try.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// Tries; each server is tried at least once.
    pub(crate) attempts: u32,
    /// When trying ends.
    pub(crate) deadline: Instant,
}

/// The tries of one operation over a list of interchangeable servers.
#[derive(Debug)]
pub(crate) struct Tries<'a> {
    servers: &'a [Endpoint],
    circuit: &'a Circuit,
    options: &'a Options,
    patience: Patience,
    current: usize,
    failures: u32,
    /// Failures since the last server in line was left for the first one.
    in_round: usize,
    rounds: u32,
    tried: Vec<(String, &'static str)>,
}

impl<'a> Tries<'a> {
    /// Begins with the first server that could be reached lately, or else with `preferred`.
    pub(crate) fn new(
        servers: &'a [Endpoint],
        preferred: usize,
        circuit: &'a Circuit,
        options: &'a Options,
        patience: Patience,
    ) -> Self {
        let mut tries = Self {
            servers,
            circuit,
            options,
            patience,
            current: preferred,
            failures: 0,
            in_round: 0,
            rounds: 0,
            tried: Vec::new(),
        };
        tries.pass_over_dead_servers();
        tries
    }

    /// Position in the list of the server to ask now.
    pub(crate) const fn index(&self) -> usize {
        self.current
    }

    /// Whether a redirector is asked again after a server that it named has failed.
    pub(crate) const fn is_asking_again(&self) -> bool {
        !self.tried.is_empty()
    }

    /// `cgi` with what a redirector must know: which servers have failed, and why.
    pub(crate) fn cgi(&self, cgi: &str) -> String {
        if self.tried.is_empty() {
            return cgi.to_owned();
        }
        let hosts: Vec<&str> = self.tried.iter().map(|(host, _)| host.as_str()).collect();
        let reasons: Vec<&str> = self.tried.iter().map(|(_, reason)| *reason).collect();
        merge_cgi(cgi, &format!("tried={}&triedrc={}", hosts.join(","), reasons.join(",")))
    }

    /// Takes note of a failure and waits until it is time for the next try.
    ///
    /// # Errors
    /// The failure's own error when it is final or trying has ended.
    pub(crate) async fn after(&mut self, failure: Failure) -> Result<(), OriginError> {
        let pause = self.plan(failure)?;
        if !pause.is_zero() {
            sleep_until(Instant::now() + pause).await;
        }
        Ok(())
    }

    /// Takes note of a failure; the pause before the next try.
    ///
    /// # Errors
    /// See [`Tries::after`].
    pub(crate) fn plan(&mut self, Failure { error, behind_redirector }: Failure) -> Result<Duration, OriginError> {
        self.failures += 1;
        let attempts = self.patience.attempts.max(u32::try_from(self.servers.len()).unwrap_or(TRIES_MAX));
        if self.failures >= attempts.min(TRIES_MAX) {
            return Err(error);
        }
        // A redirector may know another server. One that names the same again has none.
        if let Some(server) = behind_redirector
            && error.is_worth_asking_redirector()
            && self.tried.len() < TRIED_MAX
            && !self.tried.iter().any(|(host, _)| host == server.host())
        {
            self.tried.push((server.host().to_owned(), tried_reason(&error)));
            return Ok(Duration::ZERO);
        }
        if !error.is_retryable() && !error.concerns_one_server() {
            return Err(error);
        }
        if !error.is_retryable() && self.in_round + 1 >= self.servers.len() {
            return Err(error); // every server was asked, and asking again cannot help
        }
        let pause = self.next_server();
        if Instant::now() + pause >= self.patience.deadline { Err(error) } else { Ok(pause) }
    }

    /// Begins elsewhere than at a server that is known to have failed.
    pub(crate) fn avoid(&mut self, failure: Failure) {
        // With one server and no redirector there is no elsewhere; the same is asked then.
        let _ = self.plan(failure);
    }

    /// Moves on to the next server; the pause before it is asked, once all have been asked.
    fn next_server(&mut self) -> Duration {
        self.tried.clear();
        self.in_round += 1;
        self.current = (self.current + 1) % self.servers.len().max(1);
        if self.in_round < self.servers.len() {
            self.pass_over_dead_servers();
            return Duration::ZERO;
        }
        self.in_round = 0;
        let pause = self.options.back_off_min.saturating_mul(1 << self.rounds.min(16));
        self.rounds += 1;
        pause.min(self.options.back_off_max)
    }

    fn pass_over_dead_servers(&mut self) {
        let now = Instant::now();
        let order = (0..self.servers.len()).map(|step| (self.current + step) % self.servers.len());
        let alive = order
            .into_iter()
            .find(|&index| self.servers.get(index).is_some_and(|server| !self.circuit.is_open(server, now)));
        self.current = alive.unwrap_or(self.current);
    }
}

/// Why a server failed, in the redirector's words.
fn tried_reason(error: &OriginError) -> &'static str {
    match error.code() {
        Some(ErrorCode::NOT_FOUND) => "enoent",
        Some(ErrorCode::FS_ERROR) => "fserr",
        Some(ErrorCode::SERVER_ERROR) => "srverr",
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

        fn tries(&self, attempts: u32) -> Tries<'_> {
            let patience = Patience { attempts, deadline: Instant::now() + Duration::from_secs(600) };
            Tries::new(&self.servers, 0, &self.circuit, &self.options, patience)
        }
    }

    fn refused(code: ErrorCode) -> OriginError {
        OriginError::Refused { endpoint: Endpoint::new("origin", 1), code: code.0, text: "no".to_owned() }
    }

    fn failure(code: ErrorCode) -> Failure {
        Failure { error: refused(code), behind_redirector: None }
    }

    fn behind(code: ErrorCode, host: &str) -> Failure {
        Failure { error: refused(code), behind_redirector: Some(Endpoint::new(host, 1094)) }
    }

    #[test]
    fn each_server_is_asked_before_the_first_pause_and_pauses_double() {
        let case = Case::new(2);
        let mut tries = case.tries(6);
        let mut plans = Vec::new();
        while let Ok(pause) = tries.plan(failure(ErrorCode::OVERLOADED)) {
            plans.push((tries.index(), pause.as_millis()));
        }
        assert_eq!(plans, [(1, 0), (0, 250), (1, 0), (0, 500), (1, 0)]);
    }

    #[test]
    fn every_server_is_tried_however_few_attempts_are_allowed() {
        let case = Case::new(3);
        let mut tries = case.tries(1);
        assert!(tries.plan(failure(ErrorCode::IO_ERROR)).is_ok());
        assert!(tries.plan(failure(ErrorCode::IO_ERROR)).is_ok());
        assert_eq!(tries.plan(failure(ErrorCode::IO_ERROR)), Err(refused(ErrorCode::IO_ERROR)));
    }

    #[test]
    fn final_errors_are_not_retried_and_errors_of_one_server_only_elsewhere() {
        let case = Case::new(2);
        assert!(case.tries(5).plan(failure(ErrorCode::NOT_FOUND)).is_err());
        let mut tries = case.tries(5);
        assert_eq!(tries.plan(failure(ErrorCode::TLS_REQUIRED)), Ok(Duration::ZERO));
        assert!(tries.plan(failure(ErrorCode::TLS_REQUIRED)).is_err());
    }

    #[test]
    fn a_redirector_is_told_which_servers_failed() {
        let case = Case::new(1);
        let mut tries = case.tries(5);
        assert_eq!(tries.plan(behind(ErrorCode::NOT_FOUND, "pool1")), Ok(Duration::ZERO));
        assert_eq!(tries.plan(behind(ErrorCode::IO_ERROR, "pool2")), Ok(Duration::ZERO));
        assert_eq!(tries.cgi("a=1"), "a=1&tried=pool1,pool2&triedrc=enoent,ioerr");
        // The same server again: the redirector has no other.
        assert!(tries.plan(behind(ErrorCode::NOT_FOUND, "pool1")).is_err());
    }

    #[test]
    fn servers_that_could_not_be_reached_are_passed_over() {
        let case = Case::new(3);
        case.circuit.trip(&case.servers[0], Instant::now());
        assert_eq!(case.tries(5).index(), 1);
        for server in &case.servers {
            case.circuit.trip(server, Instant::now());
        }
        assert_eq!(case.tries(5).index(), 0);
    }

    #[test]
    fn no_try_begins_after_the_deadline() {
        let case = Case::new(1);
        let patience = Patience { attempts: 5, deadline: Instant::now() + Duration::from_millis(100) };
        let mut tries = Tries::new(&case.servers, 0, &case.circuit, &case.options, patience);
        assert!(tries.plan(failure(ErrorCode::OVERLOADED)).is_err());
    }
}
