//! Sessions shared by everything in the process that talks to the same server.

use super::{connection::Connection, dial::Dialer};
use crate::options::PoolOptions;
use forebay_auth::{CredentialSource, Credentials, CredentialsName, UnixTime};
use forebay_net::TlsConnector;
use forebay_origin::{Circuit, DelegatedCredentials, OriginError, Redirected, SharedValue, ShownCredentials};
use forebay_proto::TlsUse;
use forebay_types::{Endpoint, OriginId};
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::time::{Instant, sleep, timeout_at};

/// One session with each server that is in use. Many files, clients and origins share it.
///
/// Callers that want the same server wait for one attempt to connect and share its outcome.
pub struct Pool {
    dialer: Dialer,
    pub(crate) circuit: Circuit,
    shown: ShownCredentials,
    slots: Mutex<HashMap<Contact, Arc<Slot>>>,
}

/// The key of a session: one that may be in clear never serves callers that insist on TLS, and one that was opened
/// with some credentials never callers with others.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Contact {
    endpoint: Endpoint,
    insists_on_tls: bool,
    credentials: CredentialsName,
    /// Whether it may be at an address of this machine.
    may_be_here: bool,
}

/// The server to talk to, and how.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    pub(crate) endpoint: Endpoint,
    pub(crate) tls: TlsUse,
    pub(crate) credentials: Arc<Credentials>,
    /// Set if a redirect leads there which may not lead to this machine.
    pub(crate) redirect: Option<Redirected>,
}

struct Slot {
    connection: Arc<SharedValue<Arc<Connection>, OriginError>>,
    last_use: Mutex<Instant>,
}

impl Pool {
    /// A pool without TLS and without credentials.
    #[must_use]
    pub fn new(options: PoolOptions) -> Arc<Self> {
        let shown = ShownCredentials::anonymous(&options.username);
        Self::of(options, None, shown)
    }

    /// A pool that encrypts with `tls` where required, and authenticates with the credentials of `source`.
    #[must_use]
    pub fn secured(options: PoolOptions, tls: Option<TlsConnector>, source: Arc<dyn CredentialSource>) -> Arc<Self> {
        let shown = ShownCredentials::new(source, &options.username);
        Self::of(options, tls, shown)
    }

    fn of(options: PoolOptions, tls: Option<TlsConnector>, shown: ShownCredentials) -> Arc<Self> {
        let circuit = Circuit::new(options.circuit_time);
        Arc::new(Self { circuit, dialer: Dialer { options, tls }, shown, slots: Mutex::default() })
    }

    /// The credentials that are shown to `endpoint` for a request under `delegation`; see [`ShownCredentials::towards`].
    pub(crate) fn credentials(
        &self,
        endpoint: &Endpoint,
        delegation: &DelegatedCredentials,
        home: &[Endpoint],
    ) -> Arc<Credentials> {
        let home: Vec<OriginId> = home.iter().cloned().map(OriginId::from).collect();
        self.shown.towards(&endpoint.clone().into(), delegation, &home)
    }

    /// Whether `endpoint` is shown the credentials of clients.
    pub(crate) fn acts_for_clients(&self, endpoint: &Endpoint) -> bool {
        self.shown.are_of_clients(&endpoint.clone().into())
    }

