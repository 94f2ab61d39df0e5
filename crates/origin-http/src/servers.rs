//! Attempts of one operation over the servers of an origin.

use crate::{
    exchange::{Client, Failure},
    options::Options,
};
use forebay_origin::{OriginError, count_failure};
use forebay_types::OriginId;
use std::{sync::atomic::Ordering::Relaxed, time::Duration};
use tokio::time::{Instant, sleep};

/// The order in which the servers of a list are asked.
pub(crate) struct Order {
    /// Places in the list.
    places: Vec<usize>,
    /// How many of these are asked before those that could not be reached lately.
    reachable: usize,
}

/// Which server to ask next after a failure, and when.
pub(crate) struct Attempts<'a> {
    options: &'a Options,
    order: Order,
    count: u32,
    failures: u32,
    rounds: u32,
    current: usize,
    deadline: Instant,
}

impl Order {
    /// That of the list.
    pub(crate) fn of_list(servers: usize) -> Self {
        Self { places: (0..servers).collect(), reachable: servers }
    }
}

impl<'a> Attempts<'a> {
    /// `count` attempts at the servers of `order`.
    pub(crate) fn new(options: &'a Options, order: Order, count: u32) -> Self {
        let deadline = Instant::now() + options.deadline;
        Self { options, order, count, failures: 0, rounds: 0, current: 0, deadline }
    }

    /// The place in the list of the server to ask.
    fn place(&self) -> usize {
        self.order.places.get(self.current).copied().unwrap_or_default()
    }

    pub(crate) const fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Forgets the failures: there was progress.
    pub(crate) fn restart(&mut self) {
        (self.failures, self.rounds) = (0, 0);
        self.deadline = Instant::now() + self.options.deadline;
    }

    /// Waits until it is time for the next attempt, at the next server if `moves_on`.
    ///
    /// # Errors
    /// The failure's own error when it is final or no attempt is left.
    pub(crate) async fn after(&mut self, failure: Failure, moves_on: bool) -> Result<(), OriginError> {
        self.failures += 1;
        let servers = self.order.places.len();
        let is_last = self.failures >= self.count.max(u32::try_from(servers).unwrap_or(u32::MAX));
        let others_left = moves_on && usize::try_from(self.failures).is_ok_and(|asked| asked < self.order.reachable);
        // Another server may accept what this one refuses; a second round would only repeat the answers.
        let may_help = failure.error.is_retryable() || (others_left && concerns_one_server(&failure.error));
        if is_last || !may_help {
            return Err(failure.error);
        }
        if moves_on {
            self.current = (self.current + 1) % servers.max(1);
        }
        let own_pause = if others_left { Duration::ZERO } else { self.next_pause() };
        // A server that says when to come again is asked then, unless there is another one.
        let asked_pause = if others_left { None } else { failure.retry_after };
        let pause = own_pause.max(asked_pause.unwrap_or_default());
        if Instant::now() + pause >= self.deadline {
            return Err(failure.error);
        }
        if !pause.is_zero() {
            sleep(pause).await;
        }
        Ok(())
    }

    fn next_pause(&mut self) -> Duration {
        let pause = self.options.back_off_min.saturating_mul(1 << self.rounds.min(16)).min(self.options.back_off_max);
        self.rounds += 1;
        pause
    }
}

impl Client {
    /// Runs `attempt` with the servers of the list until it succeeds; also returns the server that it succeeded with.
    pub(crate) async fn with_servers<'a, T, F>(
        &'a self,
        mut attempt: impl FnMut(&'a OriginId, Instant) -> F,
    ) -> Result<(T, &'a OriginId), OriginError>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let preferred = self.named_by.as_ref().map(|named_by| &named_by.preferred);
        let order = self.order_from(preferred.map_or(0, |preferred| preferred.load(Relaxed)));
        let mut attempts = Attempts::new(&self.options, order, self.options.attempts);
        loop {
            let server = self.server(attempts.place());
            match attempt(server, attempts.deadline()).await {
                Ok(done) => {
                    if let Some(preferred) = preferred {
                        preferred.store(attempts.place(), Relaxed);
                    }
                    return Ok((done, server));
                }
                Err(failure) => {
                    count_failure(&self.metrics, &failure.error, !self.pool.shown.are_of_clients(server));
                    attempts.after(failure, true).await?;
                }
            }
        }
    }

    /// The servers from the place `first` on, those that could not be reached lately last.
    fn order_from(&self, first: usize) -> Order {
        let (count, now) = (self.count(), Instant::now());
        let is_reachable = |place: &usize| !self.pool.circuit.is_open(&self.server(*place).endpoint, now);
        let (mut places, unreachable): (Vec<_>, Vec<_>) =
            (0..count).map(|step| (first + step) % count).partition(is_reachable);
        let reachable = if places.is_empty() { count } else { places.len() };
        places.extend(unreachable);
        Order { places, reachable }
    }

    pub(crate) const fn count(&self) -> usize {
        self.others.len() + 1
    }

    /// The server at a position of the list.
    pub(crate) fn server(&self, index: usize) -> &OriginId {
        index.checked_sub(1).and_then(|index| self.others.get(index)).unwrap_or(&self.first)
    }
}

/// Whether another server of the list may answer differently.
const fn concerns_one_server(error: &OriginError) -> bool {
    match error {
        OriginError::Refused { .. }
        | OriginError::Tls { .. }
        | OriginError::Authentication { .. }
        | OriginError::Protocol { .. }
        | OriginError::RedirectLoop { .. }
        | OriginError::RedirectRefused { .. } => true,
        OriginError::Unreachable { .. }
        | OriginError::Lost { .. }
        | OriginError::TimedOut { .. }
        | OriginError::Corrupt { .. }
        | OriginError::ShortRead { .. }
        | OriginError::Changed { .. }
        | OriginError::Itself { .. } => false,
    }
}
