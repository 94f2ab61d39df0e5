//! The typed form of a request for a name, and of the client that makes it.

use forebay_auth::{Credentials, Identity, Token};
use forebay_origin::DelegatedCredentials;
use forebay_telemetry::Client;
use forebay_types::{ByteRange, Endpoint, Lfn, RequestPath};
use std::sync::Arc;

/// A client's request for a name. Each front builds it from its own protocol.
#[derive(Clone, Debug)]
pub struct OpenRequest {
    pub lfn: Lfn,
    /// All parameters as the client sent them, for the rules: `key=value&…`. May hold secrets: never log it.
    pub parameters: String,
    /// The parameters that go to the origin. May hold secrets: never log it.
    pub origin_parameters: String,
    /// Whether the file is wanted only if it is in the cache.
    pub only_if_cached: bool,
    /// Whether a cached copy is to be compared with its origin now, unless it was a moment ago.
    pub revalidates: bool,
    /// Whether the name can be that of a directory only: it was written with a slash at its end.
    pub is_of_directory: bool,
    pub tried: Tried,
    /// The bytes that the client is going to read first, perhaps beyond the end of the file; empty if they are not known.
    pub first_read: ByteRange,
    /// A token that counts instead of the login. The front takes it out of the parameters.
    pub token: Option<Token>,
    /// The contents of the probe file, from a client that sees the store.
    pub probe: Option<String>,
}

/// The servers that failed a client, as it reports them when it comes back. It names hosts without ports: several servers of
/// one host are distinguished by how often the host is named.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Tried {
    hosts: Vec<String>,
    /// Whether one of them answered that there is no such file.
    is_missing: bool,
}

/// Parameter of clients that want a file only if it is in the cache. XCache accepts it with and without a value.
const ONLY_IF_CACHED: &str = "only-if-cached";

impl OpenRequest {
    pub fn of(lfn: Lfn) -> Self {
        Self {
            lfn,
            parameters: String::new(),
            origin_parameters: String::new(),
            only_if_cached: false,
            revalidates: false,
            is_of_directory: false,
            tried: Tried::default(),
            // Almost all readers begin at the beginning.
            first_read: ByteRange::at(0, 1),
            token: None,
            probe: None,
        }
    }
}

impl From<RequestPath> for OpenRequest {
    /// Reads the parameters that XRootD clients write after a path. Those that concern only the hop to this server do not go
    /// to the origin.
    fn from(path: RequestPath) -> Self {
        // Most requests carry no parameters: nothing is parsed or allocated.
        let request = Self { is_of_directory: path.is_of_directory, ..Self::of(path.lfn.clone()) };
        if path.cgi.is_empty() {
            return request;
        }
        let tried = Tried::of(&path);
        let mut only_if_cached = false;
        let mut origin_parameters = String::with_capacity(path.cgi.len());
        for pair in path.cgi.split('&').filter(|pair| !pair.is_empty()) {
            let key = pair.split('=').next().unwrap_or_default();
            only_if_cached |= key == ONLY_IF_CACHED;
            // Parameters of the XRootD client library concern its connection to this server.
            let is_for_this_hop = key.starts_with("xrd.") || key.starts_with("xrdcl.");
            if is_for_this_hop || matches!(key, "tried" | "triedrc" | ONLY_IF_CACHED) {
                continue;
            }
            if !origin_parameters.is_empty() {
                origin_parameters.push('&');
            }
            origin_parameters.push_str(pair);
        }
        Self { parameters: path.cgi, origin_parameters, only_if_cached, tried, ..request }
    }
}

impl Tried {
    fn of(path: &RequestPath) -> Self {
        let list = |key| path.cgi_value(key).into_iter().flat_map(|values| values.split(','));
        // Clients write IPv6 addresses in brackets.
        let hosts = list("tried").map(|host| host.trim_matches(['[', ']'])).filter(|host| !host.is_empty());
        Self { hosts: hosts.map(str::to_owned).collect(), is_missing: list("triedrc").any(|reason| reason == "enoent") }
    }

