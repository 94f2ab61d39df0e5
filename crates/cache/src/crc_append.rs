//! CRC-32C of bytes from the CRC-32Cs of their pieces, without a look at the bytes.
//!
//! Appending a piece multiplies the sum so far, a polynomial over two elements, by x to the power of the piece's bits, and
//! adds the piece's own sum. For pieces of one length the product is four look-ups.

/// The polynomial of CRC-32C, lowest power in the highest bit, as all polynomials here.
const POLYNOMIAL: u32 = 0x82f6_3b78;

const ONE: u32 = 1 << 31;

/// Appends pieces of one length to a CRC-32C.
#[derive(Clone, Debug)]
pub struct Crc32cAppend {
    /// The product of each byte of a sum, lowest byte first.
    products: [[u32; 256]; 4],
}

impl Crc32cAppend {
    /// For pieces of `len` bytes.
    #[expect(clippy::indexing_slicing, reason = "the loops end with the arrays; a constant has no other way")]
    pub const fn of_len(len: u64) -> Self {
        let factor = power_of_bytes(len);
        let mut products = [[0; 256]; 4];
        let mut position = 0;
        while position < 4 {
            let mut byte = 0;
            while byte < 256_u32 {
                products[position][byte as usize] = product(factor, byte << (8 * position));
                byte += 1;
            }
            position += 1;
        }
        Self { products }
    }

    /// The CRC-32C of bytes whose sum is `sum`, followed by a piece whose sum is `piece_sum`.
    #[expect(clippy::indexing_slicing, reason = "a byte is an index of 256 elements")]
    pub fn append(&self, sum: u32, piece_sum: u32) -> u32 {
        let [b0, b1, b2, b3] = sum.to_le_bytes().map(usize::from);
        let [p0, p1, p2, p3] = &self.products;
        p0[b0] ^ p1[b1] ^ p2[b2] ^ p3[b3] ^ piece_sum
    }
}

/// The CRC-32C of bytes whose sum is `sum`, followed by a piece of `piece_len` bytes whose sum is `piece_sum`.
pub const fn crc32c_append(sum: u32, piece_sum: u32, piece_len: u64) -> u32 {
    product(power_of_bytes(piece_len), sum) ^ piece_sum
}

/// x to the power of the bits of `len` bytes.
const fn power_of_bytes(len: u64) -> u32 {
    let mut result = ONE;
    // x to the power of eight; squared for each bit of the length.
    let mut square = ONE >> 8;
    let mut rest = len;
    while rest > 0 {
        if rest & 1 == 1 {
            result = product(result, square);
        }
        square = product(square, square);
        rest >>= 1;
    }
    result
}

const fn product(a: u32, b: u32) -> u32 {
    let (mut sum, mut shifted, mut mask) = (0, b, ONE);
    while mask > 0 {
        if a & mask != 0 {
            sum ^= shifted;
        }
        shifted = if shifted & 1 == 1 { (shifted >> 1) ^ POLYNOMIAL } else { shifted >> 1 };
        mask >>= 1;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    static PAGE: Crc32cAppend = Crc32cAppend::of_len(4096);

    #[test]
    fn sums_of_pages_make_the_sum_of_the_whole() {
        let bytes: Vec<u8> = (0..65_536_u32).map(|at| u8::try_from(at * at % 251).unwrap()).collect();
        let joined = bytes.chunks(4096).fold(0, |sum, page| PAGE.append(sum, crc32c::crc32c(page)));
        assert_eq!(joined, crc32c::crc32c(&bytes));
    }

    #[test]
    fn the_check_value_is_made_of_its_parts_and_not_changed_by_empty_ones() {
        assert_eq!(crc32c_append(crc32c::crc32c(b"1234"), crc32c::crc32c(b"56789"), 5), 0xe306_9283);
        assert_eq!(crc32c_append(0x1234_5678, 0, 0), 0x1234_5678);
        assert_eq!(Crc32cAppend::of_len(0).append(0x1234_5678, 0), 0x1234_5678);
    }

    proptest! {
        #[test]
        fn any_two_pieces_make_a_whole(
            first in prop::collection::vec(any::<u8>(), 0..5000),
            second in prop::collection::vec(any::<u8>(), 0..5000),
        ) {
            let whole = crc32c::crc32c(&[first.clone(), second.clone()].concat());
            let first = crc32c::crc32c(&first);
            let piece = crc32c::crc32c(&second);
            let len = second.len() as u64;
            prop_assert_eq!(crc32c_append(first, piece, len), whole);
            prop_assert_eq!(Crc32cAppend::of_len(len).append(first, piece), whole);
        }
    }
}
