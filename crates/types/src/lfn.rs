//! Logical file names, and the paths of requests.

use std::{fmt, sync::Arc};

/// Longest logical file name in bytes (the operating system's limit for a path).
pub const LFN_LEN_MAX: usize = 4096;

/// Longest component of a logical file name in bytes (the operating system's limit for a name).
pub const LFN_COMPONENT_LEN_MAX: usize = 255;

/// The logical file name a client asks for: absolute, no empty, `.` or `..` component, no NUL. Cheap to clone.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Lfn(Arc<str>);

/// Why a path is not a logical file name.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum LfnError {
    #[error("relative path is disallowed: begin it with / (in a URL, write two slashes after the host)")]
    Relative,
    #[error("path with a .. component is disallowed")]
    Climbs,
    #[error("path holds a NUL byte")]
    Nul,
    #[error("path is not UTF-8")]
    NotUtf8,
    #[error("path or a component of it is too long (at most 4096 and 255 bytes)")]
    TooLong,
    #[error("path is missing")]
    Missing,
}

impl Lfn {
    /// Parses a path, squeezing `//` and `/./`; a trailing slash is dropped except in `/` itself.
    ///
    /// # Errors
    /// See [`LfnError`].
    pub fn parse(path: &str) -> Result<Self, LfnError> {
        if path.is_empty() {
            return Err(LfnError::Missing);
        }
        if !path.starts_with('/') {
            return Err(LfnError::Relative);
        }
        if path.contains('\0') {
            return Err(LfnError::Nul);
        }
        if path.len() > LFN_LEN_MAX {
            return Err(LfnError::TooLong);
        }
        let mut squeezed = String::with_capacity(path.len());
        for component in path.split('/') {
            match component {
                "" | "." => {}
                ".." => return Err(LfnError::Climbs),
                _ if component.len() > LFN_COMPONENT_LEN_MAX => return Err(LfnError::TooLong),
                _ => {
                    squeezed.push('/');
                    squeezed.push_str(component);
                }
            }
        }
        if squeezed.is_empty() {
            squeezed.push('/');
        }
        Ok(Self(squeezed.into()))
    }

    /// The name as text, beginning with `/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The text, for other names that are the same.
    pub fn shared(&self) -> Arc<str> {
        Arc::clone(&self.0)
    }

    /// Whether this name is `prefix` or lies below it, at a component boundary.
    pub fn is_within(&self, prefix: &Self) -> bool {
        let prefix = prefix.as_str();
        prefix == "/" || self.0.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl fmt::Display for Lfn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The path of a request: a logical file name, and the opaque data (CGI) after its first `?`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RequestPath {
    pub lfn: Lfn,
    /// `key=value&…` without a leading `?` or `&`; empty when there is none. May hold secrets: never log it.
    pub cgi: String,
    /// Whether the path ends with a slash, so that it can name a directory only.
    pub is_of_directory: bool,
}

impl RequestPath {
    /// Parses a request's payload: at most one trailing NUL is dropped, the first `?` ends the path.
    ///
    /// # Errors
    /// See [`LfnError`].
    pub fn parse(payload: &[u8]) -> Result<Self, LfnError> {
        let payload = payload.strip_suffix(b"\0").unwrap_or(payload);
        let text = std::str::from_utf8(payload).map_err(|_| LfnError::NotUtf8)?;
        let (path, cgi) = text.split_once('?').unwrap_or((text, ""));
        if cgi.contains('\0') {
            return Err(LfnError::Nul);
        }
        let is_of_directory = path.ends_with('/') || path.ends_with("/.");
        Ok(Self { lfn: Lfn::parse(path)?, cgi: cgi.trim_start_matches('&').to_owned(), is_of_directory })
    }

    /// The value of a CGI key, as written.
    pub fn cgi_value(&self, key: &str) -> Option<&str> {
        self.cgi
            .split('&')
            .find_map(|pair| pair.split_once('=').filter(|(name, _)| *name == key).map(|(_, value)| value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_squeezed_and_checked() {
        assert_eq!(Lfn::parse("//a/./b//c/").unwrap().as_str(), "/a/b/c");
        assert_eq!(Lfn::parse("///").unwrap().as_str(), "/");
        assert_eq!(Lfn::parse("/a b%20ü").unwrap().as_str(), "/a b%20ü");
        assert_eq!(Lfn::parse("a"), Err(LfnError::Relative));
        assert_eq!(Lfn::parse("/a/../b"), Err(LfnError::Climbs));
        assert_eq!(Lfn::parse("/a\0b"), Err(LfnError::Nul));
        assert_eq!(Lfn::parse(""), Err(LfnError::Missing));
        assert!(Lfn::parse(&format!("/{}", "n".repeat(255))).is_ok());
        assert_eq!(Lfn::parse(&format!("/{}", "n".repeat(256))), Err(LfnError::TooLong));
    }

    #[test]
    fn request_paths_split_at_the_first_question_mark() {
        let path = RequestPath::parse(b"/store/f?&a=1&b=x?y\0").unwrap();
        assert_eq!(path.lfn.as_str(), "/store/f");
        assert_eq!(path.cgi_value("a"), Some("1"));
        assert_eq!(path.cgi_value("b"), Some("x?y"));
        assert_eq!(RequestPath::parse(b"/a\0\0"), Err(LfnError::Nul));
        for (path, is_of_directory) in [("/a", false), ("/a/?b=/", true), ("/a/.\0", true), ("/a.", false), ("/", true)]
        {
            assert_eq!(RequestPath::parse(path.as_bytes()).unwrap().is_of_directory, is_of_directory, "{path}");
        }
    }

    #[test]
    fn prefixes_end_at_component_boundaries() {
        let store = Lfn::parse("/store").unwrap();
        assert!(Lfn::parse("/store/a").unwrap().is_within(&store));
        assert!(!Lfn::parse("/storeroom/a").unwrap().is_within(&store));
        assert!(Lfn::parse("/x").unwrap().is_within(&Lfn::parse("/").unwrap()));
    }
}
