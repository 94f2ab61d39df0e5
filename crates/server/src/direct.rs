//! Clients that see the file system of the cache: complete files are left to them.

use crate::{exchange::Exchange, options::DirectAccess, server::Shared};
use forebay_engine::{Handle, Redirects};
use forebay_proto::Abilities;
use forebay_types::{AddressPattern, RequestPath};
use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
};

impl Exchange {
    /// Which redirects a client can follow that has told its abilities.
    pub(crate) fn redirects_for(&self, ability: Abilities) -> Redirects {
        if !ability.contains(Abilities::FULL_URL) {
            return Redirects::ToServers;
        }
        let sees_files = ability.contains(Abilities::LOCAL_FILE) && self.shared.options.direct.is_for(self.peer.ip());
        match (sees_files, ability.contains(Abilities::READ_REDIRECT)) {
            (true, true) => Redirects::ToFilesAmidReads,
            (true, false) => Redirects::ToFiles,
            (false, _) => Redirects::ToUrls,
        }
    }
}

impl Shared {
    /// Leaves an open file to the client, which sees it; gives its URL. `None` when it has to be served.
    pub(crate) async fn switch(&self, handle: &Handle) -> Option<String> {
        handle.switch().await.and_then(|path| self.options.direct.url_of(&path))
    }
}

impl Default for DirectAccess {
    /// Clients on this machine.
    fn default() -> Self {
        let clients = ["127.*", "::1"].map(|text| AddressPattern::Text(text.to_owned())).to_vec();
        Self { clients, paths: Vec::new(), page_reads: true, probe: Arc::default(), needs_probe: false }
    }
}

impl DirectAccess {
    /// Whether a client is told that it can read by pages. Such reads are never left to clients.
    pub(crate) fn offers_pages(&self, client: IpAddr) -> bool {
        self.page_reads || !self.is_for(client)
    }

    fn is_for(&self, client: IpAddr) -> bool {
        self.clients.iter().any(|pattern| pattern.matches(client))
    }

    /// Which redirects a client can follow that has told `token` with its request. A wrong one says that it sees no files, asked for or not.
    pub(crate) fn proven(&self, redirects: Redirects, token: Option<&str>) -> Redirects {
        let sees_files = matches!(redirects, Redirects::ToFiles | Redirects::ToFilesAmidReads);
        let is_proven = match token {
            Some(token) => self.probe.get().is_some_and(|probe| *token == *probe.token),
            None => !self.needs_probe,
        };
        if sees_files && !is_proven { Redirects::ToUrls } else { redirects }
    }

    /// Where `client` sees the probe file, if it is one of those who see the store.
    pub(crate) fn probe_path(&self, client: IpAddr) -> Option<String> {
        let probe = self.probe.get().filter(|_| self.is_for(client))?;
        self.seen(&probe.path)
    }

    /// The URL of a file of this machine as clients see it; `None` when no URL can name it.
    pub(crate) fn url_of(&self, path: &Path) -> Option<String> {
        self.seen(path).map(|seen| format!("file://localhost{seen}"))
    }

    /// Where clients see a file of this machine.
    fn seen(&self, path: &Path) -> Option<String> {
        let below = |(here, there): &(PathBuf, PathBuf)| Some(there.join(path.strip_prefix(here).ok()?));
        let seen = self.paths.iter().find_map(below).unwrap_or_else(|| path.to_owned());
        // Stock clients take such a path as it is, but for the character that begins opaque data.
        let seen = seen.to_str().filter(|seen| seen.starts_with('/') && !seen.contains(['?', '\0', '\n']))?;
        Some(seen.to_owned())
    }
}

/// First part of the keys of opaque data that are for this server alone.
const OWN_KEYS: &str = "forebay.";

/// Key under which a client tells what is in the probe file.
const PROBE_KEY: &str = "forebay.probe";

