//! The lists of exports and of rules about opens.

use super::checker::Checker;
use crate::{
    base::OriginUrl,
    config::{ExportConfig, ExportFiles},
    file::{RawExport, RawRule},
};
use forebay_cache::{Action, RULES_MAX, ReadAheadSettings, Rule, Rules, ValidityPolicy};
use forebay_engine::{Service, Writes};
use forebay_origin::RedirectTargets;
use forebay_types::{Lfn, Scheme};
use std::ops::Range;
use toml::Spanned;

/// Reads the list; notes exports with too many sources, with none, or with the path of another one.
pub(crate) fn read_exports(raw: &[Spanned<RawExport>], checker: &mut Checker<'_>) -> Vec<ExportConfig> {
    let mut seen: Vec<(Lfn, String)> = Vec::new();
    let mut exports = Vec::new();
    for table in raw {
        let export = table.get_ref();
        let span = export.path.span().cloned().unwrap_or_else(|| table.span());
        let path = if export.path.is_set() { export.path.value() } else { Lfn::parse("/").ok() };
        let Some(path) = path else { continue };
        if let Some((_, first)) = seen.iter().find(|(other, _)| *other == path) {
            let text =
                format_args!("a second export of {path}, the first is at {first}: write one export with all origins");
            checker.refuse("export.path", Some(&span), text);
        }
        seen.push((path.clone(), checker.place("export.path", &span)));
        if export.directory.is_set() && export.writes.value() == Some(Writes::Redirect) {
            let text = "a directory is read-only and has no origin to redirect to: write \"refuse\"";
            checker.refuse("export.writes", export.writes.span(), text);
        }
        if let Some(files) = read_files(export, &span, checker) {
            let mut read = ExportConfig {
                path,
                files,
                writes: Writes::default(),
                validity: ValidityPolicy::default(),
                checks_origin: false,
                redirects: RedirectTargets::default(),
                service: Service::default(),
            };
            export.apply(&mut read);
            exports.push(read);
        }
    }
    exports
}

fn read_files(export: &RawExport, span: &Range<usize>, checker: &mut Checker<'_>) -> Option<ExportFiles> {
    let [origins_name, directory_name] = ["export.origins", "export.directory"].map(|setting| checker.name(setting));
    match (export.origins.is_set(), export.directory.is_set()) {
        (true, false) => {
            let mut groups = Vec::new();
            for group in export.origins.value()?.chunk_by(is_of_one_client) {
                groups.push(if group.first().is_some_and(is_http) {
                    read_http_origins(group)?
                } else {
                    read_root_origins(export, group, checker)?
                });
            }
            let files = if groups.len() > 1 { ExportFiles::Alternatives(groups) } else { groups.pop()? };
            if export.writes.value() == Some(Writes::Redirect) && !files.begins_with_xrootd() {
                let text =
                    "an HTTP origin cannot serve the root:// clients that would be redirected to it: write \"refuse\"";
                checker.refuse("export.writes", export.writes.span(), text);
            }
            Some(files)
        }
        (false, true) => export.directory.value().map(ExportFiles::Directory),
        (true, true) => {
            let text = format_args!("both {origins_name} and {directory_name}: an export has one of them");
            checker.refuse("export.directory", export.directory.span(), text);
            None
        }
        (false, false) => {
            let text = format_args!("an export without files: set {origins_name} or {directory_name}");
            checker.refuse("export.origins", Some(span), text);
            None
        }
    }
}

/// Whether one client asks both. A federation has servers of its own.
fn is_of_one_client(one: &OriginUrl, next: &OriginUrl) -> bool {
    is_http(one) == is_http(next) && !is_federation(one) && !is_federation(next)
}

fn is_federation(url: &OriginUrl) -> bool {
    matches!(url, OriginUrl::Http(origin) if origin.scheme == Scheme::Pelican)
}

const fn is_http(url: &OriginUrl) -> bool {
    matches!(url, OriginUrl::Http(_))
}

fn read_root_origins(export: &RawExport, urls: &[OriginUrl], checker: &mut Checker<'_>) -> Option<ExportFiles> {
    let (mut uses, mut servers) = (Vec::new(), Vec::new());
    for url in urls {
        if let OriginUrl::Root { server, tls } = url {
            servers.push(server.clone());
            uses.push(*tls);
        }
    }
    let tls = *uses.first()?;
    if uses.iter().any(|other| *other != tls) {
        let text = "some origins with TLS and some without: write roots:// for all of them, or for none";
        checker.refuse("export.origins", export.origins.span(), text);
    }
    let mut servers = servers.into_iter();
    Some(ExportFiles::Origins { first: servers.next()?, others: servers.collect(), tls })
}

fn read_http_origins(urls: &[OriginUrl]) -> Option<ExportFiles> {
    let mut origins = urls.iter().filter_map(|url| match url {
        OriginUrl::Http(origin) => Some(origin.clone()),
        OriginUrl::Root { .. } => None,
    });
    Some(ExportFiles::HttpOrigins { first: origins.next()?, others: origins.collect() })
}

/// Reads the list; a rule takes from `read_ahead` all that it does not override.
pub(crate) fn read_rules(raw: &[Spanned<RawRule>], read_ahead: ReadAheadSettings, checker: &mut Checker<'_>) -> Rules {
    let tables = checker.at_most(RULES_MAX, "rule", raw);
    Rules::new(tables.iter().map(|table| read_rule(table, read_ahead, checker)).collect())
}

fn read_rule(table: &Spanned<RawRule>, read_ahead: ReadAheadSettings, checker: &mut Checker<'_>) -> Rule {
    let raw = table.get_ref();
    let mut rule = Rule::default();
    raw.apply(&mut rule);
    if let (Some(min), Some(max)) = (rule.size_min, rule.size_max)
        && min > max
    {
        checker.refuse("rule.size_max", raw.size_max.span(), "less than rule.size_min: no file matches");
    }
    rule.caching.read_ahead = read_read_ahead(raw, read_ahead);
    let is_about_caching = raw.block_size.is_set() || raw.fill.is_set() || rule.caching.read_ahead.is_some();
    if is_about_caching && rule.caching.action != Action::Cache {
        let span = raw.action.span().cloned().unwrap_or_else(|| table.span());
        checker.refuse("rule.action", Some(&span), "only files that are cached have blocks and are read ahead");
    }
    rule
}

fn read_read_ahead(raw: &RawRule, mut settings: ReadAheadSettings) -> Option<ReadAheadSettings> {
    let is_set = raw.read_ahead.is_set() || raw.window_max.is_set() || raw.complete_after.is_set();
    raw.read_ahead.store(&mut settings.enabled, None);
    raw.window_max.store(&mut settings.window_max, None);
    raw.complete_after.store(&mut settings.complete_after_percent, None);
    is_set.then_some(settings)
}
