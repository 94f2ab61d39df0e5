//! Sessions shared by everything in the process that talks to the same server.

use crate::{
    OnBehalf, OriginError, PoolOptions,
    circuit::Circuit,
    connection::{Connection, Dialer},
};
use forebay_auth::{CredentialSource, CredentialUse, Credentials, CredentialsName, UnixTime};
use forebay_net::TlsConnector;
use forebay_proto::TlsUse;
use forebay_types::Endpoint;
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::Duration,
};
use tokio::time::{Instant, sleep, timeout_at};

/// One session with each server that is in use. Many files, clients and origins share it.
///
/// Askers for the same server wait for one attempt to connect and share its outcome.
#[derive(Debug)]
pub struct Pool {
    dialer: Dialer,
    circuit: Circuit,
    source: Arc<dyn CredentialSource>,
    /// What is shown for a client that has nothing to show.
    nobody: Arc<Credentials>,
    slots: Mutex<HashMap<Contact, Arc<Slot>>>,
}

/// What sessions are told apart by: one that may be in clear never serves those who insist on TLS, and one that was opened with
/// some credentials never those with others.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
struct Contact {
    endpoint: Endpoint,
    insists_on_tls: bool,
    /// Who the server takes us for.
    credentials: CredentialsName,
}

#[derive(Debug, Default)]
struct Slot {
    session: tokio::sync::Mutex<Session>,
}

#[derive(Debug, Default)]
struct Session {
    connection: Option<Arc<Connection>>,
    /// When the last attempt failed, and how; who began to wait before that shares it.
    failure: Option<(Instant, OriginError)>,
    last_use: Option<Instant>,
}

impl Pool {
    /// A pool without sessions and without TLS, which proves nothing to servers.
    #[must_use]
    pub fn new(options: PoolOptions) -> Arc<Self> {
        let source = Anonymous(Arc::new(Credentials::of_nobody(&options.username)));
        Self::secured(options, None, Arc::new(source))
    }

    /// A pool without sessions that encrypts with `tls` where that is demanded, and proves to servers what `source` gives.
    #[must_use]
    pub fn secured(options: PoolOptions, tls: Option<TlsConnector>, source: Arc<dyn CredentialSource>) -> Arc<Self> {
        let circuit = Circuit::new(options.circuit_time);
        let nobody = Arc::new(Credentials::of_client());
        Arc::new(Self { circuit, dialer: Dialer { options, tls }, source, nobody, slots: Mutex::default() })
    }

    /// What is used towards `endpoint`, for whom something is asked.
    ///
    /// A client's credentials go to nobody but servers that the configuration names: those that are shown something, and those
    /// of the origin itself, of which `endpoint` is one when it `is_home`.
    pub(crate) fn credentials(&self, endpoint: &Endpoint, on_behalf: &OnBehalf, is_home: bool) -> Arc<Credentials> {
        let of_client = || on_behalf.credentials().unwrap_or_else(|| Arc::clone(&self.nobody));
        match self.source.towards(endpoint) {
            CredentialUse::OfClient => of_client(),
            CredentialUse::Own(own) if !on_behalf.is_insisting() => own,
            CredentialUse::Own(own) if is_home || own.prove_something() => of_client(),
            CredentialUse::Own(_) => Arc::clone(&self.nobody),
        }
    }

    /// Whether `endpoint` is shown the credentials of clients.
    pub(crate) fn acts_for_clients(&self, endpoint: &Endpoint) -> bool {
        matches!(self.source.towards(endpoint), CredentialUse::OfClient)
    }

    /// Which servers could not be reached lately.
    pub(crate) const fn circuit(&self) -> &Circuit {
        &self.circuit
    }

