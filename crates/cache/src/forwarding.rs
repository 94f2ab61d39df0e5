//! Paths that name their origin.

use forebay_types::{Endpoint, EndpointError, Lfn, LfnError, OSDF_FEDERATION, OriginId, Scheme};
use std::borrow::Cow;

/// A file at an origin that the client named.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ForwardedPath {
    /// The origin in its canonical spelling. It is also what is connected to: two spellings never share a name and lead to
    /// different servers.
    pub origin: OriginId,
    /// The file's name there.
    pub lfn: Lfn,
}

/// A path that names an origin in a way that cannot be served.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ForwardingError {
    /// The scheme (in lower case) is known but no client for it exists.
    #[error("origins of scheme `{scheme}` are not supported yet: use root://, https://, s3:// or pelican://")]
    Scheme { scheme: &'static str },
    /// Nothing that can be a host follows the scheme.
    #[error("the path names no origin")]
    Origin(#[from] EndpointError),
    /// No file name, or a bad one, follows the origin.
    #[error("the path names no file at the origin")]
    Lfn(#[from] LfnError),
    /// The first component after an S3 server cannot be a bucket.
    #[error("the path names no bucket at the origin: write s3://HOST:PORT/BUCKET/KEY")]
    Bucket,
}

/// Schemes of origins that clients may name, other spellings of them included.
const SERVED_SCHEMES: [(&str, Scheme); 8] = [
    ("root", Scheme::Root),
    ("xroot", Scheme::Root),
    ("http", Scheme::Http),
    ("dav", Scheme::Http),
    ("https", Scheme::Https),
    ("davs", Scheme::Https),
    ("s3", Scheme::S3),
    ("pelican", Scheme::Pelican),
];

/// The scheme of the one federation whose URLs have no host.
const OSDF: &str = "osdf";

/// Schemes that are recognised in order to say that they are not served.
const KNOWN_SCHEMES: [&str; 2] = ["roots", "xroots"];

impl ForwardedPath {
    /// Reads a request's path that names an origin: `root://host[:port]//path`, `xroot://…`, `https://…` (`davs`) and `http://…`
    /// (`dav`), with or without a `/` before it, with any number of slashes wherever there is one (servers and clients squeeze them: an [`Lfn`]'s
    /// text is `/root:/host:port/path`). A user before the host is dropped, an IPv6 address stands in brackets. `s3://host/bucket/key` names the
    /// bucket as the origin, `pelican://federation/path` a federation, and `osdf:///path` that of OSDF.
    ///
    /// `None` when the path does not begin with a known scheme: it is an ordinary name.
    ///
    /// # Errors
    /// When it begins with a known scheme and goes on wrongly.
    pub fn parse(path: &str) -> Result<Option<Self>, ForwardingError> {
        let path = path.trim_start_matches('/');
        let (scheme, rest) = path.split_once('/').unwrap_or((path, ""));
        let Some(scheme) = scheme.strip_suffix(':') else {
            return Ok(None);
        };
        if let Some(scheme) = KNOWN_SCHEMES.into_iter().find(|known| known.eq_ignore_ascii_case(scheme)) {
            return Err(ForwardingError::Scheme { scheme });
        }
        if scheme.eq_ignore_ascii_case(OSDF) {
            let federation = Endpoint::new(OSDF_FEDERATION, Scheme::Pelican.default_port());
            let lfn = Lfn::parse(&format!("/{rest}"))?;
            return Ok(Some(Self { origin: OriginId::of(Scheme::Pelican, federation), lfn }));
        }
        let served = SERVED_SCHEMES.iter().find(|(served, _)| served.eq_ignore_ascii_case(scheme));
        let Some((_, scheme)) = served else { return Ok(None) };
        let authority_and_path = rest.trim_start_matches('/');
        let path_start = authority_and_path.find('/').unwrap_or(authority_and_path.len());
        let (authority, path) = authority_and_path.split_at(path_start);
        if *scheme == Scheme::S3 {
            return Self::parse_s3(authority, path).map(Some);
        }
        let server = Endpoint::parse_with_default(authority, scheme.default_port())?.canonical();
        let server = server.ok_or_else(|| EndpointError { text: authority.to_owned() })?;
        Ok(Some(Self { origin: OriginId::of(*scheme, server), lfn: Lfn::parse(path)? }))
    }

    /// The object in a bucket, which is the first component of `path`, or follows a comma in `authority` as in [`forwarded_name`].
    fn parse_s3(authority: &str, path: &str) -> Result<Self, ForwardingError> {
        let (server, bucket) = authority.split_once(',').map_or((authority, ""), |(server, base)| (server, base));
        let (bucket, key) = if bucket.is_empty() {
            let path = path.trim_start_matches('/');
            path.split_at(path.find('/').unwrap_or(path.len()))
        } else {
            (bucket, path)
        };
        let server = Endpoint::parse_with_default(server, Scheme::S3.default_port())?.canonical();
        let server = server.ok_or_else(|| EndpointError { text: authority.to_owned() })?;
        let origin = format!("s3://{server}/{}", bucket.replace(',', "/"));
        let origin: OriginId = origin.parse().map_err(|_| ForwardingError::Bucket)?;
        let key = if key.is_empty() { "/" } else { key };
        Ok(Self { origin, lfn: Lfn::parse(key)? })
    }
}

/// The one name of the file `lfn` at `origin`: its cache key, and the path that `[[rule]]` and `[[grant]]` match.
///
/// It is `/SCHEME:/HOST:PORT[,BASE]/path` with the canonical spelling of the server, the port always written, and commas for the
/// slashes of the base: neither servers nor bases have one, so different origins never share a name.
#[must_use]
pub fn forwarded_name(origin: &OriginId, lfn: &Lfn) -> String {
    spelled_name(&origin.canonical().unwrap_or_else(|| origin.clone()), lfn)
}

/// As [`forwarded_name`], with the origin as it is spelled.
pub(crate) fn spelled_name(origin: &OriginId, lfn: &Lfn) -> String {
    // As an `Lfn` spells a directory: without a slash at its end.
    let path = lfn.as_str().trim_end_matches('/');
    format!("/{}:/{}{}{path}", origin.scheme, origin.endpoint, origin.base().replace('/', ","))
}

/// The origin and the path of a [`spelled_name`]; `None` if it is not one.
pub(crate) fn parse_name(name: &str) -> Option<(OriginId, Lfn)> {
    let (scheme, rest) = name.strip_prefix('/')?.split_once(":/")?;
    let (origin, path) = rest.split_at_checked(rest.find('/')?)?;
    Some((format!("{scheme}://{}", origin.replace(',', "/")).parse().ok()?, Lfn::parse(path).ok()?))
}

/// Whether `component`, directly below the store's root, holds the files of forwarded names.
pub(crate) fn is_forwarding_top(component: &str) -> bool {
    component.strip_suffix(':').and_then(Scheme::from_name).is_some()
}

/// The name by which rules know the file that a client asks for as `lfn`: [`forwarded_name`] if that names an origin, else the
/// path itself. `None` if the name is longer than a path may be: then nothing is allowed.
#[must_use]
pub fn name_for_rules(lfn: &Lfn) -> Option<Cow<'_, Lfn>> {
    match ForwardedPath::parse(lfn.as_str()) {
        Ok(Some(forwarded)) => Lfn::parse(&forwarded_name(&forwarded.origin, &forwarded.lfn)).ok().map(Cow::Owned),
        // A path that names an origin badly leads nowhere, so its own text is as good a name as any.
        Ok(None) | Err(_) => Some(Cow::Borrowed(lfn)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CacheKey;
    use proptest::prelude::*;
    use std::net::Ipv6Addr;

    fn text_for_rules(lfn: &Lfn) -> String {
        name_for_rules(lfn).unwrap().to_string()
    }

    /// An origin's canonical text, and spellings of it.
    fn origins() -> impl Strategy<Value = (String, Vec<String>)> {
        let port = (0..4_u16).prop_map(|n| [1094, 1095, 11, 65535][usize::from(n)]);
        let name = "[a-c]{1,2}(\\.[a-c]{1,2}){0,2}".prop_map(|host| {
            (host.clone(), vec![host.clone(), host.to_uppercase(), format!("{host}."), format!("u:w@{host}..")])
        });
        let v4 = (0..3_u8, 0..3_u8).prop_map(|(a, b)| {
            let mapped = format!("[::FFFF:10.{a}.0.{b}]");
            let hexadecimal = format!("[0:0::ffff:0a{a:02x}:{b:x}]");
            (format!("10.{a}.0.{b}"), vec![format!("10.{a}.0.{b}"), mapped, hexadecimal, format!("10.{a}.0.{b}.")])
        });
        let v6 = (0..3_u16, 0..3_u16).prop_map(|(a, b)| {
            let address = Ipv6Addr::new(0x2001, 0xdb8, a, 0, 0, 0, 0, b);
            let full = address.segments().map(|group| format!("{group:04X}")).join(":");
            (format!("[{address}]"), vec![format!("[{address}]"), format!("[{full}]")])
        });
        (prop_oneof![name, v4, v6], port).prop_map(|((host, spellings), port)| {
            let mut spelled: Vec<_> = spellings.iter().map(|host| format!("{host}:{port}")).collect();
            if port == 1094 {
                spelled.extend(spellings);
            }
            (format!("{host}:{port}"), spelled)
        })
    }

    /// A path's own text, and spellings of it.
    fn paths() -> impl Strategy<Value = (String, Vec<String>)> {
        prop::collection::vec("[ab:]{1,2}", 1..4).prop_map(|components| {
            let path = format!("/{}", components.join("/"));
            let spelled = vec![path.clone(), format!("/{path}/"), path.replace('/', "//"), path.replace('/', "/./")];
            (path, spelled)
        })
    }

    proptest! {
        #[test]
        fn keys_rules_and_grants_agree_on_the_name_of_every_spelling(
            (origin, origin_spellings) in origins(), (path, path_spellings) in paths(),
        ) {
            let name = format!("/root:/{origin}{path}");
            for origin in &origin_spellings {
                for (path, scheme) in path_spellings.iter().zip(["root://", "/root:/", "/XRoot:///", "//xroot:/"]) {
                    let asked = Lfn::parse(&format!("/{scheme}{origin}/{path}")).unwrap();
                    let found = ForwardedPath::parse(asked.as_str()).unwrap().unwrap();
                    let key = CacheKey::forwarded(&found.origin, &found.lfn).unwrap();
                    prop_assert_eq!(key.as_str(), &name);
                    prop_assert_eq!(forwarded_name(&found.origin, &found.lfn), &name[..]);
                    prop_assert_eq!(text_for_rules(&asked), &name[..]);
                }
            }
            // A name is a spelling of itself, also after it was a key on disk.
            prop_assert_eq!(text_for_rules(&Lfn::parse(&name).unwrap()), &name[..]);
            let key = CacheKey::from_text(&name).unwrap();
            prop_assert_eq!(key.as_str(), &name);
        }

        #[test]
        fn different_origins_never_share_a_name((one, _) in origins(), (other, _) in origins(), (path, _) in paths()) {
            let name = |origin: &str| forwarded_name(&origin.parse().unwrap(), &Lfn::parse(&path).unwrap());
            prop_assert_eq!(name(&one) == name(&other), one == other);
        }

        #[test]
        fn arbitrary_paths_have_one_name(path in "/{1,2}((x?root|s3|pelican|osdf):/{1,2})?[a-bA.,:@%/\\[\\]0-1f]{0,16}") {
            let Ok(asked) = Lfn::parse(&path) else { return Ok(()) };
            let Some(name) = name_for_rules(&asked) else { return Ok(()) };
            prop_assert_eq!(text_for_rules(&name), name.as_str());
            if let Ok(Some(found)) = ForwardedPath::parse(asked.as_str()) {
                prop_assert_eq!(name.as_str(), forwarded_name(&found.origin, &found.lfn));
                if let Ok(key) = CacheKey::forwarded(&found.origin, &found.lfn) {
                    prop_assert_eq!(key.as_str(), name.as_str());
                    prop_assert_eq!(CacheKey::from_text(key.as_str()), Some(key));
                }
            }
        }
    }

    #[test]
    fn rules_know_other_files_by_their_path() {
        for path in ["/atlas/f", "/", "/root:", "/https:", "/roots:/h/a"] {
            let lfn = Lfn::parse(path).unwrap();
            assert_eq!(name_for_rules(&lfn).as_deref(), Some(&lfn));
        }
    }

    #[test]
    fn every_spelling_of_an_origin_is_understood() {
        for (path, origin, lfn) in [
            ("root://origin//store/a", "origin:1094", "/store/a"),
            ("/root://origin:11//store/a", "origin:11", "/store/a"),
            ("//root:///origin:11///store//a", "origin:11", "/store/a"),
            ("/root:/origin:11/store/a", "origin:11", "/store/a"),
            ("/root:/origin/a", "origin:1094", "/a"),
            ("/xroot:/Origin.Example:11/a", "origin.example:11", "/a"),
            ("/ROOT:/origin/a", "origin:1094", "/a"),
            ("/root:/u27@origin:11/a", "origin:11", "/a"),
            ("/root:/user:word@origin:11/a", "origin:11", "/a"),
            ("/root:/[::1]:11/a", "[::1]:11", "/a"),
            ("/root:/[2001:DB8::1]/a", "[2001:db8::1]:1094", "/a"),
            ("/root:/[2001:0DB8:0:0::1]/a", "[2001:db8::1]:1094", "/a"),
            ("/root:/[::ffff:192.0.2.1]/a", "192.0.2.1:1094", "/a"),
            ("/root:/origin.example.:11/a", "origin.example:11", "/a"),
            ("/root:/origin/", "origin:1094", "/"),
            ("/root:/one/root:/two/a", "one:1094", "/root:/two/a"),
            ("https://dav.example/store/a", "https://dav.example:443", "/store/a"),
            ("/https:/DAV.example:8443//a", "https://dav.example:8443", "/a"),
            ("davs://dav.example//a", "https://dav.example:443", "/a"),
            ("/http:/[::1]/a", "http://[::1]:80", "/a"),
            ("dav://u:w@h:8080/a", "http://h:8080", "/a"),
            ("s3://S3.example/bucket//a/b", "s3://s3.example:443/bucket", "/a/b"),
            ("/s3:/s3.example:9000/bucket", "s3://s3.example:9000/bucket", "/"),
            ("/s3:/s3.example:443,bucket/a", "s3://s3.example:443/bucket", "/a"),
            ("/s3:/s3.example:443,bucket,base/a", "s3://s3.example:443/bucket/base", "/a"),
            ("pelican://Federation.example/ns/a", "pelican://federation.example:443", "/ns/a"),
            ("osdf:///ns/a", "pelican://osg-htc.org:443", "/ns/a"),
            ("/OSDF:/ns/a", "pelican://osg-htc.org:443", "/ns/a"),
        ] {
            let parsed = ForwardedPath::parse(path).unwrap().unwrap();
            assert_eq!((parsed.origin.to_string().as_str(), parsed.lfn.as_str()), (origin, lfn), "{path}");
        }
    }

    #[test]
    fn ordinary_names_are_left_alone() {
        for path in ["", "/", "/store/a", "/root/a", "/rooted:/a/b", "/file:/a", "/C:/a", "/:/a", "/a/root:/b/c"] {
            assert_eq!(ForwardedPath::parse(path), Ok(None), "{path}");
        }
    }

    #[test]
    fn schemes_without_a_client_are_named() {
        for (path, scheme) in [("roots://h//a", "roots"), ("/XROOTS:/h/a", "xroots")] {
            assert_eq!(ForwardedPath::parse(path), Err(ForwardingError::Scheme { scheme }), "{path}");
        }
    }

    #[test]
    fn broken_origins_and_names_are_errors() {
        for path in [
            "/root:",
            "/root:/",
            "root://",
            "/root:/:1094/a",
            "/root:/h:0/a",
            "/root:/h:99999/a",
            "/root:/::1/a",
            "/root:/./a",
            "/s3:/h:0/bucket/a",
        ] {
            assert!(matches!(ForwardedPath::parse(path), Err(ForwardingError::Origin(_))), "{path}");
        }
        for path in ["/s3:/h", "/s3:/h/", "/s3:/h/a b/c", "/s3:/h,../a"] {
            assert_eq!(ForwardedPath::parse(path), Err(ForwardingError::Bucket), "{path}");
        }
        assert_eq!(ForwardedPath::parse("/osdf:/../a"), Err(ForwardingError::Lfn(LfnError::Climbs)));
        assert_eq!(ForwardedPath::parse("/root:/h:1"), Err(ForwardingError::Lfn(LfnError::Missing)));
        assert_eq!(ForwardedPath::parse("root://h//../a"), Err(ForwardingError::Lfn(LfnError::Climbs)));
    }
}
