//! A look at a directory of XCache or of ours that changes nothing: what is good, what is not, and why.

mod account;

pub use account::{Account, Defect, EXAMPLES_MAX, Finding, KINDS_MAX};

use forebay_cache::{CINFO_LEN_MAX, CINFO_SUFFIX, CacheKey, Cinfo, CinfoVersion, ForwardedPath, is_reserved_top};
use forebay_types::Lfn;
use rustix::io::Errno;
use std::{
    ffi::OsString,
    fs::{self, DirEntry, File, Metadata, ReadDir},
    io::{self, Read},
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
};

/// Deepest directory that is looked into. A path of 4096 bytes could be deeper, no name space is.
const DEPTH_MAX: usize = 256;

/// Directory at the top that holds page checksums of XCache.
const PAGE_CHECKSUMS: &str = ".xrdt";

/// A user whose access is asked for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
}

/// Examines the whole tree below `root`, and passes the account so far to `progress` after each name. Needs memory for
/// the directories above the one it is in. With a `user`, files that this user could not use are defects.
///
/// # Errors
/// When `root` cannot be read. Anything unreadable below it is a [`Defect`].
pub fn survey(root: &Path, user: Option<User>, progress: &mut dyn FnMut(&Account)) -> io::Result<Account> {
    let mut surveyor = Surveyor { root, user, account: Account::default() };
    surveyor.directory(root, &fs::metadata(root)?);
    let mut above = vec![fs::read_dir(root)?];
    while let Some(directory) = above.last_mut() {
        let below = match directory.next() {
            None => {
                above.pop();
                continue;
            }
            Some(Ok(name)) => surveyor.name(&name, above.len()),
            // The rest of the tree is still worth a report.
            Some(Err(_)) => {
                surveyor.account.note(Defect::Unreadable, String::new());
                None
            }
        };
        above.extend(below);
        progress(&surveyor.account);
    }
    Ok(surveyor.account)
}

#[derive(Debug)]
struct Surveyor<'s> {
    root: &'s Path,
    user: Option<User>,
    account: Account,
}

