//! The answer of a director about a path.

use super::links::{links_in, parameters};
use crate::{answer::facts::text, target::Target};
use forebay_http_proto::encode_path;
use forebay_types::OriginId;
use hyper::{HeaderMap, header::LOCATION};
use percent_encoding::percent_decode_str;

const NAMESPACE: &str = "x-pelican-namespace";
/// Fields that name issuers of tokens: those that servers accept, and those that make tokens.
const ISSUERS: [&str; 2] = ["x-pelican-authorization", "x-pelican-token-generation"];

/// Most issuers of an answer; further ones are not known.
const ISSUERS_MAX: usize = 32;

/// The servers of a path, and the rules of its namespace.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct Direction {
    /// The servers, preferred ones first.
    pub(super) servers: Vec<OriginId>,
    /// The server that lists directories.
    pub(super) listings: Option<OriginId>,
    /// Servers that cannot be used, with the reason.
    pub(super) unusable: Vec<String>,
    pub(super) namespace: String,
    pub(super) requires_token: bool,
    pub(super) issuers: Vec<String>,
    /// Number of components at the beginning of the path for which all of this holds; `None` for the path alone.
    pub(super) depth: Option<usize>,
}

impl Direction {
    /// Reads the head of an answer about a path of a federation, which ends in `lfn`, the path below the base of the origin. Servers
    /// that cannot be used are noted: others may be.
    pub(super) fn read(headers: &HeaderMap, base: &str, lfn: &str) -> Self {
        let links = links_in(headers);
        let mut direction = Self {
            namespace: parameters(headers, NAMESPACE, "namespace").next().unwrap_or_default().to_owned(),
            requires_token: parameters(headers, NAMESPACE, "require-token")
                .any(|value| value.eq_ignore_ascii_case("true")),
            depth: links.iter().map(|link| link.depth).min().flatten(),
            ..Self::default()
        };
        let location = || text(headers, &LOCATION).map(str::to_owned);
        let urls: Vec<String> = if links.is_empty() {
            location().into_iter().collect()
        } else {
            links.into_iter().map(|link| link.url).collect()
        };
        for url in &urls {
            match server_of_url(url, lfn) {
                Ok(server) if direction.servers.contains(&server) => {}
                Ok(server) => direction.servers.push(server),
                Err(reason) => direction.unusable.push(reason),
            }
        }
        if let Some(url) = parameters(headers, NAMESPACE, "collections-url").next() {
            let url = format!("{}{base}{}", url.trim_end_matches('/'), encode_path(lfn));
            match server_of_url(&url, lfn) {
                Ok(server) => direction.listings = Some(server),
                Err(reason) => direction.unusable.push(reason),
            }
        }
        for issuer in ISSUERS.iter().flat_map(|name| parameters(headers, name, "issuer")).take(ISSUERS_MAX) {
            if !direction.issuers.iter().any(|known| known == issuer) {
                direction.issuers.push(issuer.to_owned());
            }
        }
        direction
    }

    /// Takes a server out of the answer.
    pub(super) fn exclude(&mut self, is_excluded: impl Fn(&OriginId) -> Option<String>) {
        let unusable = &mut self.unusable;
        let mut keep = |server: &OriginId| {
            let reason = is_excluded(server);
            unusable.extend(reason.as_ref().map(|reason| format!("{server}: {reason}")));
            reason.is_none()
        };
        self.servers.retain(&mut keep);
        self.listings = self.listings.take().filter(keep);
    }
}

/// The server of a URL with a file, and the part of its path before the file's own.
fn server_of_url(url: &str, lfn: &str) -> Result<OriginId, String> {
    let target = Target::absolute(url).map_err(str::to_owned)?;
    let server = &target.server;
    // The query is not kept: this cache shows tokens in a field.
    let path = target.path_and_query.split('?').next().unwrap_or_default();
    let path = percent_decode_str(path).decode_utf8().map_err(|_| format!("{server}: its path is not UTF-8"))?;
    let base = path.strip_suffix(lfn).ok_or_else(|| format!("{server}: its path is another one"))?;
    format!("{server}{}", base.trim_end_matches('/'))
        .parse()
        .map_err(|_| format!("{server}: its path has a base that cannot be used"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderName;

    fn read(base: &str, lfn: &str, pairs: &[(&'static str, &str)]) -> Direction {
        let pairs = pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        Direction::read(&pairs.collect(), base, lfn)
    }

    fn names(servers: &[OriginId]) -> Vec<String> {
        servers.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_answer_names_servers_and_the_rules_of_the_namespace() {
        let link =
            "<https://b:8443/ns/a%20b>; rel=duplicate; pri=2; depth=1, <http://a/base/ns/a%20b?x=y>; pri=1; depth=2";
        let namespace = "namespace=/ns, require-token=true, collections-url=https://c:8443";
        let direction = read(
            "",
            "/ns/a b",
            &[
                ("link", link),
                ("x-pelican-namespace", namespace),
                ("x-pelican-authorization", "issuer=https://one"),
                ("x-pelican-token-generation", "issuer=https://one, max-scope-depth=3, issuer=https://two"),
            ],
        );
        assert_eq!(names(&direction.servers), ["http://a:80/base", "https://b:8443"]);
        assert_eq!(direction.listings.unwrap().to_string(), "https://c:8443");
        assert_eq!((direction.namespace.as_str(), direction.requires_token, direction.depth), ("/ns", true, Some(1)));
        assert_eq!(direction.issuers, ["https://one", "https://two"]);
        let of_location = read("", "/f", &[("location", "https://a/f?authz=x")]);
        assert_eq!(
            (names(&of_location.servers), of_location.requires_token),
            (vec!["https://a:443".to_owned()], false)
        );
    }

    #[test]
    fn the_base_of_the_origin_is_a_part_of_the_urls() {
        let fields = [("link", "<https://a/ns/f>; depth=3"), ("x-pelican-namespace", "collections-url=https://c/")];
        let direction = read("/ns", "/f", &fields);
        assert_eq!(names(&direction.servers), ["https://a:443/ns"]);
        assert_eq!(direction.listings.unwrap().to_string(), "https://c:443/ns");
    }

    #[test]
    fn servers_that_cannot_be_used_do_not_spoil_the_others() {
        let link = "<ftp://a/f>, <https://me@b/f>, <https://c/other>, <https://d/x,y/f>, <nonsense>, <https://e/f>, <https://e/f>";
        let mut direction = read("", "/f", &[("link", link)]);
        assert_eq!(names(&direction.servers), ["https://e:443"]);
        assert_eq!(direction.unusable.len(), 5, "{:?}", direction.unusable);
        direction.exclude(|server| Some(format!("{} is not permitted", server.endpoint)));
        assert!(direction.servers.is_empty());
        assert!(direction.unusable.iter().any(|text| text.contains("not permitted")));
    }
}
