//! Clients that see the file system of the cache: complete files are left to them.

use crate::{exchange::Exchange, options::DirectAccess, server::Shared};
use forebay_engine::{Handle, Redirects};
use forebay_proto::Abilities;
use forebay_types::glob_matches;
use std::{
    net::IpAddr,
    path::{Path, PathBuf},
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
        Self { clients: vec!["127.*".to_owned(), "::1".to_owned()], paths: Vec::new(), page_reads: true }
    }
}

impl DirectAccess {
    /// Whether a client is told that it can read by pages. Such reads are never left to clients.
    pub(crate) fn offers_pages(&self, client: IpAddr) -> bool {
        self.page_reads || !self.is_for(client)
    }

    fn is_for(&self, client: IpAddr) -> bool {
        let address = client.to_canonical().to_string();
        self.clients.iter().any(|pattern| glob_matches(pattern.as_bytes(), address.as_bytes()))
    }

    /// The URL of a file of this machine as clients see it; `None` when no URL can name it.
    pub(crate) fn url_of(&self, path: &Path) -> Option<String> {
        let below = |(here, there): &(PathBuf, PathBuf)| Some(there.join(path.strip_prefix(here).ok()?));
        let seen = self.paths.iter().find_map(below).unwrap_or_else(|| path.to_owned());
        // Stock clients take such a path as it is, but for the character that begins opaque data.
        let seen = seen.to_str().filter(|seen| seen.starts_with('/') && !seen.contains(['?', '\0', '\n']))?;
        Some(format!("file://localhost{seen}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(clients: &[&str], paths: &[(&str, &str)]) -> DirectAccess {
        let paths = paths.iter().map(|(here, there)| (PathBuf::from(here), PathBuf::from(there)));
        let clients = clients.iter().map(ToString::to_string).collect();
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