    /// Whether the client has been at `server`. Counts once for each time the client names its host.
    pub fn take(&mut self, server: &Endpoint) -> bool {
        // Removed once matched: the next server of the same host needs a further mention.
        let place = self.hosts.iter().position(|host| host.eq_ignore_ascii_case(server.host()));
        place.map(|place| self.hosts.swap_remove(place)).is_some()
    }

    /// Whether a server answered that there is no such file.
    #[must_use]
    pub const fn is_missing(&self) -> bool {
        self.is_missing
    }
}

/// The client that a request is made for: its identity, its names in rules and logs, and its credentials towards origins.
#[derive(Clone, Debug)]
pub struct Caller {
    pub identity: Identity,
    pub client: Arc<Client>,
    pub delegation: Delegation,
}

/// In whose name origins are asked.
#[derive(Clone, Debug, Default)]
pub enum Delegation {
    /// In the server's own name. Its requests need no authorization by an origin.
    #[default]
    Operator,
    /// In the name of a client, with the credentials that it has delegated, if any.
    Client(Option<Arc<Credentials>>),
}

impl Caller {
    /// A request of the server itself, under the name that the access log shows.
    pub fn operator(user: &str) -> Arc<Self> {
        // The server acts on its own machine.
        let client = Client { user: user.to_owned(), host: "localhost".to_owned(), ..Client::default() };
        let identity = Identity::anonymous(&client.host);
        Arc::new(Self { identity, client: Arc::new(client), delegation: Delegation::Operator })
    }
}

impl Delegation {
    /// The credentials that origins are shown, in a cell of their own: a file's renewed credentials must not become those of
    /// another file.
    pub(crate) fn credentials(&self) -> DelegatedCredentials {
        DelegatedCredentials::of(match self {
            Self::Client(credentials) => credentials.clone(),
            Self::Operator => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(parameters: &str) -> OpenRequest {
        RequestPath::parse(format!("/f?{parameters}").as_bytes()).unwrap().into()
    }

    #[test]
    fn hop_by_hop_parameters_do_not_go_to_the_origin() {
        for (sent, origin) in [
            ("xrd.wantprot=unix&a=1&tried=h&xrdcl.x=2&triedrc=enoent&b=%20&c", "a=1&b=%20&c"),
            ("", ""),
            ("only-if-cached&a=1&&only-if-cached=1", "a=1"),
        ] {
            let request = request(sent);
            assert_eq!((request.parameters.as_str(), request.origin_parameters.as_str()), (sent, origin));
        }
    }

    #[test]
    fn the_wish_for_cached_files_is_known_by_its_key() {
        for (parameters, is_wish) in [
            ("only-if-cached", true),
            ("a=1&only-if-cached=1", true),
            ("only-if-cached-not", false),
            ("a=only-if-cached", false),
        ] {
            assert_eq!(request(parameters).only_if_cached, is_wish, "{parameters}");
        }
    }

    #[test]
    fn each_mention_of_a_host_counts_once() {
        let filler = Endpoint::new("h", 1);
        let origin = Endpoint::new("h", 2);
        for (parameters, at_filler, at_origin) in [
            ("", false, false),
            ("tried=", false, false),
            ("tried=x", false, false),
            ("a=b&tried=H&triedrc=ioerr", true, false),
            ("tried=x,h,h", true, true),
        ] {
            let mut tried = request(parameters).tried;
            assert_eq!((tried.take(&filler), tried.take(&origin)), (at_filler, at_origin), "{parameters}");
        }
    }

    #[test]
    fn addresses_and_reasons_are_understood() {
        let mut tried = request("tried=[::1]&triedrc=ioerr,enoent").tried;
        assert!(tried.is_missing());
        assert!(tried.take(&Endpoint::new("::1", 1094)) && !tried.take(&Endpoint::new("::1", 1094)));
    }
}
