//! Decimal numbers as Python's `Decimal` reads and compares them: exactly, whatever their length.

/// A finite decimal number or an infinity. NaN is none: it equals nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Decimal {
    Infinite {
        negative: bool,
    },
    /// `0.digits × 10^exponent`, without zeros at either end; zero has no digits, no sign and exponent 0.
    Finite {
        negative: bool,
        digits: Vec<u8>,
        exponent: i64,
    },
}

impl Decimal {
    /// The number a text is, without surrounding white space.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let (negative, rest) = match text.split_first()? {
            (b'-', rest) => (true, rest),
            (b'+', rest) => (false, rest),
            _ => (false, text),
        };
        if rest.eq_ignore_ascii_case(b"inf") || rest.eq_ignore_ascii_case(b"infinity") {
            return Some(Self::Infinite { negative });
        }
        let at = rest.iter().position(|byte| matches!(byte, b'e' | b'E'));
        let (mantissa, power) = match at {
            Some(at) => (&rest[..at], power(&rest[at + 1..])?),
            None => (rest, 0),
        };
        let mut parts = mantissa.splitn(2, |byte| *byte == b'.');
        let (whole, fraction) = (parts.next()?, parts.next().unwrap_or_default());
        if whole.is_empty() && fraction.is_empty() || ![whole, fraction].concat().iter().all(u8::is_ascii_digit) {
            return None;
        }
        let mut digits: Vec<u8> = [whole, fraction].concat();
        let leading = digits.iter().take_while(|digit| **digit == b'0').count();
        digits.drain(..leading);
        while digits.last() == Some(&b'0') {
            digits.pop();
        }
        if digits.is_empty() {
            return Some(Self::Finite { negative: false, digits, exponent: 0 });
        }
        let exponent =
            i64::try_from(whole.len()).ok()?.checked_sub(i64::try_from(leading).ok()?)?.checked_add(power)?;
        Some(Self::Finite { negative, digits, exponent })
    }

    /// Whether a text is written as a whole number: a sign and digits alone.
    pub(super) fn is_integer_literal(text: &[u8]) -> bool {
        let digits = text.strip_prefix(b"-").or_else(|| text.strip_prefix(b"+")).unwrap_or(text);
        !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
    }
}

fn power(text: &[u8]) -> Option<i64> {
    // Rust's own parser takes a sign, digits, and nothing else; what it cannot hold is no number here.
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(a: &str, b: &str) -> bool {
        matches!((Decimal::parse(a.as_bytes()), Decimal::parse(b.as_bytes())), (Some(a), Some(b)) if a == b)
    }

    #[test]
    fn equal_numbers_are_equal_however_written() {
        for (a, b) in [
            ("1", "1.0"),
            ("1", "+1."),
            ("0.5", ".5"),
            ("1e3", "1000"),
            ("-0", "0.00"),
            ("00012", "12"),
            ("1200e-2", "12"),
            ("0.000001", "1E-6"),
            ("inf", "Infinity"),
        ] {
            assert!(same(a, b), "{a} {b}");
        }
        for (a, b) in [
            ("50000000000000000", "50000000000000001"),
            ("1", "-1"),
            ("nan", "nan"),
            ("inf", "-inf"),
            ("1e400", "1e401"),
            ("1_0", "10"),
            ("", ""),
            (".", "."),
            ("1e", "1"),
            ("0x10", "16"),
        ] {
            assert!(!same(a, b), "{a} {b}");
        }
        assert!(same("1e99999999999", "10e99999999998"));
    }
}
