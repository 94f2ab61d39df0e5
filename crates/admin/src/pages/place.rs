//! The pages, and the kinds of their viewers.

/// A page, by its path.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Place {
    Overview,
    Files,
    File,
    Origins,
    Clients,
    Disks,
    Popularity,
    Efficiency,
    Jobs,
    Configuration,
}

impl Place {
    pub(super) const ALL: [Self; 10] = [
        Self::Overview,
        Self::Files,
        Self::File,
        Self::Origins,
        Self::Clients,
        Self::Disks,
        Self::Popularity,
        Self::Efficiency,
        Self::Jobs,
        Self::Configuration,
    ];

    pub(super) const fn path(self) -> &'static str {
        match self {
            Self::Overview => "/",
            Self::Files => "/files",
            Self::File => "/file",
            Self::Origins => "/origins",
            Self::Clients => "/clients",
            Self::Disks => "/disks",
            Self::Popularity => "/popularity",
            Self::Efficiency => "/efficiency",
            Self::Jobs => "/jobs",
            Self::Configuration => "/configuration",
        }
    }

    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Files => "Files",
            Self::File => "File",
            Self::Origins => "Origins",
            Self::Clients => "Clients",
            Self::Disks => "Disks",
            Self::Popularity => "Popularity",
            Self::Efficiency => "Job efficiency",
            Self::Jobs => "Jobs",
            Self::Configuration => "Configuration",
        }
    }

    /// Whether it names files, users or paths of the machine.
    pub(super) const fn needs_login(self) -> bool {
        match self {
            Self::Overview | Self::Origins | Self::Disks => false,
            Self::Files | Self::File | Self::Clients | Self::Jobs | Self::Configuration => true,
            Self::Popularity | Self::Efficiency => true,
        }
    }
}

/// A visitor of a page.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Viewer {
    /// There is no token, so no login.
    CannotLogIn,
    Anonymous,
    LoggedIn,
}
