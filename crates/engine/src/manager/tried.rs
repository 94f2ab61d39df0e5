//! Where a client has been already: it is never sent round in a circle.

use forebay_types::{Endpoint, RequestPath};

/// The servers that failed a client, as it tells when it comes back. It names hosts without ports: several servers of one host are
/// told apart by how often the host is named.
#[derive(Debug, Default)]
pub(crate) struct Tried<'a> {
    hosts: Vec<&'a str>,
    /// Whether one of them said that there is no such file.
    is_missing: bool,
}

impl<'a> Tried<'a> {
    pub(crate) fn of(path: &'a RequestPath) -> Self {
        let list = |key| path.cgi_value(key).into_iter().flat_map(|hosts| hosts.split(','));
        let hosts = list("tried").map(|host| host.trim_matches(['[', ']'])).filter(|host| !host.is_empty());
        Self { hosts: hosts.collect(), is_missing: list("triedrc").any(|reason| reason == "enoent") }
    }

    /// Whether the client has been at `server`; counts once for each time that it tells so.
    pub(crate) fn take(&mut self, server: &Endpoint) -> bool {
        let place = self.hosts.iter().position(|host| host.eq_ignore_ascii_case(server.host()));
        place.map(|place| self.hosts.swap_remove(place)).is_some()
    }

    /// Whether the client was told that there is no such file.
    pub(crate) const fn is_missing(&self) -> bool {
        self.is_missing
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(cgi: &str) -> RequestPath {
        RequestPath::parse(format!("/f?{cgi}").as_bytes()).unwrap()
    }

    #[test]
    fn each_mention_of_a_host_counts_once() {
        let (filler, origin) = (Endpoint::new("h", 1), Endpoint::new("h", 2));
        for (cgi, at_filler, at_origin) in [
            ("", false, false),
            ("tried=", false, false),
            ("tried=x", false, false),
            ("a=b&tried=H&triedrc=ioerr", true, false),
            ("tried=x,h,h", true, true),
        ] {
            let path = path(cgi);
            let mut tried = Tried::of(&path);
            assert_eq!((tried.take(&filler), tried.take(&origin)), (at_filler, at_origin), "{cgi}");
        }
    }

    #[test]
    fn addresses_and_reasons_are_understood() {
        let path = path("tried=[::1]&triedrc=ioerr,enoent");
        let mut tried = Tried::of(&path);
        assert!(tried.is_missing());
        assert!(tried.take(&Endpoint::new("::1", 1094)) && !tried.take(&Endpoint::new("::1", 1094)));
    }
}
