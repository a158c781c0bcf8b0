//! Integers of any size, as far as comparing and printing needs them.

use std::cmp::Ordering;

use num_bigint::BigInt;
use num_traits::ToPrimitive as _;

/// Most digits printed in decimal; larger numbers are printed in hexadecimal.
const DECIMAL_BYTES_MAX: usize = 16;

/// An integer in two's complement, little-endian, without superfluous sign bytes (zero is one byte).
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Int(Vec<u8>);

impl Int {
    /// From two's complement bytes, little-endian; empty is zero.
    pub(crate) fn from_le_bytes(bytes: &[u8]) -> Self {
        let mut bytes = bytes.to_vec();
        if bytes.is_empty() {
            bytes.push(0);
        }
        while let [.., before, last] = bytes[..] {
            let superfluous = (last == 0 && before < 0x80) || (last == 0xFF && before >= 0x80);
            if !superfluous {
                break;
            }
            bytes.pop();
        }
        Self(bytes)
    }

    /// The minimal two's complement bytes, little-endian.
    pub(crate) fn as_le_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn is_negative(&self) -> bool {
        self.0.last().is_some_and(|last| *last >= 0x80)
    }

    pub(crate) fn to_i128(&self) -> Option<i128> {
        if self.0.len() > DECIMAL_BYTES_MAX {
            return None;
        }
        let mut bytes = [if self.is_negative() { 0xFF } else { 0 }; 16];
        bytes[..self.0.len()].copy_from_slice(&self.0);
        Some(i128::from_le_bytes(bytes))
    }

    /// The integer a float stands for, if it is one.
    pub(crate) fn from_f64(value: f64) -> Option<Self> {
        if !value.is_finite() || value.fract() != 0.0 {
            return None;
        }
        if value.abs() < 2f64.powi(120) {
            return Some(Self::from(value as i128));
        }
        // Beyond 2^120 every float is its 53-bit significand shifted left.
        let bits = value.to_bits();
        let exponent = ((bits >> 52) & 0x7FF) as usize - 1075;
        let significand = i128::from((bits & ((1 << 52) - 1)) | (1 << 52));
        let shifted = significand << (exponent % 8);
        let signed = if value < 0.0 { -shifted } else { shifted };
        let mut bytes = vec![0; exponent / 8];
        bytes.extend_from_slice(&signed.to_le_bytes());
        Some(Self::from_le_bytes(&bytes))
    }

    /// The nearest float, infinite beyond all floats.
    pub(crate) fn to_f64(&self) -> f64 {
        match self.to_i128() {
            Some(value) => value as f64,
            None => BigInt::from_signed_bytes_le(&self.0).to_f64().unwrap_or(f64::NAN),
        }
    }

    /// From decimal digits with a sign before them, or none.
    pub(crate) fn from_decimal(digits: &str) -> Option<Self> {
        let plain = digits.strip_prefix('-').unwrap_or(digits);
        let only_digits = !plain.is_empty() && plain.bytes().all(|byte| byte.is_ascii_digit());
        let int: BigInt = only_digits.then(|| digits.parse().ok())??;
        Some(Self::from_le_bytes(&int.to_signed_bytes_le()))
    }

    /// Decimal where it is short, hexadecimal where it is not.
    pub(crate) fn to_text(&self) -> String {
        match self.to_i128() {
            Some(value) => value.to_string(),
            None => {
                let digits: String = self.0.iter().rev().map(|byte| format!("{byte:02x}")).collect();
                format!("0x{digits} ({} bytes, two's complement)", self.0.len())
            }
        }
    }
}

impl From<i128> for Int {
    fn from(value: i128) -> Self {
        Self::from_le_bytes(&value.to_le_bytes())
    }
}

impl PartialOrd for Int {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Int {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.is_negative(), other.is_negative()) {
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (negative, _) => {
                // Minimal representations of one sign: longer is further from zero.
                let by_length = self.0.len().cmp(&other.0.len());
                let by_length = if negative { by_length.reverse() } else { by_length };
                by_length.then_with(|| self.0.iter().rev().cmp(other.0.iter().rev()))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn orders_and_round_trips_like_i128(a: i128, b: i128) {
            let (x, y) = (Int::from(a), Int::from(b));
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
            prop_assert_eq!(x.to_i128(), Some(a));
            prop_assert_eq!(Int::from_le_bytes(x.as_le_bytes()), x);
        }

        #[test]
        fn whole_floats_convert_exactly(a in -(1i64 << 53)..(1i64 << 53), shift in 0u32..60) {
            let value = (a as f64) * 2f64.powi(shift as i32);
            prop_assert_eq!(Int::from_f64(value), Some(Int::from(i128::from(a) << shift)));
        }
    }

    #[test]
    fn large_floats_convert_exactly() {
        let ten_to_the_22 = Int::from(10i128.pow(22));
        assert_eq!(Int::from_f64(1e22), Some(ten_to_the_22));
        let mut expected = vec![0u8; 25];
        expected.push(1);
        assert_eq!(Int::from_f64(2f64.powi(200)), Some(Int::from_le_bytes(&expected)));
        let mut negative = vec![0u8; 25];
        negative.push(0xFF);
        assert_eq!(Int::from_f64(-(2f64.powi(200))), Some(Int::from_le_bytes(&negative)));
        assert_eq!(Int::from_f64(0.5), None);
        assert_eq!(Int::from_f64(f64::NAN), None);
    }
}
