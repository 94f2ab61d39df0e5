//! Direct access: clients that see the file system of the cache read complete files themselves.

use forebay_engine::Redirects;
use forebay_types::AddressPattern;
use std::{
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

/// The clients that see the file system of the cache, and where they see it. Only they are redirected to its files.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct DirectAccess {
    pub clients: Vec<AddressPattern>,
    /// Directories of this machine, and their paths on the clients; the first match counts. Default: the same paths.
    pub paths: Vec<(PathBuf, PathBuf)>,
    /// The directories of the store, on this machine.
    pub directories: Vec<PathBuf>,
    /// Whether these clients are offered page reads. A page read cannot be answered by a redirect to a file.
    pub page_reads: bool,
    /// The file by which a client proves that it sees the store, once it is known.
    pub probe: Arc<OnceLock<Probe>>,
    /// Whether only clients that have proven it are redirected to files.
    pub needs_probe: bool,
}

/// A file that every client with access to the store can read.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Probe {
    pub path: PathBuf,
    /// The contents of the file.
    pub token: String,
}

impl Default for DirectAccess {
    /// Clients on this machine.
    fn default() -> Self {
        // A client on this machine sees the same file system.
        let clients = ["127.*", "::1"].map(|text| AddressPattern::Text(text.to_owned())).to_vec();
        Self {
            clients,
            paths: Vec::new(),
            directories: Vec::new(),
            page_reads: true,
            probe: Arc::default(),
            needs_probe: false,
        }
    }
}

impl DirectAccess {
    /// Whether a client is offered page reads.
    pub fn offers_pages(&self, client: IpAddr) -> bool {
        self.page_reads || !self.is_for(client)
    }

    /// Whether a client sees the file system of the cache, by its address.
    pub fn is_for(&self, client: IpAddr) -> bool {
        self.clients.iter().any(|pattern| pattern.matches(client))
    }

    /// The redirects that a client can follow, given the contents of the probe file that it has sent. Wrong contents exclude
    /// redirects to files, also where no proof is needed: the client has looked, and does not see this store.
    pub fn proven(&self, redirects: Redirects, token: Option<&str>) -> Redirects {
        let sees_files = matches!(redirects, Redirects::ToFiles | Redirects::ToFilesAmidReads);
        let is_proven = match token {
            Some(token) => self.probe.get().is_some_and(|probe| *token == *probe.token),
            None => !self.needs_probe,
        };
        if sees_files && !is_proven { Redirects::ToUrls } else { redirects }
    }

    /// The path of the probe file on `client`; `None` for clients that do not see the store.
    pub fn probe_path(&self, client: IpAddr) -> Option<String> {
        if !self.is_for(client) {
            return None;
        }
        let probe = self.probe.get()?;
        self.path_on_clients(&probe.path)
    }

    /// The directories of the store on `client`, separated by colons; `None` for clients that do not see the store.
    pub fn directories_on(&self, client: IpAddr) -> Option<String> {
        self.probe_path(client)?;
        let there = self.directories.iter().filter_map(|directory| self.path_on_clients(directory));
        let there = there.map(|directory| directory.trim_end_matches('/').to_owned());
        // Files below others are served.
        Some(there.filter(|directory| !directory.contains(':')).collect::<Vec<_>>().join(":"))
    }

    /// The URL of a file of this machine on clients; `None` when no URL can name it.
    pub fn url_of(&self, path: &Path) -> Option<String> {
        self.path_on_clients(path).map(|path| format!("file://localhost{path}"))
    }

    fn path_on_clients(&self, path: &Path) -> Option<String> {
        let below = |(here, there): &(PathBuf, PathBuf)| Some(there.join(path.strip_prefix(here).ok()?));
        // A path is the same on clients unless the configuration maps it.
        let there = self.paths.iter().find_map(below).unwrap_or_else(|| path.to_owned());
        // Stock clients take the path of such a URL literally, except for the character that begins opaque data.
        let there = there.to_str().filter(|there| there.starts_with('/') && !there.contains(['?', '\0', '\n']))?;
        Some(there.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn where_a_proof_is_needed_only_proven_clients_are_redirected_to_files() {
        let (path, token) = (PathBuf::from("/s/.forebay-probe"), "00".repeat(16));
        let probe = Arc::new(OnceLock::from(Probe { path, token: token.clone() }));
        let asking = DirectAccess { probe, needs_probe: true, ..access(&["10.1.*"], &[("/s", "/mnt/s")]) };
        for (redirects, sent, expected) in [
            (Redirects::ToFiles, Some(&*token), Redirects::ToFiles),
            (Redirects::ToFilesAmidReads, Some(&*token), Redirects::ToFilesAmidReads),
            (Redirects::ToFilesAmidReads, Some("00"), Redirects::ToUrls),
            (Redirects::ToFiles, None, Redirects::ToUrls),
            (Redirects::ToServers, Some(&*token), Redirects::ToServers),
        ] {
            assert_eq!(asking.proven(redirects, sent), expected, "{sent:?}");
        }
        let lost = DirectAccess { probe: Arc::default(), ..asking.clone() };
        assert_eq!(lost.proven(Redirects::ToFiles, None), Redirects::ToUrls, "no client can prove it");
        let trusting = DirectAccess { needs_probe: false, ..asking.clone() };
        assert_eq!(trusting.proven(Redirects::ToFiles, None), Redirects::ToFiles, "no proof is needed");
        assert_eq!(
            trusting.proven(Redirects::ToFiles, Some("none")),
            Redirects::ToUrls,
            "the client sees another store"
        );
        assert_eq!(asking.probe_path("10.1.0.1".parse().unwrap()).as_deref(), Some("/mnt/s/.forebay-probe"));
        assert_eq!(asking.probe_path("10.2.0.1".parse().unwrap()), None);
        let directories = ["/s", "/t", "/u:v"].map(PathBuf::from).to_vec();
        let several = DirectAccess { directories, ..asking };
        assert_eq!(several.directories_on("10.1.0.1".parse().unwrap()).as_deref(), Some("/mnt/s:/t"));
        assert_eq!(several.directories_on("10.2.0.1".parse().unwrap()), None);
    }

    #[test]
    fn urls_hold_the_paths_of_the_clients() {
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
