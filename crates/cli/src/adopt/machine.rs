//! The files and the environment of this machine.

use anyhow::{Context, bail};
use forebay_adopt::{Found, Machine};
use forebay_store::User;
use std::{
    env, fs,
    io::{self, Read},
};

/// Most bytes read of a file; the configuration parser refuses that many.
const READ_LEN_MAX: u64 = (1 << 20) + 1;

#[derive(Debug)]
pub(super) struct ThisMachine;

impl Machine for ThisMachine {
    fn environment(&self, name: &str) -> Option<String> {
        env::var_os(name).map(|value| value.to_string_lossy().into_owned())
    }

    fn find(&self, path: &str) -> Result<Found, String> {
        let read = || -> io::Result<Found> {
            if fs::metadata(path)?.is_dir() {
                let names = fs::read_dir(path)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
                return Ok(Found::Directory(names.collect::<io::Result<_>>()?));
            }
            let mut bytes = Vec::new();
            fs::File::open(path)?.take(READ_LEN_MAX).read_to_end(&mut bytes)?;
            Ok(Found::File(bytes))
        };
        match read() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::Nothing),
            other => other.map_err(|error| error.to_string()),
        }
    }
}

pub(super) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The user `name`, a name in `/etc/passwd` or a number.
pub(super) fn user(name: &str) -> anyhow::Result<User> {
    let passwd = fs::read_to_string("/etc/passwd").context("reading /etc/passwd")?;
    for line in passwd.lines() {
        if let [user, _, uid, gid, ..] = line.split(':').collect::<Vec<_>>().as_slice()
            && (*user == name || *uid == name)
        {
            return Ok(User { uid: uid.parse()?, gid: gid.parse()? });
        }
    }
    bail!("no user {name} in /etc/passwd")
}

/// The name in `/etc/passwd` of the user `uid`.
pub(super) fn user_name(uid: u32) -> Option<String> {
    let passwd = fs::read_to_string("/etc/passwd").ok()?;
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}
