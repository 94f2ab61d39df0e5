//! The end of a data connection.

use forebay_dcap_proto::DataError;
use forebay_front::{DeliveryError, Failure};
use forebay_types::Side;
use std::io;

/// Why a data connection ends.
#[derive(Debug, thiserror::Error)]
pub(crate) enum End {
    #[error("the client closed the file")]
    Closed,
    #[error("the client closed the connection")]
    Left,
    #[error("the server stops")]
    Server,
    #[error("the client did not complete a request in time")]
    Slow,
    #[error("it cannot be read from: {0}")]
    Input(#[from] io::Error),
    #[error("a request was refused: {0}")]
    Request(#[from] DataError),
    #[error("a read failed: {}", .0.text)]
    Read(Failure),
    #[error(transparent)]
    Delivery(#[from] DeliveryError),
}

impl End {
    pub(crate) const fn side(&self) -> Side {
        match self {
            Self::Closed | Self::Left | Self::Slow | Self::Input(_) | Self::Request(_) => Side::Client,
            Self::Server => Side::Internal,
            Self::Read(failure) => failure.side,
            Self::Delivery(error) => error.side(),
        }
    }

    /// Whether the same would happen again if the client repeated its request.
    pub(crate) fn is_repeated(&self) -> bool {
        match self {
            Self::Read(_) | Self::Request(_) => true,
            Self::Delivery(error) => error.side() != Side::Client,
            Self::Closed | Self::Left | Self::Server | Self::Slow | Self::Input(_) => false,
        }
    }
}
