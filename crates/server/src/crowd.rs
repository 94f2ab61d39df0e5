//! How much of the server one client may take: who holds how many of what.

use crate::options::Options;
use forebay_auth::Identity;
use parking_lot::{Mutex, MutexGuard};
use std::{
    collections::HashMap,
    hash::Hash,
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

/// Places that are taken, by who has taken them: each may have so many.
#[derive(Debug)]
pub(crate) struct Crowd<K> {
    max: usize,
    counts: Mutex<HashMap<K, usize>>,
}

/// A place; it becomes free when this is dropped.
#[derive(Debug)]
pub(crate) struct Place<K: Eq + Hash> {
    key: K,
    crowd: Arc<Crowd<K>>,
}

/// The crowds of one server.
#[derive(Debug)]
pub(crate) struct Crowds {
    /// Connections by the network of their client.
    pub(crate) connections: Arc<Crowd<IpAddr>>,
    /// Connections that are not logged in, by the network of their client.
    pub(crate) logins: Arc<Crowd<IpAddr>>,
    /// Sessions by who was proven to have them; `None` without a limit.
    pub(crate) identities: Option<Arc<Crowd<String>>>,
}

impl Crowds {
    /// Nobody is here yet.
    pub(crate) fn new(options: &Options) -> Self {
        let Options { connections_max, .. } = *options;
        let connections = options.connections_per_address_max.unwrap_or(connections_max - connections_max / 4);
        let logins = options.logins_per_address_max.unwrap_or_else(|| connections_max.div_ceil(2));
        Self {
            connections: Crowd::new(connections),
            logins: Crowd::new(logins),
            identities: options.sessions_per_identity_max.map(Crowd::new),
        }
    }
}

impl<K: Clone + Eq + Hash> Crowd<K> {
    fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, counts: Mutex::default() })
    }

    /// A place for `key`; `None` when it has all that it may have.
    pub(crate) fn enter(self: &Arc<Self>, key: K) -> Option<Place<K>> {
        let mut counts = self.counts();
        let count = counts.entry(key.clone()).or_default();
        if *count < self.max {
            *count += 1;
            return Some(Place { key, crowd: Arc::clone(self) });
        }
        if *count == 0 {
            counts.remove(&key);
        }
        None
    }

    fn counts(&self) -> MutexGuard<'_, HashMap<K, usize>> {
        self.counts.lock()
    }
}

impl<K: Eq + Hash> Drop for Place<K> {
    fn drop(&mut self) {
        let mut counts = self.crowd.counts.lock();
        if let Some(count) = counts.get_mut(&self.key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.key);
            }
        }
    }
}

/// What counts as one client: an address of IPv4, or a network of IPv6 with 64 bits, all of which one machine may use.
pub(crate) fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address => address,
    }
}

/// What a proven identity is counted by; `None` for those who have proven nothing, who may be anybody.
pub(crate) fn name_of(identity: &Identity) -> Option<String> {
    let name = identity.subject.as_ref().or(identity.user.as_ref()).filter(|_| identity.method.is_proof())?;
    Some(format!("{}\n{name}", identity.issuer.as_deref().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_auth::Method;

    #[test]
    fn each_has_so_many_places_and_gives_them_back() {
        let crowd = Crowd::new(2);
        let places = [crowd.enter("a").unwrap(), crowd.enter("a").unwrap()];
        assert!(crowd.enter("a").is_none());
        let other = crowd.enter("b");
        assert!(other.is_some());
        drop(places);
        assert!(crowd.enter("a").is_some());
        drop(other);
        assert!(crowd.counts().is_empty(), "who holds nothing costs nothing");
    }

    #[test]
    fn who_may_have_nothing_is_not_remembered() {
        let crowd = Crowd::new(0);
        assert!(crowd.enter("a").is_none());
        assert!(crowd.counts().is_empty());
    }

    #[test]
    fn a_client_is_an_address_or_a_network() {
        let network = |text: &str| network_of(text.parse().unwrap()).to_string();
        assert_eq!(network("192.0.2.7"), "192.0.2.7");
        assert_eq!(network("::ffff:192.0.2.7"), "192.0.2.7");
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
    }

    #[test]
    fn only_proven_names_are_counted() {
        let named = |method| Identity { user: Some("ann".to_owned()), ..Identity::of(method, "h") };
        assert_eq!(name_of(&named(Method::Unix)), None);
        assert_eq!(name_of(&named(Method::Sss)).as_deref(), Some("\nann"));
        let issued = Identity { issuer: Some("i".to_owned()), subject: Some("s".to_owned()), ..named(Method::Token) };
        assert_eq!(name_of(&issued).as_deref(), Some("i\ns"));
    }
}
