//! Numbers drawn by chance, the same ones for the same seed.

/// A generator of random numbers (`SplitMix64`): small, and good enough to draw sizes and times.
#[derive(Clone, Debug)]
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) const fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// From 0, included, to 1, excluded.
    pub(crate) const fn fraction(&mut self) -> f64 {
        (self.number() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number from 0 to below `end`, which is not 0.
    pub(crate) const fn below(&mut self, end: u64) -> u64 {
        self.number() % end
    }

    pub(crate) const fn happens(&mut self, probability: f64) -> bool {
        self.fraction() < probability
    }

    /// Log-normal: half of the numbers are below `median`; `sigma` is the standard deviation of their logarithm.
    pub(crate) fn log_normal(&mut self, median: f64, sigma: f64) -> f64 {
        // Box and Muller's transform of two uniform numbers into a normal one.
        let radius = (-2.0 * (1.0 - self.fraction()).ln()).sqrt();
        median * (sigma * radius * (std::f64::consts::TAU * self.fraction()).cos()).exp()
    }

    /// Exponential with this mean: the time to the next of events that are independent of each other.
    pub(crate) fn exponential(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.fraction()).ln()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distributions_have_their_means_and_medians() {
        let mut chance = Chance::new(1);
        let count = 20_000_u32;
        let mean = (0..count).map(|_| chance.exponential(3.0)).sum::<f64>() / f64::from(count);
        assert!((mean - 3.0).abs() < 0.1, "{mean}");
        let below: u32 = (0..count).map(|_| u32::from(chance.log_normal(5.0, 1.5) < 5.0)).sum();
        assert!((f64::from(below) / f64::from(count) - 0.5).abs() < 0.02, "{below}");
        assert!((0..count).all(|_| chance.below(7) < 7 && (0.0..1.0).contains(&chance.fraction())));
        assert_eq!(Chance::new(9).number(), Chance::new(9).number());
    }
}
