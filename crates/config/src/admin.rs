//! The admin port's settings.

use crate::{
    accounts::parse_group,
    checker::Checker,
    config::AdminConfig,
    convert::{parse_address, parse_path},
    raw::RawAdmin,
};

/// The admin port as it is written.
pub(crate) fn read_admin(raw: &RawAdmin, checker: &mut Checker<'_>) -> AdminConfig {
    let admin = AdminConfig {
        listen: checker.read("admin.listen", raw.listen.as_ref(), |text| parse_address(text)),
        token_file: checker.read("admin.token_file", raw.token_file.as_ref(), |text| parse_path(text)),
        socket: checker.read("admin.socket", raw.socket.as_ref(), |text| parse_path(text)),
        socket_group: checker.read("admin.socket_group", raw.socket_group.as_ref(), |text| parse_group(text)),
    };
    if let (Some(file), None) = (&raw.token_file, &raw.listen) {
        let text = "a token without an address to send it to: write admin.listen too";
        checker.refuse("admin.token_file", Some(&file.span()), text);
    }
    if let (Some(group), None) = (&raw.socket_group, &raw.socket) {
        let text = "a group without a socket: write admin.socket too";
        checker.refuse("admin.socket_group", Some(&group.span()), text);
    }
    admin
}
