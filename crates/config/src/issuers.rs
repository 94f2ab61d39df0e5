//! Whose tokens are accepted, and where the keys for them come from.

use crate::{
    checker::Checker,
    convert::parse_path,
    duration::parse_duration,
    raw::RawIssuer,
    security::{PATTERN_LEN_MAX, named, needed, parse_text},
};
use forebay_auth::{Issuer, Issuers, LEEWAY_SECONDS_MAX, TokenProfile};
use forebay_trust::{IssuerAuthorities, IssuerDiscovery, SecurityOptions, check_issuer_url};
use forebay_types::Lfn;
use std::{path::PathBuf, time::Duration};
use toml::Spanned;

/// Longest time that keys are believed beyond theirs: what an issuer takes back must be gone some day.
const GRACE_MAX: Duration = Duration::from_secs(7 * 86_400);

/// Where the keys of an issuer come from.
enum Keys {
    File(PathBuf),
    Fetched(IssuerDiscovery),
}

pub(crate) fn read_issuers(raw: &[Spanned<RawIssuer>], config: &mut SecurityOptions, checker: &mut Checker<'_>) {
    let mut issuers = Vec::new();
    for (issuer, keys) in raw.iter().filter_map(|table| read_issuer(table, checker)) {
        match keys {
            Keys::File(path) => config.key_files.push((issuer.url.clone(), path)),
            Keys::Fetched(discovery) => config.discoveries.push(discovery),
        }
        issuers.push(issuer);
    }
    match Issuers::new(issuers) {
        Ok(issuers) => config.issuers = issuers,
        Err(error) => checker.refuse("issuer", raw.first().map(Spanned::span).as_ref(), error),
    }
}

fn read_issuer(table: &Spanned<RawIssuer>, checker: &mut Checker<'_>) -> Option<(Issuer, Keys)> {
    let raw = table.get_ref();
    let is_plain = raw.plain_http.as_ref().is_some_and(|plain| *plain.get_ref());
    let url = needed("issuer.url", raw.url.as_ref(), table, checker);
    let url = checker.read("issuer.url", url, |url| {
        if url.len() > PATTERN_LEN_MAX || url.contains(char::is_whitespace) {
            return Err("no issuer: write its URL, which begins with https://".to_owned());
        }
        check_issuer_url(url, is_plain).map(|()| url.clone()).map_err(|error| format!("no issuer: {error}"))
    })?;
    let mut issuer = Issuer::new(&url);
    issuer.audiences = checker.read_list("issuer.audiences", raw.audiences.as_ref(), parse_text).unwrap_or_default();
    checker.set(&mut issuer.base_path, "issuer.base_path", raw.base_path.as_ref(), |text| Lfn::parse(text));
    issuer.profile = checker.read("issuer.profile", raw.profile.as_ref(), |text| {
        named(text, [("wlcg", TokenProfile::Wlcg), ("scitokens", TokenProfile::SciTokens)])
    });
    issuer.vo = checker.read("issuer.vo", raw.vo.as_ref(), |text| parse_text(text));
    checker.set(&mut issuer.leeway_seconds, "issuer.leeway", raw.leeway.as_ref(), |text| {
        let leeway = parse_duration(text).map_err(|error| error.to_string())?;
        let seconds = i64::try_from(leeway.as_secs()).unwrap_or(i64::MAX);
        let is_short = seconds <= LEEWAY_SECONDS_MAX;
        is_short.then_some(seconds).ok_or_else(|| format!("more than {LEEWAY_SECONDS_MAX}s: mend the clocks instead"))
    });
    let discovery = read_discovery(&url, raw, is_plain, checker);
    let Some(keys) = &raw.keys else { return Some((issuer, Keys::Fetched(discovery))) };
    for (setting, is_written) in [
        ("issuer.ca", raw.ca.is_some()),
        ("issuer.grace", raw.grace.is_some()),
        ("issuer.plain_http", raw.plain_http.is_some()),
    ] {
        if is_written {
            let text =
                format_args!("{setting} says how keys are fetched, but they are in a file: leave out one of the two");
            checker.refuse("issuer.keys", Some(&keys.span()), text);
        }
    }
    let path = checker.read("issuer.keys", Some(keys), |text| parse_path(text))?;
    Some((issuer, Keys::File(path)))
}

