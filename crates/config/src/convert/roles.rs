//! The role of the server and direct access, and their demands on other settings.

use super::checker::Checker;
use crate::{
    base::Role,
    config::{Config, ExportFiles},
    file::Raw,
};

/// Permissions by which users other than the server's read.
const READ_BY_OTHERS: u32 = 0o044;

/// Checks the role; exports and direct access have been read.
pub(crate) fn settle_role(raw: &Raw, config: &mut Config, checker: &mut Checker<'_>) {
    let role = config.server.role;
    if raw.manager.filler.is_set() && role != Role::Manager {
        let text = "only a manager redirects clients to a filler: write server.role = \"manager\", or leave this out";
        checker.refuse("manager.filler", raw.manager.filler.span(), text);
    }
    if role == Role::Manager {
        if !config.http.listen.is_empty() || (raw.http.shared.is_set() && config.http.is_shared) {
            let text =
                "a manager serves root:// only, because clients of HTTP cannot follow its redirects: leave this out";
            let (setting, span) = match config.http.listen.is_empty() {
                true => ("http.shared", raw.http.shared.span()),
                false => ("http.listen", raw.http.listen.span()),
            };
            checker.refuse(setting, span, text);
        }
        config.http.is_shared = false;
        if !config.s3.listen.is_empty() {
            let text =
                "a manager serves root:// only, because clients of S3 cannot follow its redirects: leave this out";
            checker.refuse("s3.listen", raw.s3.listen.span(), text);
        }
        if !config.dcap.listen.is_empty() {
            let text =
                "a manager serves root:// only, because clients of dCap cannot follow its redirects: leave this out";
            checker.refuse("dcap.listen", raw.dcap.listen.span(), text);
        }
    }
    config.engine.honours_access_times = config.is_direct();
    config.engine.publishes_complete = role == Role::Filler;
    if role == Role::Cache {
        return;
    }
    let mut refuse = |text: &str| checker.refuse("server.role", raw.server.role.span(), text);
    if !config.is_direct() {
        refuse("no file can be read directly: write direct = \"complete\" in an [[export]]");
    }
    if config.engine.direct_mode & READ_BY_OTHERS == 0 {
        refuse(
            "a manager recognizes complete files by direct.file_mode, which must let others read: write \"0640\" or \"0644\"",
        );
    }
    let is_directory = |files: &ExportFiles| matches!(files, ExportFiles::Directory(_));
    if role == Role::Manager && config.exports.iter().any(|export| is_directory(&export.files)) {
        refuse("a manager serves no files: export directories by another server");
    }
}

/// With direct access other users must read complete files, and none that is not complete.
pub(crate) fn settle_permissions(raw: &Raw, config: &mut Config, checker: &mut Checker<'_>) {
    if !config.is_direct() {
        return;
    }
    let permissions = &mut config.permissions;
    if permissions.file_mode & READ_BY_OTHERS != 0 {
        let text = "with direct access other users must not read files that are not complete: write \"0600\", and direct.file_mode";
        checker.refuse("store.file_mode", raw.store.file_mode.span(), text);
    }
    let readers = config.engine.direct_mode & READ_BY_OTHERS;
    let searchers = readers >> 2;
    if !raw.store.directory_mode.is_set() {
        // Users that may read files must reach them, and list them.
        permissions.directory_mode |= readers | searchers;
    } else if permissions.directory_mode & searchers != searchers {
        let text = "users that may read files by direct.file_mode do not get through the directories: write \"0755\"";
        checker.refuse("store.directory_mode", raw.store.directory_mode.span(), text);
    }
}
