//! Limits on how much of the server one client can occupy.

use crate::front::Options;
use forebay_auth::Identity;
use forebay_telemetry::ConnectionLimit;
use parking_lot::Mutex;
use std::{
    collections::HashMap,
    hash::Hash,
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Counts occupied places by key: each key has the same limit.
#[derive(Debug)]
struct Places<K> {
    max: usize,
    counts: Mutex<HashMap<K, usize>>,
}

/// One occupied place. It becomes free when this is dropped.
#[derive(Debug)]
pub struct Place<K: Eq + Hash> {
    key: K,
    places: Arc<Places<K>>,
}

/// The limits of one server.
#[derive(Debug)]
pub struct ClientLimits {
    total: Arc<Semaphore>,
    /// Connections by network of the client.
    connections: Arc<Places<IpAddr>>,
    /// Connections that are not logged in, by network of the client.
    logins: Arc<Places<IpAddr>>,
    /// Sessions by proven identity; `None` without a limit.
    identities: Option<Arc<Places<String>>>,
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
        let Options { connections_max, .. } = *options;
        // One client, or one NAT address of a cluster, must leave connections to others.
        let connections = options.connections_per_address_max.unwrap_or(connections_max - connections_max / 4);
        let logins = options.logins_per_address_max.unwrap_or_else(|| connections_max.div_ceil(2));
        Self {
            total: Arc::new(Semaphore::new(connections_max.min(Semaphore::MAX_PERMITS))),
            connections: Places::new(connections),
            logins: Places::new(logins),
            identities: options.sessions_per_identity_max.map(Places::new),
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

    /// A place for one more session of `identity`; `Ok(None)` when its sessions are not limited.
    ///
    /// # Errors
    /// The limit, when it is reached. Sessions are limited to this number.
    pub fn admit_session(&self, identity: &Identity) -> Result<Option<Place<String>>, usize> {
        let Some((places, name)) = self.identities.as_ref().zip(name_of(identity)) else { return Ok(None) };
        places.occupy(name).map(Some).ok_or(places.max)
    }
}

impl<K: Clone + Eq + Hash> Places<K> {
    fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, counts: Mutex::default() })
    }

    /// A place for `key`; `None` when its limit is reached.
    fn occupy(self: &Arc<Self>, key: K) -> Option<Place<K>> {
        let mut counts = self.counts.lock();
        let count = counts.entry(key.clone()).or_default();
        if *count < self.max {
            *count += 1;
            return Some(Place { key, places: Arc::clone(self) });
        }
        // With a limit of 0 the entry is new, and no place will ever remove it.
        if *count == 0 {
            counts.remove(&key);
        }
        None
    }
}

impl<K: Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        let mut counts = self.places.counts.lock();
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

/// The unit that counts as one client: an IPv4 address, or an IPv6 network of 64 bits, all of which one machine may use.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address => address,
    }
}

/// The key of a proven identity; `None` for names without a proof, which anyone can claim.
fn name_of(identity: &Identity) -> Option<String> {
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

    #[test]
    fn each_key_has_its_own_limit_and_frees_its_places() {
        let places = Places::new(2);
        let both = [places.occupy("a").unwrap(), places.occupy("a").unwrap()];
        assert!(places.occupy("a").is_none());
        let other = places.occupy("b");
        assert!(other.is_some());
        drop(both);
        assert!(places.occupy("a").is_some());
        drop(other);
        assert!(places.counts.lock().is_empty(), "a key without places takes no memory");
        let places = Places::new(0);
        assert!(places.occupy("a").is_none());
        assert!(places.counts.lock().is_empty());
    }

    #[test]
    fn a_client_is_an_address_or_a_network_or_a_proven_name() {
        let network = |text: &str| network_of(text.parse().unwrap()).to_string();
        assert_eq!(network("192.0.2.7"), "192.0.2.7");
        assert_eq!(network("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        let named = |method| Identity { user: Some("ann".to_owned()), ..Identity::of(method, "h") };
        assert_eq!(name_of(&named(Method::Unix)), None);
        assert_eq!(name_of(&named(Method::Sss)).as_deref(), Some("\nann"));
        let issued = Identity { issuer: Some("i".to_owned()), subject: Some("s".to_owned()), ..named(Method::Token) };
        assert_eq!(name_of(&issued).as_deref(), Some("i\ns"));
    }
}
