//! Where a redirect leads.

use forebay_origin::OriginPath;
use forebay_proto::{
    TlsUse,
    response::{Redirect, RedirectTarget},
};
use forebay_types::{Endpoint, Lfn};
use std::net::Ipv6Addr;

/// A server, and what to ask it for: one station on the way of a request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Hop {
    pub(crate) endpoint: Endpoint,
    pub(crate) path: OriginPath,
    /// Once a hop was encrypted, all later ones are.
    pub(crate) tls: TlsUse,
}

impl Hop {
    /// The next station, as the server at this one says.
    ///
    /// The path of a URL replaces the path, a host alone keeps it. Opaque data is merged: a key that the redirect
    /// names replaces the request's, the others stay.
    pub(crate) fn follow(&self, redirect: Redirect) -> Result<Self, String> {
        match redirect.target {
            RedirectTarget::Host { endpoint, cgi, token } => {
                let cgi = merge_cgi(&merge_cgi(&self.path.cgi, &cgi), &token);
                let path = OriginPath { cgi, ..self.path.clone() };
                Ok(Self { endpoint: reachable(&endpoint), path, tls: self.tls })
            }
            RedirectTarget::Url { tls, endpoint, path, cgi } => {
                let lfn = if path.is_empty() {
                    self.path.lfn.clone()
                } else {
                    Lfn::parse(&path).map_err(|error| format!("it redirects to an invalid path: {error}"))?
                };
                let path =
                    OriginPath { lfn, cgi: merge_cgi(&self.path.cgi, &cgi), delegation: self.path.delegation.clone() };
                // Never weaker than before: a redirect must not remove the encryption.
                let tls = if tls { TlsUse::Always } else { self.tls };
                Ok(Self { endpoint: reachable(&endpoint), path, tls })
            }
            RedirectTarget::LocalFile { .. } => {
                Err("it redirects to a file on its own disk, although this client has not offered to read such files"
                    .to_owned())
            }
            RedirectTarget::Foreign { scheme } => {
                Err(format!("it redirects to a `{scheme}://` URL, which this origin cannot follow"))
            }
        }
    }
}

/// The endpoint in a form that can be connected to: servers write IPv4 addresses as `[::127.0.0.1]`.
pub(crate) fn reachable(endpoint: &Endpoint) -> Endpoint {
    let v4 = endpoint.host().parse::<Ipv6Addr>().ok().and_then(|address| address.to_ipv4());
    match v4 {
        // ::1 and :: are IPv6 addresses of their own.
        Some(v4) if u32::from(v4) > 1 => Endpoint::new(&v4.to_string(), endpoint.port()),
        _ => endpoint.clone(),
    }
}

/// The parameters of `cgi` with those of `update`, which replace parameters of the same name. Values stay as they are
/// written.
pub(crate) fn merge_cgi(cgi: &str, update: &str) -> String {
    let key = |pair: &str| pair.split_once('=').map_or(pair, |(key, _)| key).to_owned();
    let updates: Vec<&str> = parameters(update).collect();
    let kept = parameters(cgi).filter(|pair| !updates.iter().any(|update| key(update) == key(pair)));
    kept.chain(updates.iter().copied()).collect::<Vec<_>>().join("&")
}

fn parameters(cgi: &str) -> impl Iterator<Item = &str> {
    cgi.split(['&', '?']).filter(|pair| !pair.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::route::payload;
    use forebay_origin::DelegatedCredentials;

    fn hop() -> Hop {
        let path = OriginPath {
            lfn: Lfn::parse("/store/f").unwrap(),
            cgi: "authz=t&a=1".to_owned(),
            delegation: DelegatedCredentials::default(),
        };
        Hop { endpoint: Endpoint::new("door", 1094), path, tls: TlsUse::WhenDemanded }
    }

    fn follow(port: i32, text: &str) -> Result<(String, String), String> {
        let mut body = port.to_be_bytes().to_vec();
        body.extend_from_slice(text.as_bytes());
        let next = hop().follow(Redirect::parse(&body).unwrap())?;
        Ok((next.endpoint.to_string(), payload(&next.path)))
    }

    #[test]
    fn a_host_keeps_the_path_and_merges_opaque_data() {
        let next = follow(1095, "pool.example?&a=2&org.dcache.uuid=x?tok=y").unwrap();
        assert_eq!(next, ("pool.example:1095".to_owned(), "/store/f?authz=t&a=2&org.dcache.uuid=x&tok=y".to_owned()));
        let next = follow(0, "[::1]").unwrap();
        assert_eq!(next, ("[::1]:1094".to_owned(), "/store/f?authz=t&a=1".to_owned()));
    }

    #[test]
    fn a_url_replaces_the_path() {
        let next = follow(-1, "root://u@pool:2000//disk/7?cap.sym=%2F=").unwrap();
        assert_eq!(next, ("pool:2000".to_owned(), "/disk/7?authz=t&a=1&cap.sym=%2F=".to_owned()));
    }

    #[test]
    fn an_encrypted_way_stays_encrypted() {
        let to = |hop: &Hop, url: &str| hop.follow(Redirect::parse(&[&[0xff; 4], url.as_bytes()].concat()).unwrap());
        let encrypted = to(&hop(), "roots://pool//f").unwrap();
        assert_eq!(encrypted.tls, TlsUse::Always);
        assert_eq!(to(&encrypted, "root://other//f").unwrap().tls, TlsUse::Always);
        assert_eq!(to(&hop(), "root://other//f").unwrap().tls, TlsUse::WhenDemanded);
        let by_host = Redirect::parse(&[&1094_u32.to_be_bytes()[..], b"pool"].concat()).unwrap();
        assert_eq!(encrypted.follow(by_host).unwrap().tls, TlsUse::Always);
    }

    #[test]
    fn redirects_that_cannot_be_followed_are_explained() {
        assert!(follow(-1, "file://localhost/data/f").unwrap_err().contains("own disk"));
        assert!(follow(-1, "https://door/f").unwrap_err().contains("https://"));
        assert!(follow(-1, "root://door/../f").unwrap_err().contains("invalid path"));
    }

    #[test]
    fn addresses_are_made_reachable() {
        for (told, meant) in [
            ("[::127.0.0.1]:11", "127.0.0.1:11"),
            ("[::ffff:10.0.0.1]:11", "10.0.0.1:11"),
            ("[::1]:11", "[::1]:11"),
            ("[2001:db8::1]:11", "[2001:db8::1]:11"),
            ("host.example:11", "host.example:11"),
        ] {
            assert_eq!(reachable(&told.parse().unwrap()).to_string(), meant);
        }
    }

    #[test]
    fn values_pass_unchanged() {
        assert_eq!(merge_cgi("", "a=%20%2f==b"), "a=%20%2f==b");
        assert_eq!(merge_cgi("flag&b=1", "b=2"), "flag&b=2");
        assert_eq!(merge_cgi("a=1&&b=2", ""), "a=1&b=2");
    }
}
