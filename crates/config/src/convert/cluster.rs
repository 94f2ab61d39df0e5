//! Membership of a cluster, and its demands on other settings.

use super::checker::Checker;
use crate::{
    base::Role,
    config::{Config, ExportConfig, ExportFiles},
    file::Raw,
};
use forebay_cluster::{PATHS_LEN_MAX, paths_len};
use forebay_types::Lfn;

/// Checks the membership; exports and forwarding have been read.
pub(crate) fn settle_cluster(raw: &Raw, config: &mut Config, checker: &mut Checker<'_>) {
    let table = &raw.cluster;
    config.cluster.discover = table.discover.value();
    let has_members = !config.cluster.members.is_empty();
    if config.cluster.managers.is_empty() {
        let (setting, span) = match has_members {
            true => ("cluster.members", table.members.span()),
            false => ("cluster.discover", table.discover.span()),
        };
        if span.is_some() && table.managers.faults().is_empty() && (has_members || config.cluster.discover.is_some()) {
            let text = format_args!("no manager to log in to: set {} too", checker.name("cluster.managers"));
            checker.refuse(setting, span, text);
        }
        return;
    }
    // Files of a directory are on this server only: managers must not send clients here for files that are elsewhere.
    let is_of_origin = |export: &&ExportConfig| !matches!(export.files, ExportFiles::Directory(_));
    let exported = config.exports.iter().filter(is_of_origin).map(|export| export.path.clone());
    let forwarded = if config.forwarding.is_empty() { None } else { Lfn::parse("/").ok() };
    let paths: Vec<Lfn> = table.paths.get().cloned().unwrap_or_else(|| exported.chain(forwarded).collect());
    config.cluster.paths = paths.iter().map(|path| path.as_str().to_owned()).collect();
    check_paths(raw, config, checker);
    if config.server.role == Role::Manager {
        let text = "a data manager has no files of its own: configure its filler as the member, or leave this out";
        checker.refuse("cluster.managers", table.managers.span(), text);
    }
    if has_members && table.discover.is_set() {
        let text = "members are listed and discovered: leave out one of cluster.members and cluster.discover";
        checker.refuse("cluster.discover", table.discover.span(), text);
    }
}

fn check_paths(raw: &Raw, config: &Config, checker: &mut Checker<'_>) {
    let (paths, table) = (&config.cluster.paths, &raw.cluster);
    let span = table.paths.span().or_else(|| table.managers.span());
    if paths.is_empty() && !config.exports.is_empty() {
        checker.refuse("cluster.paths", span, "no path to serve in the cluster: add an export with origins");
    }
    if paths.iter().any(|path| path.contains(char::is_whitespace)) {
        checker.refuse("cluster.paths", span, "managers read paths as words: set paths without blanks");
    }
    let len = paths_len(paths.iter().map(String::as_str));
    if len > PATHS_LEN_MAX {
        let text =
            format_args!("{len} bytes of paths; managers take {PATHS_LEN_MAX}: set a path that all of them begin with");
        checker.refuse("cluster.paths", span, text);
    }
}