impl Surveyor<'_> {
    /// Looks at a name; returns its names if it is a directory to go into.
    fn name(&mut self, entry: &DirEntry, depth: usize) -> Option<ReadDir> {
        let path = entry.path();
        if depth == 1 && self.is_reserved(&path) {
            return None;
        }
        let Ok(metadata) = entry.metadata() else {
            self.note(Defect::Unreadable, &path);
            return None;
        };
        let file_type = metadata.file_type();
        if file_type.is_dir() {
            return self.enter(&path, &metadata, depth);
        }
        if !file_type.is_file() && !file_type.is_symlink() {
            self.note(Defect::NotAFile, &path);
            return None;
        }
        let result = match path.as_os_str().as_bytes().strip_suffix(CINFO_SUFFIX.as_bytes()) {
            Some(_) => self.cinfo(&path, &metadata),
            None => self.data(&path, &metadata),
        };
        if let Err(defect) = result {
            self.note(defect, &path);
        }
        None
    }

    fn is_reserved(&mut self, path: &Path) -> bool {
        let name = path.file_name().unwrap_or_default();
        self.account.has_page_checksums |= name == PAGE_CHECKSUMS;
        name.to_str().is_some_and(is_reserved_top)
    }

    fn enter(&mut self, path: &Path, metadata: &Metadata, depth: usize) -> Option<ReadDir> {
        self.directory(path, metadata);
        // No name space is this deep, but a loop of mounts is.
        if depth >= DEPTH_MAX {
            self.note(Defect::UnusableName, path);
            return None;
        }
        fs::read_dir(path).inspect_err(|_| self.note(Defect::Unreadable, path)).ok()
    }

    fn directory(&mut self, path: &Path, metadata: &Metadata) {
        self.account.directories += 1;
        if !self.may(metadata, 0o7) {
            self.note(Defect::Forbidden, path);
        }
    }

    fn cinfo(&mut self, path: &Path, found: &Metadata) -> Result<(), Defect> {
        self.account.records += 1;
        let metadata = self.target(path, found)?;
        let data_path = path.with_extension("");
        if self.key(&data_path).is_none() {
            return Err(Defect::UnusableName);
        }
        let bytes = read_record(path)?;
        let cinfo = Cinfo::decode(&bytes)?;
        let version = CinfoVersion::of(&bytes)?;
        let data = match fs::symlink_metadata(&data_path) {
            Ok(found) => self.target(&data_path, &found)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(Defect::DataMissing),
            Err(_) => return Err(Defect::Unreadable),
        };
        if data.len() < cinfo.expected_data_len() {
            return Err(Defect::DataShort);
        }
        self.account.last_change = self.account.last_change.max(metadata.mtime()).max(data.mtime());
        self.account.good(&cinfo, version, &data, found.is_symlink());
        Ok(())
    }

    /// Data: a defect only without a record.
    fn data(&mut self, path: &Path, found: &Metadata) -> Result<(), Defect> {
        let mut cinfo = OsString::from(path);
        cinfo.push(CINFO_SUFFIX);
        match fs::symlink_metadata(&cinfo) {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.target(path, found)?;
                Err(Defect::CinfoMissing)
            }
            Err(_) => Err(Defect::Unreadable),
        }
    }

    /// The file at `path`, or the one in a space that a link there leads to.
    fn target(&self, path: &Path, found: &Metadata) -> Result<Metadata, Defect> {
        let metadata = if found.is_symlink() {
            let target = fs::read_link(path).map_err(|_| Defect::Unreadable)?;
            // The same rule as for the store's own lookups.
            if !target.is_absolute() || !target.as_os_str().as_bytes().ends_with(b"%") {
                return Err(Defect::ForeignLink);
            }
            fs::symlink_metadata(&target).map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => Defect::DanglingLink,
                _ => Defect::Unreadable,
            })?
        } else {
            found.clone()
        };
        if !metadata.is_file() {
            return Err(Defect::NotAFile);
        }
        if self.may(&metadata, 0o6) { Ok(metadata) } else { Err(Defect::Forbidden) }
    }

    /// Whether the user has the rights `wanted` (as of others) to what `metadata` describes.
    fn may(&self, metadata: &Metadata, wanted: u32) -> bool {
        let Some(user) = self.user else { return true };
        let shift = match user {
            User { uid: 0, .. } => return true,
            User { uid, .. } if uid == metadata.uid() => 6,
            User { gid, .. } if gid == metadata.gid() => 3,
            User { .. } => 0,
        };
        // The kernel uses the first class that fits and no other, so the owner may have fewer rights than others.
        (metadata.mode() >> shift) & wanted == wanted
    }

    /// The key by which clients reach the data at `path`.
    fn key(&self, path: &Path) -> Option<CacheKey> {
        let below = path.strip_prefix(self.root).ok()?.to_str()?;
        let key = match ForwardedPath::parse(below).ok()? {
            Some(forwarded) => CacheKey::forwarded(&forwarded.origin, &forwarded.lfn).ok()?,
            None => {
                let lfn = Lfn::parse(&format!("/{below}")).ok()?;
                CacheKey::rucio_from_text(lfn.as_str()).or_else(|| CacheKey::fixed(&lfn).ok())?
            }
        };
        // A name that is spelled differently from its key would never be found.
        (key.as_str().trim_start_matches('/') == below).then_some(key)
    }

    fn note(&mut self, defect: Defect, path: &Path) {
        let below: PathBuf = path.strip_prefix(self.root).unwrap_or(path).to_owned();
        self.account.note(defect, below.to_string_lossy().into_owned());
    }
}

fn read_record(path: &Path) -> Result<Vec<u8>, Defect> {
    let unreadable = |error: io::Error| match Errno::from_io_error(&error) {
        Some(Errno::ACCESS | Errno::PERM) => Defect::Forbidden,
        _ => Defect::Unreadable,
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(CINFO_LEN_MAX).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}
