//! The files and the environment of this machine.

use crate::accounts;
use forebay_adopt::{Found, Machine};
use std::{
    env, fs,
    io::{self, Read},
    os::unix::fs::MetadataExt,
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

    fn owner(&self, path: &str) -> Option<String> {
        // The directory may be a file system's root, which root owns: then its contents have the owner.
        let below = fs::read_dir(path).ok()?.filter_map(|entry| entry.ok()?.metadata().ok());
        let owner = fs::metadata(path).into_iter().chain(below).find(|metadata| metadata.uid() != 0)?;
        Some(accounts::user_name(owner.uid()).unwrap_or_else(|| format!("{}:{}", owner.uid(), owner.gid())))
    }
}
