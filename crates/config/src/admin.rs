//! The admin port's settings.

use crate::{
    checker::Checker,
    config::AdminConfig,
    convert::{parse_address, parse_path},
    raw::RawAdmin,
};
use std::{fs, path::Path};

/// Where the names of groups are.
const GROUPS: &str = "/etc/group";

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

fn parse_group(text: &str) -> Result<u32, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let groups = fs::read_to_string(Path::new(GROUPS)).unwrap_or_default();
    group_number(&groups, text).ok_or_else(|| {
        format!("there is no group `{}` in {GROUPS}: create it, or write its number", text.escape_default())
    })
}

/// The number of the group `name` in the lines of a group file.
fn group_number(groups: &str, name: &str) -> Option<u32> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)).flatten()?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_found_by_their_whole_name() {
        let groups = "root:x:0:\nadm:x:4:syslog,a\nadmin:x:118:\nbroken\n";
        assert_eq!(group_number(groups, "adm"), Some(4));
        assert_eq!(group_number(groups, "admin"), Some(118));
        for absent in ["ad", "broken", "x", ""] {
            assert_eq!(group_number(groups, absent), None, "{absent}");
        }
    }

    #[test]
    fn numbers_need_no_group_file() {
        assert_eq!(parse_group("4711"), Ok(4711));
        assert!(parse_group("no such group").unwrap_err().contains("write its number"));
    }
}
