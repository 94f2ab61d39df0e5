//! Direct access: which clients see the file system of the cache, and where.

use crate::{checker::Checker, config::Config, raw::RawDirect, security::parse_address_pattern};
use std::path::PathBuf;

/// Most client patterns, and most directories: each open of such a client may look through them.
const ENTRIES_MAX: usize = 256;

pub(crate) fn read_direct(raw: &RawDirect, config: &mut Config, checker: &mut Checker<'_>) {
    let access = &mut config.server.options.direct;
    if let Some(clients) = checker.read_list("direct.clients", raw.clients.as_ref(), parse_address_pattern) {
        access.clients = clients;
    }
    if let Some(paths) = checker.read_list("direct.paths", raw.paths.as_ref(), parse_mapping) {
        access.paths = paths;
    }
    for (setting, written, len) in [
        ("direct.clients", raw.clients.as_ref().map(toml::Spanned::span), access.clients.len()),
        ("direct.paths", raw.paths.as_ref().map(toml::Spanned::span), access.paths.len()),
    ] {
        if len > ENTRIES_MAX {
            checker.refuse(setting, written.as_ref(), format_args!("more than {ENTRIES_MAX}"));
        }
    }
    checker.set_duration(&mut config.engine.direct_lease, "direct.lease", raw.lease.as_ref());
}

/// `DIRECTORY=WHERE`, both absolute.
fn parse_mapping(text: &str) -> Result<(PathBuf, PathBuf), String> {
    let both = text.split_once('=').filter(|(here, there)| here.starts_with('/') && there.starts_with('/'));
    let (here, there) = both.ok_or_else(|| {
        format!("`{}` is no mapping: write DIRECTORY=WHERE, such as \"/srv/cache=/mnt/cache\"", text.escape_default())
    })?;
    Ok((PathBuf::from(here), PathBuf::from(there)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Settings};
    use forebay_server::DirectAccess;
    use std::{path::Path, time::Duration};

    fn parse(text: &str) -> Result<Config, crate::ConfigError> {
        let whole = format!("store.path = \"/s\"\n{text}");
        Settings::parse(Path::new("test.toml"), whole).map(|settings| settings.config)
    }

    #[test]
    fn clients_see_the_cache_where_it_is_said() {
        let config = parse(
            "export = [{ origins = [\"root://o\"], direct = \"complete\" }]\n\
             [direct]\nclients = [\"10.1.*\"]\npaths = [\"/s=/mnt/s\"]\nlease = \"1h\"\n",
        )
        .unwrap();
        assert!(config.exports[0].direct && !config.decisions.forwarding_direct);
        let expected = DirectAccess {
            clients: vec!["10.1.*".to_owned()],
            paths: vec![(PathBuf::from("/s"), PathBuf::from("/mnt/s"))],
        };
        assert_eq!(config.server.options.direct, expected);
        assert_eq!(config.engine.direct_lease, Duration::from_secs(3600));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (text, problem) in [
            ("export = [{ origins = [\"root://o\"], direct = \"always\" }]", "write one of \"never\""),
            ("export = [{ origins = [\"root://o\"] }]\n[direct]\nclients = [\"worker\"]", "is no address"),
            ("export = [{ origins = [\"root://o\"] }]\n[direct]\npaths = [\"/s\"]", "is no mapping"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
