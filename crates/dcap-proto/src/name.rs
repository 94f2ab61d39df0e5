//! The names of files.

use percent_encoding::percent_decode_str;

/// Why a name cannot be served.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NameError {
    /// Clients with a mounted name space of dCache send the identifiers of files.
    #[error("the name is not a dcap:// URL: identifiers of files are not supported")]
    NotUrl,
    #[error("the URL has no path")]
    NoPath,
    /// It would be taken for the beginning of parameters.
    #[error("the path has a question mark: parameters are not supported")]
    Parameters,
}

/// The path in a URL, as `dcap://HOST/percent%20encoded/path`. Clients leave out the port, and encode all bytes but unreserved ones and
/// slashes. The scheme may have a prefix.
///
/// # Errors
/// See [`NameError`].
pub fn path_of(name: &str) -> Result<Vec<u8>, NameError> {
    let (scheme, rest) = name.split_once("://").ok_or(NameError::NotUrl)?;
    if !scheme.ends_with("dcap") {
        return Err(NameError::NotUrl);
    }
    let start = rest.find('/').ok_or(NameError::NoPath)?;
    let path: Vec<u8> = percent_decode_str(rest.get(start..).unwrap_or_default()).collect();
    if path.contains(&b'?') {
        return Err(NameError::Parameters);
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
    use proptest::prelude::*;

    #[test]
    fn paths_are_decoded_once() {
        for (name, expected) in [
            ("dcap://h/f.bin", Ok("/f.bin")),
            ("dcap://h:22125/f", Ok("/f")),
            ("gsidcap://h/dir/a%20file", Ok("/dir/a file")),
            ("dcap://h/root%3A//origin%3A1094//store/x", Ok("/root://origin:1094//store/x")),
            ("dcap://h/a%2520b", Ok("/a%20b")),
            ("dcap://h/%C3%A9", Ok("/é")),
            ("dcap:///f", Ok("/f")),
            ("dcap://h/", Ok("/")),
            ("dcap://h", Err(NameError::NoPath)),
            ("dcap://h/f%3Fa=b", Err(NameError::Parameters)),
            ("000100000000000000001060", Err(NameError::NotUrl)),
            ("http://h/f", Err(NameError::NotUrl)),
        ] {
            assert_eq!(path_of(name), expected.map(|path| path.as_bytes().to_vec()), "{name}");
        }
    }

    proptest! {
        #[test]
        fn encoded_bytes_come_back(bytes in prop::collection::vec(any::<u8>().prop_filter("parameters", |b| *b != b'?'), 0..40)) {
            let name = format!("dcap://h/{}", percent_encode(&bytes, NON_ALPHANUMERIC));
            prop_assert_eq!(path_of(&name).unwrap(), [b"/", bytes.as_slice()].concat());
        }
    }
}