    /// The session with `to`, made if there is none.
    ///
    /// # Errors
    /// `Unreachable` also when `deadline` passes first; otherwise as [`Dialer::dial`].
    pub(crate) async fn connection(
        self: &Arc<Self>,
        to: Destination,
        deadline: Instant,
    ) -> Result<Arc<Connection>, OriginError> {
        let Destination { endpoint, tls, credentials, redirect } = to.clone();
        let slot = self.slot(Contact {
            endpoint: endpoint.clone(),
            insists_on_tls: tls == TlsUse::Always,
            credentials: *credentials.name(),
            may_be_here: redirect.is_none(),
        });
        *slot.last_use.lock() = Instant::now();
        let now = UnixTime(forebay_net::clock::now_unix());
        // A server looks at credentials at login only: with ended ones it must look again.
        let have_ended = credentials.valid_until().is_some_and(|end| end < now);
        let is_usable = |connection: &Arc<Connection>| !have_ended && connection.broken().is_none();
        let dial = || {
            let pool = Arc::clone(self);
            async move {
                let dialed = pool.dialer.dial(&to).await;
                match &dialed {
                    Ok(_) => pool.circuit.close(&to.endpoint),
                    Err(OriginError::Unreachable { .. }) => pool.circuit.trip(&to.endpoint, Instant::now()),
                    // It answers: other servers need not be preferred.
                    Err(_) => {}
                }
                dialed
            }
        };
        let reason = match timeout_at(deadline, slot.connection.get_or_make(is_usable, dial)).await {
            Ok(Some(connected)) => return connected,
            Ok(None) => "connecting failed by an internal error",
            Err(_) => "no connection before the deadline",
        };
        Err(OriginError::Unreachable { endpoint, reason: reason.to_owned() })
    }

    fn slot(self: &Arc<Self>, contact: Contact) -> Arc<Slot> {
        let mut slots = self.slots.lock();
        if let Some(slot) = slots.get(&contact) {
            return Arc::clone(slot);
        }
        // The sweep ends with the last slot, so the first one starts it again.
        if slots.is_empty() {
            tokio::spawn(sweep(Arc::downgrade(self), self.dialer.options.idle_timeout));
        }
        if slots.len() >= self.dialer.options.servers_max {
            // Sessions in use live on with their users; others are closed here.
            let idle = slots.iter().filter(|(_, slot)| Arc::strong_count(slot) == 1);
            let oldest = idle.min_by_key(|(_, slot)| slot.worth()).map(|(contact, _)| contact.clone());
            oldest.map(|oldest| slots.remove(&oldest));
        }
        Arc::clone(slots.entry(contact).or_insert_with(|| Arc::new(Slot::new())))
    }

    /// Closes the sessions that were not used for `idle_time`; returns whether any are left.
    fn close_idle(&self, idle_time: Duration) -> bool {
        let mut slots = self.slots.lock();
        slots.retain(|_, slot| !slot.is_idle_for(idle_time));
        !slots.is_empty()
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("dialer", &self.dialer).finish_non_exhaustive()
    }
}

impl Slot {
    fn new() -> Self {
        Self { connection: Arc::default(), last_use: Mutex::new(Instant::now()) }
    }

    /// Orders slots by how much is lost with them: live sessions are worth more than others, recent ones more than old ones.
    fn worth(&self) -> (bool, Instant) {
        let is_live = self.connection.get().is_some_and(|connection| connection.broken().is_none());
        (is_live || self.is_connecting(), *self.last_use.lock())
    }

    fn is_idle_for(&self, idle_time: Duration) -> bool {
        let is_used = self.connection.get().is_some_and(|connection| {
            // One owner is the slot, another one this clone.
            let is_shared = Arc::strong_count(&connection) > 2;
            connection.broken().is_none() && (is_shared || !connection.is_idle())
        });
        let mut last_use = self.last_use.lock();
        if is_used || self.is_connecting() {
            // The idle time begins when the last file is closed and the last answer has arrived.
            *last_use = Instant::now();
        }
        last_use.elapsed() >= idle_time
    }

    /// An attempt to connect holds the value that it is to make.
    fn is_connecting(&self) -> bool {
        Arc::strong_count(&self.connection) > 1
    }
}

/// Closes idle sessions from time to time, until none are left or the pool is gone.
async fn sweep(pool: Weak<Pool>, idle_time: Duration) {
    loop {
        sleep(idle_time / 2).await;
        // A weak reference: this task must not keep the pool alive.
        let Some(pool) = pool.upgrade() else { return };
        if !pool.close_idle(idle_time) {
            return;
        }
    }
}
