//! Loops over one row, compiled for the widest vectors the processor has.

use pulp::Arch;

/// Partial sums kept side by side, so that a sum vectorises with a fixed order.
pub(super) const LANES: usize = 32;

/// Runs `work` compiled for this processor. What it calls must be inlined into it to profit.
#[inline(always)]
pub(super) fn vectorised<R>(work: impl FnOnce() -> R) -> R {
    struct Task<F>(F);
    impl<R, F: FnOnce() -> R> pulp::NullaryFnOnce for Task<F> {
        type Output = R;
        #[inline(always)]
        fn call(self) -> R {
            (self.0)()
        }
    }
    Arch::new().dispatch(Task(work))
}

/// e^x to 2 units in the last place; 0 below −87, NaN stays NaN (Cephes' polynomial after reduction by ln 2).
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    /// 1.5 · 2²³: adding it rounds to an integer, which is then in the low bits.
    const ROUND: f32 = 12_582_912.0;
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let x = x.clamp(-87.3, 88.3);
    let rounded = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = rounded - ROUND;
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, x));
    let mut p = 1.987_569_1e-4_f32;
    p = p.mul_add(r, 1.398_199_9e-3);
    p = p.mul_add(r, 8.333_452e-3);
    p = p.mul_add(r, 4.166_579_6e-2);
    p = p.mul_add(r, 1.666_666_5e-1);
    p = p.mul_add(r, 5.0e-1);
    let fraction = p.mul_add(r * r, r + 1.0);
    let power = rounded.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23;
    fraction * f32::from_bits(power)
}

/// Σ a·b, of slices of equal length.
#[inline(always)]
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    let (chunks_a, chunks_b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let mut rest = 0.0;
    for (a, b) in chunks_a.remainder().iter().zip(chunks_b.remainder()) {
        rest = a.mul_add(*b, rest);
    }
    for (a, b) in chunks_a.zip(chunks_b) {
        for ((sum, a), b) in lanes.iter_mut().zip(a).zip(b) {
            *sum = a.mul_add(*b, *sum);
        }
    }
    lanes.iter().sum::<f32>() + rest
}

/// Σ x.
#[inline(always)]
pub(super) fn sum(x: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    let chunks = x.chunks_exact(LANES);
    let rest: f32 = chunks.remainder().iter().sum();
    for chunk in chunks {
        for (sum, value) in lanes.iter_mut().zip(chunk) {
            *sum += value;
        }
    }
    lanes.iter().sum::<f32>() + rest
}

/// max x, ignoring NaN (which a sum then finds); −∞ for none.
#[inline(always)]
pub(super) fn max(x: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let mut chunks = x.chunks_exact(LANES);
    for chunk in &mut chunks {
        for (peak, value) in lanes.iter_mut().zip(chunk) {
            *peak = if *value > *peak { *value } else { *peak };
        }
    }
    lanes.iter().chain(chunks.remainder()).copied().fold(f32::NEG_INFINITY, f32::max)
}

/// Σ x², in f64 from f32 sums of short runs.
pub(super) fn sum_of_squares(x: &[f32]) -> f64 {
    vectorised(
        #[inline(always)]
        || x.chunks(1024).map(|run| f64::from(dot(run, run))).sum(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponentials_are_accurate() {
        for step in -8700..=8800 {
            let x = step as f32 / 100.0;
            let (actual, expected) = (f64::from(exp(x)), f64::from(x).exp());
            assert!((actual / expected - 1.0).abs() < 3e-7, "{x}: {actual} instead of {expected}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(f32::NEG_INFINITY) < 2e-38);
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn sums_cover_every_value() {
        for length in [0, 1, 31, 32, 33, 100] {
            let x: Vec<f32> = (0..length).map(|i| i as f32).collect();
            let expected = (0..length).sum::<usize>() as f32;
            assert_eq!(sum(&x), expected);
            assert_eq!(dot(&x, &vec![1.0; length]), expected);
            assert_eq!(max(&x), if length == 0 { f32::NEG_INFINITY } else { length as f32 - 1.0 });
        }
        assert!(sum(&[1.0, f32::NAN]).is_nan());
    }
}
