//! Limits on how much of the server one client can occupy.

use crate::{
    front::Options,
    request_memory::{RequestMemory, RequestPool},
};
use forebay_auth::Identity;
use forebay_telemetry::ConnectionLimit;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    hash::Hash,
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Counts occupied places by key: each key has the same limits.
#[derive(Debug)]
struct Places<K> {
    max: usize,
    handles_max: usize,
    requests: RequestPool,
    counts: Mutex<HashMap<K, Count>>,
}

#[derive(Debug)]
struct Count {
    places: usize,
    handles: Arc<AtomicUsize>,
    requests: RequestMemory,
}

/// One occupied place. It becomes free when this is dropped.
#[derive(Debug)]
pub struct Place<K: Eq + Hash> {
    key: K,
    places: Arc<Places<K>>,
    handles: HandleShare,
    requests: RequestMemory,
}

/// The open files that a client may have, in all its sessions together.
#[derive(Clone, Debug)]
pub struct HandleShare {
    max: usize,
    taken: Arc<AtomicUsize>,
}

/// One open file of a share. Its place becomes free when this is dropped.
#[derive(Debug)]
pub struct HandlePlace {
    taken: Arc<AtomicUsize>,
}

/// The limits of one server.
#[derive(Debug)]
pub struct ClientLimits {
    total: Arc<Semaphore>,
    /// Connections by network of the client.
    connections: Arc<Places<IpAddr>>,
    /// Connections that are not logged in, by network of the client.
    logins: Arc<Places<IpAddr>>,
    /// Sessions by proven identity.
    identities: Arc<Places<String>>,
}

/// The places that a connection occupies as long as it lasts, and until it is logged in.
#[derive(Debug)]
pub struct ConnectionPlaces {
    pub in_total: OwnedSemaphorePermit,
    pub of_client: Place<IpAddr>,
    pub login: Place<IpAddr>,
}

impl ClientLimits {
    pub(crate) fn new(options: &Options) -> Self {
        let Options { connections_max, open_files_max, .. } = *options;
        // One client, or one NAT address of a cluster, must leave connections to others.
        let connections = options.connections_per_address_max.unwrap_or(connections_max - connections_max / 4);
        let logins = options.logins_per_address_max.unwrap_or_else(|| connections_max.div_ceil(2));
        let sessions = options.sessions_per_identity_max.unwrap_or(connections_max - connections_max / 4);
        // Three clients leave a quarter to others.
        let handles = open_files_max.div_ceil(4);
        let handles_of_address = options.handles_per_address_max.unwrap_or(handles);
        let handles_of_identity = options.handles_per_identity_max.unwrap_or(handles);
        let requests = RequestPool::new(options.memory_budget_bytes);
        Self {
            total: Arc::new(Semaphore::new(connections_max.min(Semaphore::MAX_PERMITS))),
            connections: Places::new(connections, handles_of_address, requests.clone()),
            logins: Places::new(logins, 0, requests.clone()),
            identities: Places::new(sessions, handles_of_identity, requests),
        }
    }

    /// The places of a new connection.
    ///
    /// # Errors
    /// The limit that is reached.
    pub fn admit(&self, client: IpAddr) -> Result<ConnectionPlaces, ConnectionLimit> {
        let client = network_of(client);
        Ok(ConnectionPlaces {
            in_total: Arc::clone(&self.total).try_acquire_owned().map_err(|_| ConnectionLimit::Total)?,
            of_client: self.connections.occupy(client).ok_or(ConnectionLimit::Address)?,
            login: self.logins.occupy(client).ok_or(ConnectionLimit::Logins)?,
        })
    }

    /// A place for one more session of `identity`; `Ok(None)` if it is not proven.
    ///
    /// # Errors
    /// The limit, when it is reached. Sessions are limited to this number.
    pub fn admit_session(&self, identity: &Identity) -> Result<Option<Place<String>>, usize> {
        let Some(name) = proven_name(identity) else { return Ok(None) };
        self.identities.occupy(name).map(Some).ok_or(self.identities.max)
    }
}

impl<K: Clone + Eq + Hash> Places<K> {
    fn new(max: usize, handles_max: usize, requests: RequestPool) -> Arc<Self> {
        Arc::new(Self { max, handles_max, requests, counts: Mutex::default() })
    }

