//! Permissions under direct access.

use super::checker::Checker;
use crate::{config::Config, file::Raw};

/// Permissions by which users other than the server's read.
pub(super) const READ_BY_OTHERS: u32 = 0o044;

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
