//! A list of interchangeable servers, asked in order until one gives an answer.

pub(crate) mod attempts;

use crate::{
    options::Options,
    route::{Arrival, Question, Router, call::CallLimits},
    session::pool::Destination,
};
use attempts::Attempts;
use forebay_origin::{OriginError, OriginPath};
use forebay_types::Endpoint;
use tokio::time::Instant;

/// The servers of one origin: those that its router calls home, at least one. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Servers {
    pub(crate) router: Router,
}

impl Servers {
    pub(crate) fn first(&self) -> &Endpoint {
        self.router.home.first().expect("`RootOrigin::new` has asserted that there is one")
    }

    pub(crate) fn count(&self) -> u32 {
        u32::try_from(self.router.home.len()).unwrap_or(u32::MAX)
    }

    /// Up to `count` attempts over all servers, beginning with the one at `preferred`.
    pub(crate) fn attempts(&self, preferred: usize, count: u32, deadline: Instant) -> Attempts<'_> {
        let Router { pool, options, home, .. } = &self.router;
        Attempts::new(home, preferred, &pool.circuit, options, count, deadline)
    }

    /// Attempts of a request on a path, beginning with the first server.
    pub(crate) fn attempts_of_request(&self, limits: CallLimits) -> Attempts<'_> {
        let Options { attempts, unanswered_attempts, .. } = *self.router.options;
        let mut all = self.attempts(0, attempts, limits.deadline);
        all.unanswered_count = unanswered_attempts.min(attempts);
        all
    }

    /// The first server of the list that can be reached, if it is a redirector.
    pub(crate) async fn manager(&self, path: &OriginPath, limits: CallLimits) -> Option<Endpoint> {
        let (circuit, now) = (&self.router.pool.circuit, Instant::now());
        let (alive, dead): (Vec<_>, Vec<_>) = self.router.home.iter().partition(|server| !circuit.is_open(server, now));
        // Servers that could not be reached lately come last: each may cost a whole connect timeout.
        for server in alive.into_iter().chain(dead) {
            let credentials = self.router.credentials(server, &path.delegation);
            let tls = self.router.options.tls;
            let to = Destination { endpoint: server.clone(), tls, credentials, redirect: None };
            if let Ok(connection) = self.router.pool.connection(to, limits.deadline).await {
                self.router.note_address(&connection);
                return connection.facts.is_manager.then(|| server.clone());
            }
        }
        // Not an error yet: the caller asks all servers again, with retries, and reports their failure.
        None
    }

    /// Asks the servers in order; returns the answer and the position in the list of the server first asked.
    ///
    /// # Errors
    /// The last server's error, once another attempt cannot help.
    pub(crate) async fn ask(
        &self,
        path: &OriginPath,
        question: Question<'_>,
        mut attempts: Attempts<'_>,
        limits: CallLimits,
    ) -> Result<(Arrival, usize), OriginError> {
        loop {
            let server = self.router.home.get(attempts.index()).unwrap_or_else(|| self.first());
            let path = OriginPath { cgi: attempts.cgi(&path.cgi), ..path.clone() };
            // Otherwise the redirector may name the failed server again from memory.
            let question = if attempts.is_asking_again() { question.refreshed() } else { question };
            match self.router.ask(server, &path, question, limits).await {
                Ok(arrival) => return Ok((arrival, attempts.index())),
                Err(failure) => attempts.after(failure).await?,
            }
        }
    }
}
