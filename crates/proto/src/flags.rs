//! Sets of named bits.

/// Declares a set of named bits: a newtype over an integer that keeps unknown bits.
macro_rules! flags {
    ($(#[$doc:meta])* $name:ident($bits:ty) { $($(#[$flag_doc:meta])* $flag:ident = $value:expr;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
        pub struct $name(pub $bits);

        impl $name {
            $($(#[$flag_doc])* pub const $flag: Self = Self($value);)*

            /// Whether every bit of `other` is set.
            #[must_use]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether any bit of `other` is set.
            #[must_use]
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// These bits and those of `other`.
            #[must_use]
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// These bits without those of `other`.
            #[must_use]
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }
        }
    };
}

flags! {
    /// What a server says of itself in its reply to the protocol request.
    ServerFlags(u32) {
        /// A data server.
        IS_SERVER = 0x0000_0001;
        /// A redirector. Some servers set both roles: test this one first.
        IS_MANAGER = 0x0000_0002;
        /// A cache.
        ATTR_CACHE = 0x0000_0080;
        /// A meta manager.
        ATTR_META = 0x0000_0100;
        /// A proxy.
        ATTR_PROXY = 0x0000_0200;
        /// A supervisor.
        ATTR_SUPERVISOR = 0x0000_0400;
        /// Persist on successful close works.
        SUPPORTS_POSC = 0x0010_0000;
        /// `pgread` and `pgwrite` work.
        SUPPORTS_PAGES = 0x0020_0000;
        /// Bound streams must use TLS.
        TLS_DATA = 0x0100_0000;
        /// TLS before login.
        TLS_LOGIN = 0x0400_0000;
        /// TLS after login.
        TLS_SESSION = 0x0800_0000;
        /// Third-party copies need TLS.
        TLS_TPC = 0x1000_0000;
        /// TLS starts right behind this reply.
        GOTO_TLS = 0x4000_0000;
        /// TLS is configured.
        HAVE_TLS = 0x8000_0000;
    }
}

flags! {
    /// What a client asks for in its protocol request.
    ProtocolRequestFlags(u8) {
        /// Return the signing requirements.
        SECURITY = 0x01;
        /// The client can do TLS.
        ABLE_TLS = 0x02;
        /// The client wants TLS now.
        WANT_TLS = 0x04;
        /// Return the interfaces for parallel streams.
        BIND_INTERFACES = 0x08;
    }
}

flags! {
    /// What a client can do, as it says at login.
    Abilities(u8) {
        /// Accepts redirects that are a full URL.
        FULL_URL = 0x01;
        /// Accepts redirects to other protocols (includes full URLs).
        MULTI_PROTOCOL = 0x03;
        /// Accepts a redirect in reply to a read.
        READ_REDIRECT = 0x04;
        /// Dual stack.
        IPV4_AND_IPV6 = 0x08;
        /// Has only private IPv4 addresses.
        ONLY_PRIVATE_IPV4 = 0x10;
        /// Has only private IPv6 addresses.
        ONLY_PRIVATE_IPV6 = 0x20;
        /// Accepts redirects to `file://`.
        LOCAL_FILE = 0x40;
        /// Accepts flags in a negative redirect port.
        REDIRECT_FLAGS = 0x80;
    }
}

flags! {
    /// Options of an open.
    OpenOptions(u16) {
        /// Return the compression fields.
        COMPRESS = 0x0001;
        /// Truncate the file if it exists, create it otherwise.
        DELETE = 0x0002;
        /// Ignore locks.
        FORCE = 0x0004;
        /// Create the file; fail if it exists.
        NEW = 0x0008;
        /// Open for reading.
        READ = 0x0010;
        /// Open for reading and writing.
        UPDATE = 0x0020;
        /// The client processes answers asynchronously.
        ASYNC = 0x0040;
        /// Do not trust a cached location.
        REFRESH = 0x0080;
        /// Make missing directories.
        MAKE_PATH = 0x0100;
        /// Open for appending.
        APPEND = 0x0200;
        /// Return the stat text.
        RETURN_STAT = 0x0400;
        /// The file is a replica.
        REPLICA = 0x0800;
        /// Persist on successful close.
        POSC = 0x1000;
        /// Do not wait.
        NO_WAIT = 0x2000;
        /// The file will be read sequentially.
        SEQUENTIAL = 0x4000;
        /// Open for writing only.
        WRITE_ONLY = 0x8000;
    }
}

impl OpenOptions {
    const WRITES: Self = Self::DELETE.with(Self::NEW).with(Self::UPDATE).with(Self::APPEND).with(Self::WRITE_ONLY);

    /// Whether this open may change the file or the name space. No open bit at all means reading.
    #[must_use]
    pub const fn is_write(self) -> bool {
        self.intersects(Self::WRITES)
    }
}

flags! {
    /// Options of a directory listing.
    DirlistOptions(u8) {
        /// Only names that are on line.
        ONLINE = 0x01;
        /// With the stat of each name.
        STAT = 0x02;
        /// With the checksum of each name; implies its stat.
        CHECKSUM = 0x04;
        /// With the extended stat of each name.
        STAT_EXTENDED = 0x08;
    }
}

flags! {
    /// Options of a locate.
    LocateOptions(u16) {
        /// Name each host once.
        UNIQUE_HOSTS = 0x0001;
        /// Ignore locks.
        FORCE = 0x0004;
        /// Do not trust a cached location.
        REFRESH = 0x0080;
        /// Host names instead of addresses.
        PREFER_NAMES = 0x0100;
        /// For a directory listing.
        FOR_DIRLIST = 0x0400;
        /// Do not wait.
        NO_WAIT = 0x2000;
    }
}

flags! {
    /// The flags field of a stat text.
    StatFlags(u32) {
        /// May be executed or searched.
        EXECUTABLE = 1;
        /// A directory.
        DIRECTORY = 2;
        /// Neither a file nor a directory.
        OTHER = 4;
        /// Must be staged before it can be read.
        OFFLINE = 8;
        /// May be read.
        READABLE = 16;
        /// May be written.
        WRITABLE = 32;
        /// The server is a cache and holds the file.
        CACHED = 512;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_writing_bit_makes_an_open_a_write() {
        for bits in [0x0002, 0x0008, 0x0020, 0x0200, 0x8000, 0x0462, 0x1462] {
            assert!(OpenOptions(bits).is_write(), "{bits:#x}");
        }
        for bits in [0x0000, 0x0010, 0x0450, 0x4450, 0x1000 | 0x0400] {
            assert!(!OpenOptions(bits).is_write(), "{bits:#x}");
        }
    }

    #[test]
    fn multi_protocol_includes_full_urls() {
        assert!(Abilities(0xdf).contains(Abilities::MULTI_PROTOCOL));
        assert!(!Abilities(0xdd).contains(Abilities::MULTI_PROTOCOL));
        assert!(Abilities(0xdd).contains(Abilities::FULL_URL));
    }
}