    /// A place for `key`; `None` when its limit is reached.
    fn occupy(self: &Arc<Self>, key: K) -> Option<Place<K>> {
        let mut counts = self.counts.lock();
        let new = || Count { places: 0, handles: Arc::default(), requests: self.requests.of_client() };
        let count = counts.entry(key.clone()).or_insert_with(new);
        if count.places < self.max {
            count.places += 1;
            let handles = HandleShare { max: self.handles_max, taken: Arc::clone(&count.handles) };
            return Some(Place { key, places: Arc::clone(self), handles, requests: count.requests.clone() });
        }
        // With a limit of 0 the entry is new, and no place will ever remove it.
        if count.places == 0 {
            counts.remove(&key);
        }
        None
    }
}

impl<K: Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        let mut counts = self.places.counts.lock();
        if let Some(count) = counts.get_mut(&self.key) {
            count.places -= 1;
            if count.places == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

impl<K: Eq + Hash> Place<K> {
    /// The share of open files of the client that has this place.
    pub const fn handles(&self) -> &HandleShare {
        &self.handles
    }

    /// The memory for long requests of the client that has this place.
    pub const fn requests(&self) -> &RequestMemory {
        &self.requests
    }
}

impl HandleShare {
    /// A place for one more open file; `None` when the share is used up. Takes no lock: each open of a cached file comes here.
    pub fn occupy(&self) -> Option<HandlePlace> {
        let more = |taken| (taken < self.max).then_some(taken + 1);
        self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(HandlePlace { taken: Arc::clone(&self.taken) })
    }

    /// Whether half of the share is taken: a file that stays open only in case it is asked for again may cost another one its place.
    pub fn is_scarce(&self) -> bool {
        self.taken.load(Ordering::Relaxed) > self.max / 2
    }
}

impl Drop for HandlePlace {
    fn drop(&mut self) {
        self.taken.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The unit that counts as one client: an IPv4 address, or an IPv6 network of 64 bits, all of which one machine may use.
pub fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address => address,
    }
}

/// A proven identity as one name; `None` for names without a proof, which anyone can claim.
pub fn proven_name(identity: &Identity) -> Option<String> {
    if !identity.method.is_proof() {
        return None;
    }
    // A subject is unique for its issuer; local names may be shared.
    let name = identity.subject.as_ref().or(identity.user.as_ref())?;
    Some(format!("{}\n{name}", identity.issuer.as_deref().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_auth::Method;

    fn requests() -> RequestPool {
        RequestPool::new(64 << 20)
    }

    #[test]
    fn each_key_has_its_own_limit_and_frees_its_places() {
        let places = Places::new(2, 3, requests());
        let both = [places.occupy("a").unwrap(), places.occupy("a").unwrap()];
        assert!(places.occupy("a").is_none());
        let other = places.occupy("b");
        assert!(other.is_some());
        drop(both);
        assert!(places.occupy("a").is_some());
        drop(other);
        assert!(places.counts.lock().is_empty(), "a key without places takes no memory");
        let places = Places::new(0, 3, requests());
        assert!(places.occupy("a").is_none());
        assert!(places.counts.lock().is_empty());
    }

    #[test]
    fn all_sessions_of_a_client_share_its_open_files() {
        let places = Places::new(9, 3, requests());
        let sessions = [places.occupy("a").unwrap(), places.occupy("a").unwrap()];
        let mut open: Vec<_> = (0..3).map(|number| sessions[number % 2].handles().occupy().unwrap()).collect();
        assert!(sessions.iter().all(|session| session.handles().occupy().is_none()));
        let other = places.occupy("b").unwrap();
        assert!(other.handles().occupy().is_some());
        open.pop();
        assert!(sessions[0].handles().occupy().is_some());
    }

    #[test]
    fn three_clients_leave_connections_and_open_files_to_others() {
        let limits = ClientLimits::new(&Options { connections_max: 100, open_files_max: 400, ..Options::default() });
        assert_eq!((limits.connections.max, limits.connections.handles_max), (75, 100));
        assert_eq!((limits.identities.max, limits.identities.handles_max), (75, 100));
    }

    #[test]
    fn a_client_is_an_address_or_a_network_or_a_proven_name() {
        let network = |text: &str| network_of(text.parse().unwrap()).to_string();
        assert_eq!(network("192.0.2.7"), "192.0.2.7");
        assert_eq!(network("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        let named = |method| Identity { user: Some("ann".to_owned()), ..Identity::of(method, "h") };
        assert_eq!(proven_name(&named(Method::Unix)), None);
        assert_eq!(proven_name(&named(Method::Sss)).as_deref(), Some("\nann"));
        let issued = Identity { issuer: Some("i".to_owned()), subject: Some("s".to_owned()), ..named(Method::Token) };
        assert_eq!(proven_name(&issued).as_deref(), Some("i\ns"));
    }
}
