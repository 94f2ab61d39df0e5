//! The role of the server, and what it demands of other settings.

use super::{checker::Checker, direct::READ_BY_OTHERS};
use crate::{
    base::Role,
    config::{Config, ExportFiles},
    file::Raw,
};

/// Checks the role; exports and direct access have been read.
pub(crate) fn settle_role(raw: &Raw, config: &mut Config, checker: &mut Checker<'_>) {
    let role = config.server.role;
    if raw.manager.filler.is_set() && role != Role::Manager {
        let text = "only a manager redirects clients to a filler: write server.role = \"manager\", or leave this out";
        checker.refuse("manager.filler", raw.manager.filler.span(), text);
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
