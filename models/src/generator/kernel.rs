//! Decode attention on the host: one new token against its row's cache.

use super::cache::LayerKv;

/// Where a key/value head lies in a cache row, and how many query heads share it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Head {
    /// Query heads per key/value head.
    pub(super) group: usize,
    /// Values per cached token.
    pub(super) width: usize,
    /// The head's first value among them.
    pub(super) start: usize,
    pub(super) head_dim: usize,
}

/// Softmax attention of the query heads that share one key/value head.
///
/// # Shapes
/// - `queries`, `mixed`: `[group, head_dim]`
/// - `pieces`: runs of the cache, in order of position
pub(super) fn attend_group(head: Head, queries: &[f32], pieces: [&LayerKv; 2], mixed: &mut [f32]) {
    pulp::Arch::new().dispatch(AttendGroup { head, queries, pieces, mixed });
}

/// [`attend_group`] as a task that is compiled once for each instruction set and chosen at run time. A closure would not
/// do: it is too large to be inlined into each, and what is not inlined is compiled for the oldest processor.
struct AttendGroup<'a> {
    head: Head,
    queries: &'a [f32],
    pieces: [&'a LayerKv; 2],
    mixed: &'a mut [f32],
}

impl pulp::NullaryFnOnce for AttendGroup<'_> {
    type Output = ();

    #[inline(always)]
    fn call(self) {
        attend_group_inlined(self.head, self.queries, self.pieces, self.mixed);
    }
}

#[inline(always)]
fn attend_group_inlined(head: Head, queries: &[f32], pieces: [&LayerKv; 2], mixed: &mut [f32]) {
    let Head { group, width, start, head_dim } = head;
    let tokens: usize = pieces.iter().map(|piece| piece.keys.len() / width).sum();
    let scale = (head_dim as f32).powf(-0.5);
    let mut weights = vec![0.0_f32; group * tokens];
    let mut position = 0;
    for piece in pieces {
        for key in piece.keys.chunks_exact(width) {
            let key = &key[start..start + head_dim];
            for (head, query) in queries.chunks_exact(head_dim).enumerate() {
                weights[head * tokens + position] = scale * dot(query, key);
            }
            position += 1;
        }
    }
    for head in weights.chunks_exact_mut(tokens) {
        softmax(head);
    }
    mixed.fill(0.0);
    let mut position = 0;
    for piece in pieces {
        for value in piece.values.chunks_exact(width) {
            let value = &value[start..start + head_dim];
            for (head, mixed) in mixed.chunks_exact_mut(head_dim).enumerate() {
                let weight = weights[head * tokens + position];
                for (sum, v) in mixed.iter_mut().zip(value) {
                    *sum += weight * v;
                }
            }
            position += 1;
        }
    }
}

/// Lanes of partial sums: wide enough for the widest vectors.
const LANES: usize = 16;

#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0_f32; LANES];
    let (a_chunks, b_chunks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f32 = a_chunks.remainder().iter().zip(b_chunks.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in a_chunks.zip(b_chunks) {
        for lane in 0..LANES {
            lanes[lane] += x[lane] * y[lane];
        }
    }
    lanes.iter().sum::<f32>() + rest
}

#[inline(always)]
fn softmax(scores: &mut [f32]) {
    let max = scores.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = exp(*score - max);
        sum += *score;
    }
    let scale = sum.recip();
    for score in scores {
        *score *= scale;
    }
}

/// e^x for x ≤ 0, within 2 ulp and without branches, so that loops over it become vector code.
///
/// x = n·ln 2 + r with |r| ≤ ln 2 / 2; e^r by the polynomial of Cephes' `expf` (Moshier, `single/expf.c`). NaN stays NaN.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // Adding and taking away 1.5·2²³ rounds to the nearest integer.
    const ROUND: f32 = 12_582_912.0;
    // Below it the result is smaller than the smallest normal number.
    const SMALLEST: f32 = -87.0;
    let clamped = if x < SMALLEST { SMALLEST } else { x };
    let n = (clamped * std::f32::consts::LOG2_E + ROUND) - ROUND;
    let r = clamped - n * 0.693_359_4 + n * 2.121_944_4e-4;
    let mut p = 1.987_569_1e-4;
    for coefficient in [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 0.5] {
        p = p * r + coefficient;
    }
    let mantissa = p * r * r + r + 1.0;
    let power = f32::from_bits(((n as i32 + 127) << 23) as u32);
    mantissa * power
}
