//! Fields of a director's answers: `Link` (RFC 8288), and those of Pelican.

use hyper::{HeaderMap, header::LINK};

/// Most servers of one answer that are used; directors name six.
pub(super) const LINKS_MAX: usize = 16;

/// A server that has a file, as a URL of the file.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Link {
    pub(super) url: String,
    /// Servers with a lower number are preferred.
    priority: u32,
    /// Number of components at the beginning of the path for which the choice of servers is the same.
    pub(super) depth: Option<usize>,
}

/// The servers that an answer names, preferred ones first.
pub(super) fn links_in(headers: &HeaderMap) -> Vec<Link> {
    let values = headers.get_all(LINK).iter().filter_map(|value| value.to_str().ok());
    let mut links: Vec<Link> = values.flat_map(links_of).collect();
    links.sort_by_key(|link| link.priority);
    links.truncate(LINKS_MAX);
    links
}

/// The values of a parameter in the fields `name`, which are lists of `key=value`.
pub(super) fn parameters<'a>(headers: &'a HeaderMap, name: &str, key: &'a str) -> impl Iterator<Item = &'a str> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    let pairs = values.flat_map(|value| value.split(',')).filter_map(|pair| pair.split_once('='));
    pairs.filter(move |(found, _)| found.trim().eq_ignore_ascii_case(key)).map(|(_, value)| value.trim())
}

fn links_of(value: &str) -> Vec<Link> {
    let (mut links, mut rest) = (Vec::new(), value);
    while let Some((_, from_url)) = rest.split_once('<') {
        let Some((url, after)) = from_url.split_once('>') else { break };
        // The URL of the next link begins after a comma, and no parameter of this one has angle brackets.
        let end = after.find('<').unwrap_or(after.len());
        let (own, others) = after.split_at(end);
        links.extend(link_of(url, own));
        rest = others;
    }
    links
}

/// `None` for a link to something other than the same file.
fn link_of(url: &str, parameters: &str) -> Option<Link> {
    let mut link = Link { url: url.trim().to_owned(), priority: u32::MAX, depth: None };
    for parameter in parameters.trim_end().trim_end_matches(',').split(';') {
        let Some((key, value)) = parameter.split_once('=') else { continue };
        let value = value.trim().trim_matches('"');
        match key.trim().to_ascii_lowercase().as_str() {
            "rel" if !value.eq_ignore_ascii_case("duplicate") => return None,
            "pri" => link.priority = value.parse().unwrap_or(u32::MAX),
            "depth" => link.depth = value.parse().ok(),
            _ => {}
        }
    }
    Some(link)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderName;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn servers_are_ordered_by_priority() {
        let text = r#"<https://b:8443/x,y>; rel="duplicate"; pri=2; depth=3, <https://a/x>;rel=duplicate;pri=1;depth=3,
            <https://c/meta4>; rel="describedby", <https://d/x>"#;
        let links = links_in(&headers(&[("link", &text.replace('\n', ""))]));
        let found: Vec<_> = links.iter().map(|link| (link.url.as_str(), link.depth)).collect();
        assert_eq!(found, [("https://a/x", Some(3)), ("https://b:8443/x,y", Some(3)), ("https://d/x", None)]);
        for text in ["", "<", "<https://a/x", "https://a/x", "<https://a>; rel=other"] {
            assert!(links_in(&headers(&[("link", text)])).is_empty(), "{text}");
        }
        let many = |count: usize| links_in(&headers(&[("link", &"<https://a/x>, ".repeat(count))])).len();
        assert_eq!((many(LINKS_MAX), many(LINKS_MAX + 1)), (LINKS_MAX, LINKS_MAX));
    }

    #[test]
    fn parameters_are_found_in_each_field() {
        let fields = [
            ("x-pelican-namespace", "namespace=/ns, require-token=true, collections-url=https://a:1/x?y=z"),
            ("x-pelican-authorization", "issuer=https://one"),
        ];
        let headers = headers(&fields);
        let found = |name, key| parameters(&headers, name, key).collect::<Vec<_>>();
        assert_eq!(found("x-pelican-namespace", "namespace"), ["/ns"]);
        assert_eq!(found("x-pelican-namespace", "collections-url"), ["https://a:1/x?y=z"]);
        assert_eq!(found("x-pelican-authorization", "issuer"), ["https://one"]);
        assert!(found("x-pelican-authorization", "namespace").is_empty());
    }
}