/// Takes what is for this server alone out of the opaque data, so that neither rules nor origins see it; gives what the client has read in the
/// probe file.
pub(crate) fn take_probe(path: &mut RequestPath) -> Option<String> {
    if !path.cgi.contains(OWN_KEYS) {
        return None;
    }
    let probe = path.cgi_value(PROBE_KEY).map(str::to_owned);
    let others = path.cgi.split('&').filter(|pair| !pair.starts_with(OWN_KEYS));
    path.cgi = others.collect::<Vec<_>>().join("&");
    probe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::Probe;
    use std::sync::OnceLock;

    fn access(clients: &[&str], paths: &[(&str, &str)]) -> DirectAccess {
        let paths = paths.iter().map(|(here, there)| (PathBuf::from(here), PathBuf::from(there)));
        let clients = clients.iter().map(|text| text.parse().unwrap()).collect();
        DirectAccess { clients, paths: paths.collect(), ..DirectAccess::default() }
    }

    #[test]
    fn clients_are_known_by_their_addresses() {
        let worker_nodes = access(&["10.1.*", "2001:db8:*"], &[]);
        for (address, is_one) in [
            ("10.1.2.3", true),
            ("::ffff:10.1.2.3", true),
            ("10.2.2.3", false),
            ("2001:db8::7", true),
            ("127.0.0.1", false),
        ] {
            assert_eq!(worker_nodes.is_for(address.parse().unwrap()), is_one, "{address}");
        }
        assert!(DirectAccess::default().is_for("127.0.0.1".parse().unwrap()));
        assert!(!DirectAccess::default().is_for("192.0.2.1".parse().unwrap()));
    }

    #[test]
    fn where_a_proof_is_asked_for_only_who_brings_it_is_sent_to_files() {
        let (path, token) = (PathBuf::from("/s/.forebay-probe"), "00".repeat(16));
        let probe = Arc::new(OnceLock::from(Probe { path, token: token.clone() }));
        let asking = DirectAccess { probe, needs_probe: true, ..access(&["10.1.*"], &[("/s", "/mnt/s")]) };
        for (redirects, told, expected) in [
            (Redirects::ToFiles, Some(&*token), Redirects::ToFiles),
            (Redirects::ToFilesAmidReads, Some(&*token), Redirects::ToFilesAmidReads),
            (Redirects::ToFilesAmidReads, Some("00"), Redirects::ToUrls),
            (Redirects::ToFiles, None, Redirects::ToUrls),
            (Redirects::ToServers, Some(&*token), Redirects::ToServers),
        ] {
            assert_eq!(asking.proven(redirects, told), expected, "{told:?}");
        }
        let lost = DirectAccess { probe: Arc::default(), ..asking.clone() };
        assert_eq!(lost.proven(Redirects::ToFiles, None), Redirects::ToUrls, "nobody can prove it");
        let trusting = DirectAccess { needs_probe: false, ..asking.clone() };
        assert_eq!(trusting.proven(Redirects::ToFiles, None), Redirects::ToFiles, "nobody is asked");
        assert_eq!(trusting.proven(Redirects::ToFiles, Some("none")), Redirects::ToUrls, "it says that it sees none");
        assert_eq!(asking.probe_path("10.1.0.1".parse().unwrap()).as_deref(), Some("/mnt/s/.forebay-probe"));
        assert_eq!(asking.probe_path("10.2.0.1".parse().unwrap()), None);
    }

    #[test]
    fn what_is_for_this_server_goes_no_further() {
        for (cgi, probe, rest) in [
            ("a=1&forebay.probe=ff&b", Some("ff"), "a=1&b"),
            ("forebay.probe=ff", Some("ff"), ""),
            ("forebay.other=1&x.forebay.probe=2", None, "x.forebay.probe=2"),
            ("a=1", None, "a=1"),
        ] {
            let mut path = RequestPath::parse(format!("/f?{cgi}").as_bytes()).unwrap();
            assert_eq!((take_probe(&mut path).as_deref(), path.cgi.as_str()), (probe, rest), "{cgi}");
        }
    }

    #[test]
    fn files_are_named_as_clients_see_them() {
        let mapped = access(&[], &[("/srv/cache/a", "/mnt/one"), ("/srv/cache", "/mnt/cache")]);
        for (path, url) in [
            ("/srv/cache/a/f", Some("file://localhost/mnt/one/f")),
            ("/srv/cache/b/f", Some("file://localhost/mnt/cache/b/f")),
            ("/srv/cache-2/f", Some("file://localhost/srv/cache-2/f")),
            ("/srv/cache/what?", None),
        ] {
            assert_eq!(mapped.url_of(Path::new(path)).as_deref(), url, "{path}");
        }
    }
}
