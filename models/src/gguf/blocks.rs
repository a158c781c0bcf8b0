//! Storage types: blocks of quantised values and their scales, de-quantised to f32.
//!
//! Layouts are those of `ggml-common.h` / `ggml-quants.c` (ggml-org/ggml).

use half::{bf16, f16};

/// How a tensor's values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockKind {
    F32,
    F16,
    Bf16,
    Q4_0,
    Q4_1,
    Q8_0,
    Q4K,
    Q5K,
    Q6K,
}

/// Values per super-block of the K types.
const SUPER: usize = 256;

impl BlockKind {
    pub(super) const KNOWN: &'static str = "F32, F16, BF16, Q4_0, Q4_1, Q8_0, Q4_K, Q5_K, Q6_K";

    pub(super) fn from_id(id: u32) -> Option<Self> {
        Some(match id {
            0 => Self::F32,
            1 => Self::F16,
            2 => Self::Q4_0,
            3 => Self::Q4_1,
            8 => Self::Q8_0,
            12 => Self::Q4K,
            13 => Self::Q5K,
            14 => Self::Q6K,
            30 => Self::Bf16,
            _ => return None,
        })
    }

    /// Values per block and bytes per block.
    fn block(self) -> (usize, usize) {
        match self {
            Self::F32 => (1, 4),
            Self::F16 | Self::Bf16 => (1, 2),
            Self::Q4_0 => (32, 2 + 16),
            Self::Q4_1 => (32, 4 + 16),
            Self::Q8_0 => (32, 2 + 32),
            Self::Q4K => (SUPER, 4 + 12 + SUPER / 2),
            Self::Q5K => (SUPER, 4 + 12 + SUPER / 8 + SUPER / 2),
            Self::Q6K => (SUPER, SUPER / 2 + SUPER / 4 + SUPER / 16 + 2),
        }
    }

    /// Bytes that `elements` values take.
    pub(super) fn byte_len(self, elements: usize) -> Result<usize, String> {
        let (values, bytes) = self.block();
        if !elements.is_multiple_of(values) {
            return Err(format!("has {elements} values, which {self:?} cannot store in blocks of {values}"));
        }
        (elements / values).checked_mul(bytes).ok_or_else(|| format!("has {elements} values, too many"))
    }

    /// De-quantises whole blocks.
    pub(super) fn dequantise(self, raw: &[u8]) -> Vec<f32> {
        let (values, bytes) = self.block();
        let mut out = Vec::with_capacity(raw.len() / bytes * values);
        for block in raw.chunks_exact(bytes) {
            match self {
                Self::F32 => out.push(f32::from_le_bytes([block[0], block[1], block[2], block[3]])),
                Self::F16 => out.push(half(block, 0)),
                Self::Bf16 => out.push(bf16::from_le_bytes([block[0], block[1]]).to_f32()),
                Self::Q4_0 => q4(&mut out, half(block, 0), -8.0 * half(block, 0), &block[2..]),
                Self::Q4_1 => q4(&mut out, half(block, 0), half(block, 2), &block[4..]),
                Self::Q8_0 => {
                    let scale = half(block, 0);
                    out.extend(block[2..].iter().map(|&q| scale * f32::from(q as i8)));
                }
                Self::Q4K => q4_k(&mut out, block),
                Self::Q5K => q5_k(&mut out, block),
                Self::Q6K => q6_k(&mut out, block),
            }
        }
        out
    }
}

fn half(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// 32 values in 16 bytes: low nibbles first, then high ones; value = scale · q + offset.
fn q4(out: &mut Vec<f32>, scale: f32, offset: f32, quants: &[u8]) {
    out.extend(quants.iter().map(|&q| scale * f32::from(q & 15) + offset));
    out.extend(quants.iter().map(|&q| scale * f32::from(q >> 4) + offset));
}

/// Scale and minimum of sub-block `index` (of 8), packed in 6 bits each in 12 bytes.
fn scale_and_min(index: usize, packed: &[u8]) -> (f32, f32) {
    let (scale, min) = if index < 4 {
        (packed[index] & 63, packed[index + 4] & 63)
    } else {
        ((packed[index + 4] & 15) | (packed[index - 4] >> 6 << 4), (packed[index + 4] >> 4) | (packed[index] >> 6 << 4))
    };
    (scale.into(), min.into())
}

fn q4_k(out: &mut Vec<f32>, block: &[u8]) {
    let (scale, min) = (half(block, 0), half(block, 2));
    for (pair, quants) in block[16..].chunks_exact(32).enumerate() {
        for high in 0..2 {
            let (s, m) = scale_and_min(2 * pair + high, &block[4..16]);
            out.extend(quants.iter().map(|&q| scale * s * f32::from(q >> (4 * high) & 15) - min * m));
        }
    }
}

fn q5_k(out: &mut Vec<f32>, block: &[u8]) {
    let (scale, min) = (half(block, 0), half(block, 2));
    let fifth_bits = &block[16..48];
    for (pair, quants) in block[48..].chunks_exact(32).enumerate() {
        for high in 0..2 {
            let sub = 2 * pair + high;
            let (s, m) = scale_and_min(sub, &block[4..16]);
            out.extend(quants.iter().zip(fifth_bits).map(|(&q, &bits)| {
                let value = (q >> (4 * high) & 15) | (bits >> sub & 1) << 4;
                scale * s * f32::from(value) - min * m
            }));
        }
    }
}

fn q6_k(out: &mut Vec<f32>, block: &[u8]) {
    let (low, rest) = block.split_at(SUPER / 2);
    let (high, rest) = rest.split_at(SUPER / 4);
    let scales = &rest[..SUPER / 16];
    let scale = half(rest, SUPER / 16);
    for half in 0..2 {
        let (low, high, scales) = (&low[64 * half..], &high[32 * half..], &scales[8 * half..]);
        for quarter in 0..4 {
            for i in 0..32 {
                let nibble = low[32 * (quarter % 2) + i] >> (4 * (quarter / 2)) & 15;
                let two_bits = high[i] >> (2 * quarter) & 3;
                let value = f32::from(nibble | two_bits << 4) - 32.0;
                out.push(scale * f32::from(scales[2 * quarter + i / 16] as i8) * value);
            }
        }
    }
}
