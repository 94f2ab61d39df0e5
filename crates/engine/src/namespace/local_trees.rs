//! An exported directory: files of this machine, read only, never outside the directory.

use crate::{ChecksumAlgorithm, Error, base::digest::Digest};
use forebay_origin::{Checksum, ListDetail};
use forebay_store::Space;
use forebay_types::{DirEntry, FileKind, FileStat, Lfn};
use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, StatVfs, fstat, fstatvfs, openat, openat2, statat,
};
use rustix::io::Errno;
use std::{
    fs::File,
    io,
    os::{fd::OwnedFd, unix::fs::FileExt},
    path::Path,
    sync::Arc,
};

/// A directory that is exported. Symbolic links in it are followed as long as they stay inside.
pub(crate) struct LocalTree {
    root: OwnedFd,
}

/// Bytes read at a time while a checksum is computed.
const CHECKSUM_PIECE: usize = 1 << 20;

impl LocalTree {
    pub(crate) fn open(directory: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self { root: openat(CWD, directory, flags, Mode::empty())? })
    }

    /// Opens a regular file for reading. Blocking.
    pub(crate) fn open_file(&self, lfn: &Lfn) -> Result<(Arc<File>, FileStat), Error> {
        // Non-blocking: the open of a FIFO would wait for a writer.
        let file = self.resolve(lfn, OFlags::RDONLY | OFlags::NONBLOCK)?;
        let stat = stat_of(&fstat(&file).map_err(|errno| error_of(errno, lfn, "looking at"))?);
        match stat.kind {
            FileKind::File => Ok((Arc::new(File::from(file)), stat)),
            FileKind::Directory => Err(Error::IsDirectory { lfn: lfn.clone() }),
            FileKind::Other => Err(Error::NotReadable { lfn: lfn.clone() }),
        }
    }

    /// The attributes of a path. Blocking.
    pub(crate) fn stat(&self, lfn: &Lfn) -> Result<FileStat, Error> {
        // A path descriptor: a stat needs no permission to read the file.
        let file = self.resolve(lfn, OFlags::PATH)?;
        Ok(stat_of(&fstat(&file).map_err(|errno| error_of(errno, lfn, "looking at"))?))
    }

    /// The entries of a directory, in order of their names. Blocking.
    pub(crate) fn list(&self, lfn: &Lfn, detail: ListDetail) -> Result<Vec<DirEntry>, Error> {
        let failed = |errno| error_of(errno, lfn, "listing");
        let directory = self.resolve(lfn, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut entries = Vec::new();
        for entry in Dir::read_from(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            // A line feed would end the entry early in the answer.
            if name == "." || name == ".." || name.contains('\n') {
                continue;
            }
            let stat = match detail {
                ListDetail::Names => None,
                ListDetail::Stats | ListDetail::Checksums => match self.stat_entry(&directory, lfn, name) {
                    Some(stat) => Some(stat),
                    // The entry has been removed since the listing began, or is a link that is broken or leads outside.
                    None => continue,
                },
            };
            entries.push(DirEntry { name: name.to_owned(), stat, checksum: None });
        }
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    /// The attributes of an entry of a directory, or of what it links to inside of the exported directory.
    fn stat_entry(&self, directory: &OwnedFd, lfn: &Lfn, name: &str) -> Option<FileStat> {
        let stat = statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        if FileType::from_raw_mode(stat.st_mode) == FileType::Symlink {
            return self.stat(&Lfn::parse(&format!("{lfn}/{name}")).ok()?).ok();
        }
        Some(stat_of(&stat))
    }

    /// Computes a file's checksum; `adler32` unless another algorithm is named. Blocking, reads the whole file.
    pub(crate) fn checksum(&self, lfn: &Lfn, algorithm: Option<&str>) -> Result<Checksum, Error> {
        let (file, stat) = self.open_file(lfn)?;
        let algorithm = algorithm.unwrap_or("adler32").to_ascii_lowercase();
        let unsupported = |_| Error::Unsupported { what: format!("checksum {}", algorithm.escape_debug()) };
        let mut digest = Digest::new(ChecksumAlgorithm::parse(&algorithm).map_err(unsupported)?);
        let mut buffer = vec![0; CHECKSUM_PIECE];
        let mut offset = 0;
        while offset < stat.size {
            let len = file.read_at(&mut buffer, offset).map_err(|error| Error::disk(lfn, "reading", error))?;
            // The file has become shorter under way: its end is where the disk says.
            let Some(piece) = buffer.get(..len).filter(|piece| !piece.is_empty()) else { break };
            digest.update(piece);
            offset += len as u64;
        }
        Ok(Checksum { algorithm, value: digest.value() })
    }

    /// The room on the file system of the directory.
    pub(crate) fn space(&self) -> io::Result<Space> {
        let StatVfs { f_frsize, f_blocks, f_bavail, f_files, f_favail, .. } = fstatvfs(&self.root)?;
        let (total_bytes, free_bytes) = (f_frsize.saturating_mul(f_blocks), f_frsize.saturating_mul(f_bavail));
        Ok(Space { total_bytes, free_bytes, total_inodes: f_files, free_inodes: f_favail })
    }

    fn resolve(&self, lfn: &Lfn, flags: OFlags) -> Result<OwnedFd, Error> {
        let relative = match lfn.as_str().trim_start_matches('/') {
            "" => ".",
            path => path,
        };
        // The kernel checks each component: a link cannot lead outside, even if it is changed during the open.
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        openat2(&self.root, relative, flags | OFlags::CLOEXEC, Mode::empty(), resolve)
            .map_err(|errno| error_of(errno, lfn, "opening"))
    }
}

fn stat_of(stat: &Stat) -> FileStat {
    let mode = stat.st_mode;
    let kind = match FileType::from_raw_mode(mode) {
        FileType::RegularFile => FileKind::File,
        FileType::Directory => FileKind::Directory,
        _ => FileKind::Other,
    };
    FileStat {
        id: (stat.st_dev << 32) | (stat.st_ino & 0xffff_ffff),
        kind,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        mtime: stat.st_mtime,
        readable: mode & 0o444 != 0,
        executable: mode & 0o111 != 0,
        offline: false,
        cached: false,
        access: None,
        validator: None,
    }
}

fn error_of(errno: Errno, lfn: &Lfn, doing: &'static str) -> Error {
    let lfn = lfn.clone();
    match errno {
        Errno::NOENT => Error::NotFound { lfn },
        Errno::NOTDIR => Error::NotDirectory { lfn },
        Errno::ISDIR => Error::IsDirectory { lfn },
        // XDEV: a symbolic link that leads out of the exported directory.
        Errno::ACCESS | Errno::PERM | Errno::XDEV | Errno::LOOP => Error::NotReadable { lfn },
        errno => Error::Disk { lfn, doing, reason: errno.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink};

    fn tree() -> (tempfile::TempDir, LocalTree) {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("sub")).unwrap();
        fs::write(directory.path().join("sub/file"), b"123456789").unwrap();
        let tree = LocalTree::open(directory.path()).unwrap();
        (directory, tree)
    }

    fn lfn(text: &str) -> Lfn {
        Lfn::parse(text).unwrap()
    }

    #[test]
    fn files_are_opened_and_directories_are_not() {
        let (_directory, tree) = tree();
        assert_eq!(tree.open_file(&lfn("/sub/file")).unwrap().1.size, 9);
        assert_eq!(tree.open_file(&lfn("/sub")).unwrap_err(), Error::IsDirectory { lfn: lfn("/sub") });
        assert_eq!(tree.open_file(&lfn("/no")).unwrap_err(), Error::NotFound { lfn: lfn("/no") });
        assert_eq!(tree.open_file(&lfn("/sub/file/x")).unwrap_err(), Error::NotDirectory { lfn: lfn("/sub/file/x") });
    }

    #[test]
    fn links_that_lead_outside_are_refused() {
        let (directory, tree) = tree();
        symlink("/etc/passwd", directory.path().join("absolute")).unwrap();
        symlink("../../../../etc/passwd", directory.path().join("climbing")).unwrap();
        symlink("sub/file", directory.path().join("inside")).unwrap();
        assert!(matches!(tree.open_file(&lfn("/absolute")), Err(Error::NotReadable { .. })));
        assert!(matches!(tree.open_file(&lfn("/climbing")), Err(Error::NotReadable { .. })));
        assert!(tree.open_file(&lfn("/inside")).is_ok());
        fs::create_dir(directory.path().join("links")).unwrap();
        for (name, target) in
            [("out", "/etc/passwd"), ("up", "../../../../etc/passwd"), ("in", "../sub/file"), ("no", "x")]
        {
            symlink(target, directory.path().join("links").join(name)).unwrap();
        }
        for (path, inside) in [("/", "inside"), ("/links", "in")] {
            let links = tree.list(&lfn(path), ListDetail::Stats).unwrap();
            let files: Vec<_> =
                links.iter().filter(|entry| entry.stat.as_ref().unwrap().kind != FileKind::Directory).collect();
            assert_eq!(files.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), [inside]);
            assert_eq!(files[0].stat.as_ref().unwrap().size, 9);
        }
    }

    #[test]
    fn listings_are_sorted_and_carry_stats() {
        let (directory, tree) = tree();
        fs::write(directory.path().join("a b%ü"), b"x").unwrap();
        let entries = tree.list(&lfn("/"), ListDetail::Stats).unwrap();
        assert_eq!(entries.iter().map(|entry| entry.name.as_str()).collect::<Vec<_>>(), ["a b%ü", "sub"]);
        assert_eq!(entries[1].stat.as_ref().unwrap().kind, FileKind::Directory);
        assert!(tree.list(&lfn("/sub/file"), ListDetail::Names).is_err());
    }

    #[test]
    fn checksums_match_their_check_values() {
        let (_directory, tree) = tree();
        let value = |name| tree.checksum(&lfn("/sub/file"), name).unwrap().value;
        assert_eq!(value(None), "091e01de");
        assert_eq!(value(Some("CRC32C")), "e3069283");
        assert!(tree.checksum(&lfn("/sub/file"), Some("foo")).is_err());
    }
}
