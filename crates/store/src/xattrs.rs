//! Extended attributes of records.

use crate::OriginMark;
use rustix::{
    fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr},
    io::Errno,
};
use std::{
    ffi::{OsStr, OsString},
    fs::File,
    os::{fd::AsFd, unix::ffi::OsStrExt},
};

/// Size of the origin's file, a native 64-bit integer: XCache answers stat requests from it.
pub(crate) const FILE_SIZE: &str = "user.pfc.fsize";

/// The origin's file as it was when the entry was created; see [`OriginMark`].
pub(crate) const ORIGIN: &str = "user.forebay.origin";

/// Path of the link that leads to a file in a space of XCache.
const SPACE_LINK: &str = "user.XrdFrm.Pfn";

/// Longest list of names, and longest value, in bytes: the limits of Linux.
const ATTRIBUTE_LEN_MAX: usize = 64 << 10;

/// Longest text of an [`OriginMark`] in bytes: a host name of 255, an entity tag of 256, a checksum of 160, and the rest.
const ORIGIN_LEN_MAX: usize = 1024;

/// Attributes taken from one file, to be given to another.
#[derive(Debug, Default)]
pub(crate) struct Attributes(Vec<(OsString, Vec<u8>)>);

impl Attributes {
    /// All user attributes of `file` except those that every record is given again. The one that ties it to its link comes first: it is
    /// kept if not all of them fit.
    pub(crate) fn foreign(file: &File) -> rustix::io::Result<Self> {
        let mut names = vec![0; ATTRIBUTE_LEN_MAX];
        let len = match flistxattr(file, names.as_mut_slice()) {
            Ok(len) => len,
            Err(Errno::NOTSUP) => return Ok(Self::default()),
            Err(errno) => return Err(errno),
        };
        names.truncate(len);
        let mut attributes = names
            .split(|&byte| byte == 0)
            .filter(|name| name.starts_with(b"user.") && *name != FILE_SIZE.as_bytes() && *name != ORIGIN.as_bytes())
            .filter_map(|name| Self::one(file, OsStr::from_bytes(name)).transpose())
            .collect::<Result<Vec<_>, _>>()?;
        attributes.sort_by_key(|(name, _)| name != SPACE_LINK);
        Ok(Self(attributes))
    }

    /// The attribute that ties a file in a space to its link.
    pub(crate) fn of_space(file: &File) -> rustix::io::Result<Self> {
        Ok(Self(Self::one(file, OsStr::new(SPACE_LINK))?.into_iter().collect()))
    }

    fn one(file: &File, name: &OsStr) -> rustix::io::Result<Option<(OsString, Vec<u8>)>> {
        Ok(value_of(file, name, ATTRIBUTE_LEN_MAX)?.map(|value| (name.to_owned(), value)))
    }

    pub(crate) fn give_to(&self, file: &File) -> rustix::io::Result<()> {
        self.0.iter().try_for_each(|(name, value)| fsetxattr(file, name, value, XattrFlags::empty()))
    }

    /// Gives to `file` those attributes that it has room for.
    pub(crate) fn give_fitting_to(&self, file: &File) -> rustix::io::Result<()> {
        self.0.iter().try_for_each(|(name, value)| set_if_it_fits(file, name, value).map(drop))
    }
}

/// Gives a record's own attributes to `file`: before those of others, because the mark is needed more. Without room for the mark there is
/// none afterwards, which costs one question to the origin.
pub(crate) fn describe(file: &File, file_size: u64, origin: Option<&OriginMark>) -> rustix::io::Result<()> {
    let file_size = i64::try_from(file_size).map_err(|_| Errno::OVERFLOW)?;
    set_if_it_fits(file, OsStr::new(FILE_SIZE), &file_size.to_ne_bytes())?;
    let Some(origin) = origin else { return Ok(()) };
    if set_if_it_fits(file, OsStr::new(ORIGIN), origin.to_string().as_bytes())? {
        return Ok(());
    }
    // An old mark would be believed.
    match fremovexattr(file, ORIGIN) {
        Ok(()) | Err(Errno::NODATA) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Gives an attribute to `file`; false if that has no room for it. ext4 reports that like a full disk, but it is only the one block that all
/// attributes of a file share. A disk that is really full refuses the contents of the file, too.
fn set_if_it_fits(file: &File, name: &OsStr, value: &[u8]) -> rustix::io::Result<bool> {
    match fsetxattr(file, name, value, XattrFlags::empty()) {
        Ok(()) => Ok(true),
        Err(Errno::NOSPC) => {
            tracing::debug!(name = %name.display(), len = value.len(), "a record has no room for an attribute");
            Ok(false)
        }
        Err(errno) => Err(errno),
    }
}

/// The origin's mark on `file`; `None` when there is none or it cannot be read.
pub(crate) fn origin(file: &File) -> Option<OriginMark> {
    // An unreadable mark costs one question to the origin, so it is not an error.
    let value = value_of(file, OsStr::new(ORIGIN), ORIGIN_LEN_MAX).ok()??;
    std::str::from_utf8(&value).ok()?.parse().ok()
}

/// Whether the file system of `file` keeps user attributes.
pub(crate) fn are_kept(file: &File) -> bool {
    fsetxattr(file, FILE_SIZE, &0_i64.to_ne_bytes(), XattrFlags::empty()).is_ok()
        && value_of(file, OsStr::new(FILE_SIZE), 8).is_ok_and(|value| value.is_some())
}

/// Whether the file system of `file` has user attributes, by a question that needs no space.
pub(crate) fn are_supported(file: impl AsFd) -> bool {
    let mut value = [0; 8];
    !matches!(fgetxattr(file, FILE_SIZE, &mut value), Err(Errno::NOTSUP))
}

fn value_of(file: &File, name: &OsStr, len_max: usize) -> rustix::io::Result<Option<Vec<u8>>> {
    let mut value = vec![0; len_max];
    match fgetxattr(file, name, value.as_mut_slice()) {
        Ok(len) => {
            value.truncate(len);
            Ok(Some(value))
        }
        // No such attribute, or a file system without attributes.
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(None),
        Err(errno) => Err(errno),
    }
}
