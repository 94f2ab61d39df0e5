//! Which servers have a file.

use super::{ReplyTo, ResponseError};
use crate::code::Status;
use crate::wire::{put_text, until_nul};
use forebay_types::Endpoint;

/// A server that has a file, or could have it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Location {
    pub kind: LocationKind,
    pub is_writable: bool,
    pub endpoint: Endpoint,
}

/// The kind of server that a location names.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum LocationKind {
    /// A data server that has the file at hand.
    Server,
    /// A data server that must stage the file first.
    PendingServer,
    /// A manager below which the file is.
    Manager,
    /// A manager below which the file must be staged.
    PendingManager,
}

impl LocationKind {
    const ALL: [(char, Self); 4] =
        [('S', Self::Server), ('s', Self::PendingServer), ('M', Self::Manager), ('m', Self::PendingManager)];

    const fn letter(self) -> char {
        match self {
            Self::Server => 'S',
            Self::PendingServer => 's',
            Self::Manager => 'M',
            Self::PendingManager => 'm',
        }
    }
}

impl Location {
    /// Parses the reply to a locate.
    ///
    /// # Errors
    /// When it names no server, or one in a form that is not understood.
    pub fn parse_all(body: &[u8]) -> Result<Vec<Self>, ResponseError> {
        const MALFORMED: ResponseError = ResponseError::Malformed { what: "list of locations" };
        let text = std::str::from_utf8(until_nul(body)).map_err(|_| MALFORMED)?;
        let locations: Option<Vec<Self>> = text.split_ascii_whitespace().map(Self::parse).collect();
        locations.filter(|locations| !locations.is_empty()).ok_or(MALFORMED)
    }

    fn parse(item: &str) -> Option<Self> {
        let mut letters = item.chars();
        let letter = letters.next()?;
        let (_, kind) = LocationKind::ALL.into_iter().find(|(known, _)| *known == letter)?;
        let is_writable = match letters.next()? {
            'r' => false,
            'w' => true,
            _ => return None,
        };
        Some(Self { kind, is_writable, endpoint: letters.as_str().parse().ok()? })
    }
}

impl ReplyTo {
    /// Appends the reply to a locate. The client connects to what is listed, so it must be able to.
    pub fn locate(self, locations: &[Location], out: &mut Vec<u8>) {
        self.frame(Status::OK, out, |out| {
            for (index, location) in locations.iter().enumerate() {
                let separator = if index == 0 { "" } else { " " };
                let access = if location.is_writable { 'w' } else { 'r' };
                put_text(out, format_args!("{separator}{}{access}{}", location.kind.letter(), location.endpoint));
            }
            out.push(0);
        });
    }
}