    /// The session with `endpoint` under `credentials`, made if there is none; encrypted as `tls` says.
    ///
    /// # Errors
    /// `Unreachable` also when `deadline` passes first; otherwise as [`dial`].
    pub(crate) async fn connection(
        self: &Arc<Self>,
        endpoint: &Endpoint,
        tls: TlsUse,
        credentials: &Arc<Credentials>,
        deadline: Instant,
    ) -> Result<Arc<Connection>, OriginError> {
        let asked_at = Instant::now();
        let slot = self.slot(Contact {
            endpoint: endpoint.clone(),
            insists_on_tls: tls == TlsUse::Always,
            credentials: *credentials.name(),
        });
        let connected = timeout_at(deadline, async {
            let mut session = slot.session.lock().await;
            session.last_use = Some(Instant::now());
            let now = UnixTime(forebay_net::clock::now_unix());
            if credentials.valid_until().is_some_and(|end| end < now) {
                // The server has not looked at them since: it is to look again.
                session.connection = None;
            }
            if let Some(connection) = session.connection.as_ref().filter(|connection| connection.broken().is_none()) {
                return Ok(Arc::clone(connection));
            }
            if let Some((_, error)) = session.failure.as_ref().filter(|(failed_at, _)| *failed_at > asked_at) {
                return Err(error.clone());
            }
            self.fill(&mut session, endpoint, tls, credentials).await
        });
        connected.await.unwrap_or_else(|_| {
            let reason = "no connection before the deadline".to_owned();
            Err(OriginError::Unreachable { endpoint: endpoint.clone(), reason })
        })
    }

    async fn fill(
        &self,
        session: &mut Session,
        endpoint: &Endpoint,
        tls: TlsUse,
        credentials: &Arc<Credentials>,
    ) -> Result<Arc<Connection>, OriginError> {
        session.connection = None;
        match self.dialer.dial(endpoint, tls, credentials).await {
            Ok(connection) => {
                self.circuit.mend(endpoint);
                session.failure = None;
                session.connection = Some(Arc::clone(&connection));
                Ok(connection)
            }
            Err(error) => {
                if matches!(error, OriginError::Unreachable { .. }) {
                    self.circuit.trip(endpoint, Instant::now());
                }
                session.failure = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    fn slot(self: &Arc<Self>, contact: Contact) -> Arc<Slot> {
        let mut slots = self.lock();
        if let Some(slot) = slots.get(&contact) {
            return Arc::clone(slot);
        }
        if slots.is_empty() {
            tokio::spawn(sweep(Arc::downgrade(self), self.dialer.options.idle_timeout));
        }
        if slots.len() >= self.dialer.options.servers_max {
            // Sessions in use live on with their users; others are closed here.
            let idle = slots.iter().filter(|(_, slot)| Arc::strong_count(slot) == 1);
            let oldest = idle.min_by_key(|(_, slot)| slot.worth()).map(|(contact, _)| contact.clone());
            oldest.map(|oldest| slots.remove(&oldest));
        }
        Arc::clone(slots.entry(contact).or_default())
    }

    /// Closes the sessions that nobody has used for `idle_time`; tells whether any are left.
    fn close_idle(&self, idle_time: Duration) -> bool {
        let mut slots = self.lock();
        slots.retain(|_, slot| !slot.is_idle_for(idle_time));
        !slots.is_empty()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Contact, Arc<Slot>>> {
        self.slots.lock()
    }
}

/// Proves nothing to anybody.
#[derive(Debug)]
struct Anonymous(Arc<Credentials>);

impl CredentialSource for Anonymous {
    fn towards(&self, _server: &Endpoint) -> CredentialUse {
        CredentialUse::Own(Arc::clone(&self.0))
    }
}

impl Slot {
    /// What is lost with it: sessions are worth more than failures, recent ones more than others.
    fn worth(&self) -> (bool, Option<Instant>) {
        // Somebody is connecting when it is locked.
        let Ok(session) = self.session.try_lock() else { return (true, Some(Instant::now())) };
        (session.connection.is_some(), session.last_use)
    }

    fn is_idle_for(&self, idle_time: Duration) -> bool {
        let Ok(mut session) = self.session.try_lock() else { return false };
        let is_used = session.connection.as_ref().is_some_and(|connection| {
            let is_shared = Arc::strong_count(connection) > 1;
            connection.broken().is_none() && (is_shared || !connection.is_idle())
        });
        if is_used {
            session.last_use = Some(Instant::now());
        }
        session.last_use.is_none_or(|last_use| last_use.elapsed() >= idle_time)
    }
}

/// Closes idle sessions from time to time, until none are left or the pool is gone.
async fn sweep(pool: Weak<Pool>, idle_time: Duration) {
    loop {
        sleep(idle_time / 2).await;
        let Some(pool) = pool.upgrade() else { return };
        if !pool.close_idle(idle_time) {
            return;
        }
    }
}
