//! Users and groups of this machine, by name.

use std::fs;

const USERS: &str = "/etc/passwd";
const GROUPS: &str = "/etc/group";

/// The user that the server runs as.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RunAs {
    /// As in the file.
    pub name: String,
    pub user: u32,
    /// The user's primary group.
    pub group: u32,
    pub other_groups: Vec<u32>,
}

impl RunAs {
    /// Reads a name of `/etc/passwd`, or `UID:GID`.
    ///
    /// # Errors
    /// If there is no such user.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Some((user, group)) = text.split_once(':')
            && let (Ok(user), Ok(group)) = (user.parse(), group.parse())
        {
            return Ok(Self { name: text.to_owned(), user, group, other_groups: Vec::new() });
        }
        let (users, groups) = (fs::read_to_string(USERS), fs::read_to_string(GROUPS));
        Self::find(text, &users.unwrap_or_default(), &groups.unwrap_or_default()).ok_or_else(|| {
            format!(
                "there is no user `{}` in {USERS}: create it, or write its numbers as UID:GID",
                text.escape_default()
            )
        })
    }

    fn find(name: &str, users: &str, groups: &str) -> Option<Self> {
        let mut fields = users
            .lines()
            .map(|line| line.split(':'))
            .find_map(|mut fields| (fields.next() == Some(name)).then_some(fields))?;
        let (user, group) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        let is_member =
            |line: &&str| line.rsplit(':').next().is_some_and(|list| list.split(',').any(|member| member == name));
        let number = |line: &str| line.split(':').nth(2)?.parse().ok();
        let other_groups =
            groups.lines().filter(is_member).filter_map(number).filter(|other| *other != group).collect();
        Some(Self { name: name.to_owned(), user, group, other_groups })
    }

    #[must_use]
    pub const fn is_root(&self) -> bool {
        self.user == 0
    }
}

/// The number of a group, from its number or name.
pub(crate) fn parse_group(text: &str) -> Result<u32, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let groups = fs::read_to_string(GROUPS).unwrap_or_default();
    group_number(&groups, text).ok_or_else(|| {
        format!("there is no group `{}` in {GROUPS}: create it, or write its number", text.escape_default())
    })
}

fn group_number(groups: &str, name: &str) -> Option<u32> {
    groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next() == Some(name)).then(|| fields.nth(1)).flatten()?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str =
        "root:x:0:0:root:/root:/bin/bash\nforebay:x:998:997::/var/cache/forebay:/usr/sbin/nologin\nbroken:x\n";
    const GROUPS: &str = "root:x:0:\nforebay:x:997:forebay\nxrootd:x:60:a,forebay\nother:x:61:forebayx\n";

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

    #[test]
    fn users_are_found_with_their_groups() {
        let found = RunAs::find("forebay", USERS, GROUPS).unwrap();
        assert_eq!((found.user, found.group, found.other_groups.as_slice()), (998, 997, [60].as_slice()));
        assert!(RunAs::find("root", USERS, GROUPS).unwrap().is_root());
        for absent in ["fore", "broken", "x", ""] {
            assert_eq!(RunAs::find(absent, USERS, GROUPS), None, "{absent}");
        }
    }

    #[test]
    fn users_may_be_written_as_numbers() {
        let found = RunAs::parse("4711:4712").unwrap();
        assert_eq!((found.user, found.group, found.is_root()), (4711, 4712, false));
        for wrong in ["4711:", "no such user", "-1:0"] {
            assert!(RunAs::parse(wrong).unwrap_err().contains("UID:GID"), "{wrong}");
        }
    }
}
