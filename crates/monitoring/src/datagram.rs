//! The header of all datagrams, and datagrams of maps.

/// Longest datagram, in bytes: the largest that XRootD servers send.
pub const DATAGRAM_LEN_MAX: usize = 65_472;

/// Length of the common header.
pub(crate) const HEADER_LEN: usize = 8;

/// The server that sends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Sender {
    /// Its start, in seconds of the Unix epoch.
    pub start: u32,
    /// Its number, of which 48 bits are used.
    pub id: u64,
}

impl Sender {
    /// The number with a letter in its top byte.
    pub(crate) const fn marked_id(self, mark: u8) -> u64 {
        (mark as u64) << 56 | self.id & 0xffff_ffff_ffff
    }

    /// Writes the header of a finished datagram into its first bytes.
    pub(crate) fn seal(self, datagram: &mut [u8], code: u8, sequence: u8) {
        let len = u16::try_from(datagram.len()).expect("datagrams are shorter than DATAGRAM_LEN_MAX");
        let fields = [&[code, sequence][..], &len.to_be_bytes(), &self.start.to_be_bytes()].concat();
        for (byte, value) in datagram.iter_mut().zip(fields) {
            *byte = value;
        }
    }
}

/// A map: what `id` stands for. The code is `=` for the server itself, with the number 0, and `u` for a user. A text that does
/// not fit a datagram is cut.
#[must_use]
pub fn map(sender: Sender, code: u8, sequence: u8, id: u32, text: &str) -> Vec<u8> {
    let mut datagram = vec![0; HEADER_LEN];
    datagram.extend(id.to_be_bytes());
    datagram.extend(text.bytes().take(DATAGRAM_LEN_MAX - datagram.len()));
    sender.seal(&mut datagram, code, sequence);
    datagram
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maps of a cache of XRootD 5.5.3: its identity, and a user of xrdcp.
    const STOCK: [&str; 2] = [
        "3d00005f6b06cf8c000000003d2f6461656d6f6e2e31303734353a31333735303736363539303937393240766d0a26736974653d26706f72743d313530303426696e73743d616e6f6e2670676d3d78726f6f7464267665723d76352e352e33",
        "750100586b06cf8c0000000178726f6f742f726f6f742e31303737323a313337353037363635393039373932405b3a3a666666663a3132372e302e302e315d0a26523d76352e352e3326783d787264637026793d26493d34",
    ];

    #[test]
    fn maps_equal_those_of_xcache() {
        let sender = Sender { start: 0x6b06_cf8c, id: 0x7d0f_ff94_9820 };
        let server = "=/daemon.10745:137507665909792@vm\n&site=&port=15004&inst=anon&pgm=xrootd&ver=v5.5.3";
        let user = "xroot/root.10772:137507665909792@[::ffff:127.0.0.1]\n&R=v5.5.3&x=xrdcp&y=&I=4";
        let maps = [map(sender, b'=', 0, 0, server), map(sender, b'u', 1, 1, user)];
        let hex = maps.map(|map| map.iter().map(|byte| format!("{byte:02x}")).collect::<String>());
        assert_eq!(hex, STOCK);
    }

    #[test]
    fn a_map_has_its_length_in_the_header_and_is_cut_at_the_limit() {
        let sender = Sender { start: 0x6b01_ec3c, id: 5 };
        let short = map(sender, b'u', 9, 7, "xroot/a.1:5@h\n");
        assert_eq!(short, b"u\x09\x00\x1a\x6b\x01\xec\x3c\x00\x00\x00\x07xroot/a.1:5@h\n");
        assert_eq!(map(sender, b'u', 9, 7, &"x".repeat(70_000)).len(), DATAGRAM_LEN_MAX);
    }
}
