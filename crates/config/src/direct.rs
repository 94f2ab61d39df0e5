//! Direct access: which clients see the file system of the cache, and where.

use crate::{
    checker::Checker,
    config::Config,
    disks::{FILE_MODES, parse_mode},
    raw::{Raw, RawDirect},
    security::named,
};
use forebay_types::AddressPattern;
use std::{convert::Infallible, path::PathBuf};
use toml::Spanned;

/// Permissions by which others than the server read.
const READ_BY_OTHERS: u32 = 0o044;

/// Most client patterns, and most directories: each open of such a client may look through them.
const ENTRIES_MAX: usize = 256;

pub(crate) fn read_direct(raw: &RawDirect, config: &mut Config, checker: &mut Checker<'_>) {
    let access = &mut config.server.front.direct;
    if let Some(clients) =
        checker.read_list("direct.clients", raw.clients.as_ref(), |text| text.parse::<AddressPattern>())
    {
        access.clients = clients;
    }
    if let Some(paths) = checker.read_list("direct.paths", raw.paths.as_ref(), parse_mapping) {
        access.paths = paths;
    }
    for (setting, written, len) in [
        ("direct.clients", raw.clients.as_ref().map(Spanned::span), access.clients.len()),
        ("direct.paths", raw.paths.as_ref().map(Spanned::span), access.paths.len()),
    ] {
        if len > ENTRIES_MAX {
            checker.refuse(setting, written.as_ref(), format_args!("more than {ENTRIES_MAX}"));
        }
    }
    checker.set(&mut access.page_reads, "direct.page_reads", raw.page_reads.as_ref(), |&on| Ok::<_, Infallible>(on));
    checker.set(&mut access.needs_probe, "direct.probe", raw.probe.as_ref(), |text| {
        named(text, [("none", false), ("client", true)])
    });
    let mode = raw.file_mode.as_ref();
    checker.set(&mut config.engine.direct_mode, "direct.file_mode", mode, |text| parse_mode(text, FILE_MODES));
    checker.set_duration(&mut config.engine.direct_lease, "direct.lease", raw.lease.as_ref());
}

/// Permissions under which nobody reads a file that is not complete, and everybody gets to those that are.
pub(crate) fn settle_permissions(raw: &Raw, config: &mut Config, checker: &mut Checker<'_>) {
    if !config.is_direct() {
        return;
    }
    let permissions = &mut config.permissions;
    if permissions.file_mode & READ_BY_OTHERS != 0 {
        let text =
            "with direct access nobody else may read files that are not complete: write \"0600\", and direct.file_mode";
        checker.refuse("store.file_mode", raw.store.file_mode.as_ref().map(Spanned::span).as_ref(), text);
    }
    let readers = config.engine.direct_mode & READ_BY_OTHERS;
    let Some(written) = &raw.store.directory_mode else {
        // Whoever may read files may get to them and list them.
        permissions.directory_mode |= readers | (readers >> 2);
        return;
    };
    if permissions.directory_mode & (readers >> 2) != readers >> 2 {
        let text = "who may read files by direct.file_mode does not get through the directories: write \"0755\"";
        checker.refuse("store.directory_mode", Some(&written.span()), text);
    }
}

/// `DIRECTORY=WHERE`, both absolute.
fn parse_mapping(text: &str) -> Result<(PathBuf, PathBuf), String> {
    let is_path = |path: &str| path.starts_with('/') && !path.contains(['?', '\0', '\n']);
    let both = text.split_once('=').filter(|(here, there)| is_path(here) && is_path(there));
    let (here, there) = both.ok_or_else(|| {
        format!("`{}` is no mapping: write DIRECTORY=WHERE, such as \"/srv/cache=/mnt/cache\"", text.escape_default())
    })?;
    Ok((PathBuf::from(here), PathBuf::from(there)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Config, Settings};
    use forebay_front::DirectAccess;
    use std::{path::Path, sync::Arc, time::Duration};

    fn parse(text: &str) -> Result<Config, crate::ConfigError> {
        let whole = format!("store.path = \"/s\"\n{text}");
        Settings::parse(Path::new("test.toml"), whole).map(|settings| settings.config)
    }

    #[test]
    fn clients_see_the_cache_where_it_is_said() {
        let config = parse(
            "export = [{ origins = [\"root://o\"], direct = \"complete\" }]\n\
             [direct]\nclients = [\"10.1.*\", \"2001:db8::/32\"]\npaths = [\"/s=/mnt/s\"]\nlease = \"1h\"\npage_reads = false\nprobe = \"client\"\n",
        )
        .unwrap();
        assert!(config.exports[0].service.direct && !config.decisions.forwarding_service.direct);
        let expected = DirectAccess {
            clients: vec!["10.1.*".parse().unwrap(), "2001:db8::/32".parse().unwrap()],
            paths: vec![(PathBuf::from("/s"), PathBuf::from("/mnt/s"))],
            page_reads: false,
            probe: Arc::default(),
            needs_probe: true,
        };
        assert_eq!(config.server.front.direct, expected);
        assert_eq!(config.engine.direct_lease, Duration::from_secs(3600));
        assert_eq!((config.permissions.file_mode, config.permissions.directory_mode), (0o600, 0o755));
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (text, problem) in [
            ("export = [{ origins = [\"root://o\"], direct = \"always\" }]", "write one of \"never\""),
            (
                "export = [{ origins = [\"root://o\"], direct = \"complete\" }]\nstore.file_mode = \"0644\"",
                "not complete",
            ),
            (
                "export = [{ origins = [\"root://o\"], direct = \"complete\" }]\nstore.directory_mode = \"0750\"",
                "through the directories",
            ),
            ("export = [{ origins = [\"root://o\"] }]\n[direct]\nclients = [\"worker\"]", "is not an address"),
            ("export = [{ origins = [\"root://o\"] }]\n[direct]\nclients = [\"10.1.2.3/16\"]", "10.1.0.0/16"),
            ("export = [{ origins = [\"root://o\"] }]\n[direct]\nprobe = \"yes\"", "write one of"),
            ("export = [{ origins = [\"root://o\"] }]\n[direct]\npaths = [\"/s\"]", "is no mapping"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
