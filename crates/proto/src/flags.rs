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
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether any bit of `other` is set.
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// These bits and those of `other`.
            pub const fn with(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// These bits without those of `other`.
            pub const fn without(self, other: Self) -> Self {
                Self(self.0 & !other.0)
            }
        }
    };
}

flags! {
    /// Roles and features of a server, in its reply to the protocol request.
    ServerFlags(u32) {
        IS_SERVER = 0x0000_0001;
        /// A redirector. Some servers set both roles: test this one first.
        IS_MANAGER = 0x0000_0002;
        ATTR_CACHE = 0x0000_0080;
        ATTR_META = 0x0000_0100;
        ATTR_PROXY = 0x0000_0200;
        ATTR_SUPERVISOR = 0x0000_0400;
        SUPPORTS_POSC = 0x0010_0000;
        SUPPORTS_PAGES = 0x0020_0000;
        TLS_DATA = 0x0100_0000;
        TLS_LOGIN = 0x0400_0000;
        TLS_SESSION = 0x0800_0000;
        TLS_TPC = 0x1000_0000;
        GOTO_TLS = 0x4000_0000;
        HAVE_TLS = 0x8000_0000;
    }
}

flags! {
    /// Options of a client's protocol request.
    ProtocolRequestFlags(u8) {
        SECURITY = 0x01;
        ABLE_TLS = 0x02;
        WANT_TLS = 0x04;
        BIND_INTERFACES = 0x08;
    }
}

flags! {
    /// Features of a client, declared at login.
    Abilities(u8) {
        FULL_URL = 0x01;
        /// Accepts redirects to other protocols (includes full URLs).
        MULTI_PROTOCOL = 0x03;
        /// Accepts a redirect in reply to a read.
        READ_REDIRECT = 0x04;
        IPV4_AND_IPV6 = 0x08;
        ONLY_PRIVATE_IPV4 = 0x10;
        ONLY_PRIVATE_IPV6 = 0x20;
        LOCAL_FILE = 0x40;
        REDIRECT_FLAGS = 0x80;
    }
}

flags! {
    OpenOptions(u16) {
        COMPRESS = 0x0001;
        /// Truncate the file if it exists, create it otherwise.
        DELETE = 0x0002;
        FORCE = 0x0004;
        NEW = 0x0008;
        READ = 0x0010;
        UPDATE = 0x0020;
        ASYNC = 0x0040;
        REFRESH = 0x0080;
        MAKE_PATH = 0x0100;
        APPEND = 0x0200;
        RETURN_STAT = 0x0400;
        REPLICA = 0x0800;
        POSC = 0x1000;
        NO_WAIT = 0x2000;
        SEQUENTIAL = 0x4000;
        WRITE_ONLY = 0x8000;
    }
}

impl OpenOptions {
    const WRITES: Self = Self::DELETE.with(Self::NEW).with(Self::UPDATE).with(Self::APPEND).with(Self::WRITE_ONLY);

    /// Whether this open may change the file or the name space. No open bit at all means reading.
    pub const fn is_write(self) -> bool {
        self.intersects(Self::WRITES)
    }
}

flags! {
    /// Options of a directory listing.
    DirlistOptions(u8) {
        ONLINE = 0x01;
        STAT = 0x02;
        /// With the checksum of each name; implies its stat.
        CHECKSUM = 0x04;
        STAT_EXTENDED = 0x08;
    }
}

flags! {
    LocateOptions(u16) {
        UNIQUE_HOSTS = 0x0001;
        FORCE = 0x0004;
        REFRESH = 0x0080;
        PREFER_NAMES = 0x0100;
        FOR_DIRLIST = 0x0400;
        NO_WAIT = 0x2000;
    }
}

flags! {
    /// The flags field of a stat text.
    StatFlags(u32) {
        EXECUTABLE = 1;
        DIRECTORY = 2;
        OTHER = 4;
        /// Must be staged before it can be read.
        OFFLINE = 8;
        READABLE = 16;
        WRITABLE = 32;
        /// The server is a cache and holds the file.
        CACHED = 512;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_bits_contain_each_other() {
        for bits in [0x0002, 0x0008, 0x0020, 0x0200, 0x8000, 0x0462, 0x1462] {
            assert!(OpenOptions(bits).is_write(), "{bits:#x}");
        }
        for bits in [0x0000, 0x0010, 0x0450, 0x4450, 0x1000 | 0x0400] {
            assert!(!OpenOptions(bits).is_write(), "{bits:#x}");
        }
        assert!(Abilities(0xdf).contains(Abilities::MULTI_PROTOCOL));
        assert!(!Abilities(0xdd).contains(Abilities::MULTI_PROTOCOL));
        assert!(Abilities(0xdd).contains(Abilities::FULL_URL));
    }
}