fn read_discovery(url: &str, raw: &RawIssuer, is_plain: bool, checker: &mut Checker<'_>) -> IssuerDiscovery {
    let mut discovery = IssuerDiscovery { allows_plain_http: is_plain, ..IssuerDiscovery::new(url) };
    let ca = checker.read("issuer.ca", raw.ca.as_ref(), |text| parse_path(text));
    if let Some(path) = ca {
        discovery.authorities = IssuerAuthorities::Path(path);
    }
    checker.set(&mut discovery.grace, "issuer.grace", raw.grace.as_ref(), |text| {
        let grace = parse_duration(text).map_err(|error| error.to_string())?;
        let is_short = grace <= GRACE_MAX;
        is_short
            .then_some(grace)
            .ok_or_else(|| "more than 7d: what the issuer has taken back must be gone some day".to_owned())
    });
    discovery
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Settings;
    use std::path::Path;

    fn parse(text: &str) -> Result<SecurityOptions, crate::ConfigError> {
        let whole = format!("store.path = \"/s\"\nexport = [{{ origins = [\"root://o\"] }}]\n[[issuer]]\n{text}");
        Settings::parse(Path::new("test.toml"), whole).map(|settings| settings.config.security)
    }

    #[test]
    fn keys_are_in_a_file() {
        let text = "url = \"https://i.example.org/\"\nkeys = \"/k\"\nbase_path = \"/store\"\nleeway = \"1min\"\nprofile = \"wlcg\"\n";
        let config = parse(text).unwrap();
        let (issuer, _) = config.issuers.iter().next().unwrap();
        assert_eq!((issuer.url.as_str(), issuer.leeway_seconds), ("https://i.example.org/", 60));
        assert_eq!((issuer.base_path.as_str(), issuer.profile), ("/store", Some(TokenProfile::Wlcg)));
        assert_eq!(config.key_files, [("https://i.example.org/".to_owned(), PathBuf::from("/k"))]);
        assert!(config.discoveries.is_empty());
    }

    #[test]
    fn keys_are_fetched_unless_they_are_in_a_file() {
        let config = parse("url = \"https://i.example.org/\"\n").unwrap();
        assert_eq!(config.discoveries, [IssuerDiscovery::new("https://i.example.org/")]);
        let config =
            parse("url = \"http://127.0.0.1:1\"\nplain_http = true\nca = \"/ca.pem\"\ngrace = \"4h\"\n").unwrap();
        let [discovery] = config.discoveries.as_slice() else { panic!("one issuer") };
        assert!(discovery.allows_plain_http && config.key_files.is_empty());
        assert_eq!(discovery.authorities, IssuerAuthorities::Path(PathBuf::from("/ca.pem")));
        assert_eq!(discovery.grace, Duration::from_secs(4 * 3600));
    }

    #[test]
    fn what_cannot_be_meant_is_refused_where_it_stands() {
        for (text, problem) in [
            ("keys = \"/k\"", "issuer.url is missing"),
            ("url = \"http://i\"", "only https:// is trusted"),
            ("url = \"http://i\"\nplain_http = true", "only https:// is trusted"),
            ("url = \"https://i i\"", "no issuer"),
            ("url = \"https://i\"\nleeway = \"1h\"", "more than 300s"),
            ("url = \"https://i\"\ngrace = \"8d\"", "more than 7d"),
            ("url = \"https://i\"\nkeys = \"/k\"\nca = \"/ca\"", "leave out one"),
            ("url = \"https://i\"\nkeys = \"/k\"\n[[issuer]]\nurl = \"https://i\"\nkeys = \"/k\"", "twice"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(problem) && error.contains("test.toml:"), "{text}: {error}");
        }
    }
}
