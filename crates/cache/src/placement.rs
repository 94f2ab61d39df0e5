//! Placement of files: the disk a new file goes to, and the order in which disks are searched.
//!
//! Weighted rendezvous hashing: each disk draws a number for the key, the larger its weight the better, and the best one has
//! the file. A disk that is added or taken away moves only the files that are, or were, its own.

/// One disk as a place for a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Identifies the disk, whatever its position among the others.
    pub seed: u64,
    /// Its share of the files, relative to the others'. Not positive: no share.
    pub weight: f64,
}

/// A number that stands for `bytes`, the same in every version of the program (FNV-1a, then mixed).
pub fn placement_hash(bytes: &[u8]) -> u64 {
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    mixed(hash)
}

/// Positions of the candidates, the best place for the key of `hash` first. Candidates without weight come last.
pub fn placement_order(hash: u64, candidates: &[Candidate]) -> Vec<usize> {
    let mut drawn: Vec<(f64, usize)> =
        candidates.iter().enumerate().map(|(position, candidate)| (draw(hash, candidate), position)).collect();
    drawn.sort_by(|(one, one_position), (other, other_position)| {
        one.total_cmp(other).then(one_position.cmp(other_position))
    });
    drawn.into_iter().map(|(_, position)| position).collect()
}

/// The weight of a disk for new files: its configured weight times the room it has left, but never nothing, so that disks that
/// are all full still share what comes.
pub fn weight_for_new(weight: u32, free_bytes: u64, total_bytes: u64) -> f64 {
    let room = free_bytes.max(total_bytes / FREE_SHARE_MIN).max(1);
    f64::from(weight) * room as f64
}

/// A disk with less than one part in this many free is taken to have that much.
const FREE_SHARE_MIN: u64 = 100;

/// The number that a candidate draws for a key: exponentially distributed with its weight as the rate, so that each wins in proportion to
/// its weight. Small is good.
fn draw(hash: u64, candidate: &Candidate) -> f64 {
    if candidate.weight <= 0.0 {
        return f64::INFINITY;
    }
    let bits = mixed(hash ^ mixed(candidate.seed)) >> 11;
    // Between 0 and 1, and neither of them.
    let uniform = (bits as f64 + 0.5) / (1_u64 << 53) as f64;
    -uniform.ln() / candidate.weight
}

/// Spreads what distinguishes numbers over all of their bits (the finalizer of MurmurHash3).
const fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let number = (number ^ (number >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ (number >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: u32 = 20_000;

    fn hashes() -> impl Iterator<Item = u64> {
        (0..KEYS).map(|number| placement_hash(format!("/store/file-{number}").as_bytes()))
    }

    fn disks(weights: &[f64]) -> Vec<Candidate> {
        let seed = |position: usize| placement_hash(format!("/disk/{position}").as_bytes());
        weights.iter().enumerate().map(|(position, &weight)| Candidate { seed: seed(position), weight }).collect()
    }

    fn shares(weights: &[f64]) -> Vec<f64> {
        let disks = disks(weights);
        let mut counts = vec![0_u32; disks.len()];
        for hash in hashes() {
            counts[placement_order(hash, &disks)[0]] += 1;
        }
        counts.into_iter().map(|count| f64::from(count) / f64::from(KEYS)).collect()
    }

    #[test]
    fn each_disk_gets_its_share() {
        for weights in [vec![1.0, 1.0], vec![1.0, 3.0], vec![5.0, 0.0, 3.0, 2.0], vec![0.01, 0.01, 0.02]] {
            let sum: f64 = weights.iter().sum();
            for (share, weight) in shares(&weights).iter().zip(&weights) {
                assert!((share - weight / sum).abs() < 0.02, "{weights:?}: {share} instead of {}", weight / sum);
            }
        }
    }

    #[test]
    fn a_new_disk_takes_files_and_moves_no_others() {
        let before = disks(&[1.0, 1.0]);
        let after = disks(&[1.0, 1.0, 1.0]);
        for hash in hashes() {
            let old = placement_order(hash, &before)[0];
            let new = placement_order(hash, &after)[0];
            assert!(new == old || new == 2, "a file moved from {old} to {new}");
        }
    }

    #[test]
    fn the_order_of_the_disks_in_the_configuration_does_not_matter() {
        let disks = disks(&[1.0, 2.0, 3.0]);
        let reversed: Vec<Candidate> = disks.iter().rev().copied().collect();
        for hash in hashes().take(100) {
            let seeds = |order: Vec<usize>, disks: &[Candidate]| -> Vec<u64> {
                order.into_iter().map(|position| disks[position].seed).collect()
            };
            assert_eq!(
                seeds(placement_order(hash, &disks), &disks),
                seeds(placement_order(hash, &reversed), &reversed)
            );
        }
    }

    #[test]
    fn hashes_are_stable() {
        // Files would be looked for in vain first, were they to change.
        assert_eq!(placement_hash(b""), 0xefd0_1f60_ba99_2926);
        assert_eq!(placement_hash(b"/store/a"), placement_hash(b"/store/a"));
        assert_ne!(placement_hash(b"/store/a"), placement_hash(b"/store/b"));
    }

    #[test]
    fn room_counts_and_no_disk_is_without_any() {
        assert!(weight_for_new(1, 500, 1000) < weight_for_new(1, 600, 1000));
        assert!(weight_for_new(2, 500, 1000) > weight_for_new(1, 600, 1000));
        assert!(weight_for_new(1, 0, 1000) > 0.0);
        assert!(weight_for_new(1, 0, 0) > 0.0);
    }
}
