//! How clients get at files, and how much of a file is fetched for them.

use crate::{checker::Checker, security::named};
use forebay_cache::FillPolicy;
use forebay_engine::{Miss, Service};
use toml::Spanned;

/// The settings of one place that say how clients get at files.
pub(crate) struct RawService<'a> {
    /// Names of the settings.
    pub(crate) names: [&'static str; 3],
    pub(crate) direct: Option<&'a Spanned<String>>,
    pub(crate) miss: Option<&'a Spanned<String>>,
    pub(crate) fill: Option<&'a Spanned<String>>,
}

/// Reads how clients get at files.
pub(crate) fn read_service(raw: &RawService<'_>, checker: &mut Checker<'_>) -> Service {
    let mut service = Service::default();
    let [direct, miss, fill] = raw.names;
    let parse_direct = |text: &String| named(text, [("never", false), ("complete", true)]);
    checker.set(&mut service.direct, direct, raw.direct, parse_direct);
    let parse_miss = |text: &String| named(text, [("proxy", Miss::Proxy), ("redirect", Miss::Redirect)]);
    checker.set(&mut service.miss, miss, raw.miss, parse_miss);
    service.fill = checker.read(fill, raw.fill, |text| text.parse::<FillPolicy>());
    service
}

#[cfg(test)]
mod tests {
    use crate::Settings;
    use forebay_cache::FillPolicy;
    use forebay_engine::{Miss, Service};
    use std::path::Path;

    fn parse(text: &str) -> Result<Settings, crate::ConfigError> {
        let whole = format!("store.path = \"/s\"\n[[export]]\norigins = [\"root://o\"]\n{text}");
        Settings::parse(Path::new("test.toml"), whole)
    }

    #[test]
    fn exports_and_forwarding_say_how_clients_get_at_files() {
        assert_eq!(parse("").unwrap().config.exports[0].service, Service::default());
        let text = "direct = \"complete\"\nfill = \"while-open\"\n[forwarding]\nmiss = \"redirect\"";
        let config = parse(text).unwrap().config;
        assert_eq!(
            config.exports[0].service,
            Service { direct: true, miss: Miss::Proxy, fill: Some(FillPolicy::WhileOpen) }
        );
        assert_eq!(config.decisions.forwarding_service, Service { miss: Miss::Redirect, ..Service::default() });
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (text, problem) in [
            ("direct = \"always\"", "write one of \"never\""),
            ("fill = \"sometimes\"", "is no fill policy"),
            ("miss = \"wait\"", "write one of \"proxy\""),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(problem) && error.contains("test.toml:"), "{text}: {error}");
        }
    }
}
