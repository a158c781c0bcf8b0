//! Arithmetic without variables: exact where it is rational, a float where roots or π come in.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One as _, Signed as _, ToPrimitive as _, Zero as _};

/// Deepest nesting, longest text and most digits of a value: an answer beyond them is compared as text.
const DEPTH_MAX: usize = 50;
const LENGTH_MAX: usize = 1000;
const POWER_MAX: i64 = 1000;
const BITS_MAX: u64 = 20_000;

/// A number.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Number {
    Exact(BigRational),
    Float(f64),
}

impl Number {
    /// The number as a float.
    pub(super) fn to_f64(&self) -> f64 {
        match self {
            Self::Exact(exact) => exact.to_f64().unwrap_or(f64::NAN),
            Self::Float(float) => *float,
        }
    }

    /// Whether both are the same number: exactly where both are rational, else to twelve digits.
    pub(super) fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Exact(a), Self::Exact(b)) => a == b,
            _ => {
                let (a, b) = (self.to_f64(), other.to_f64());
                a.is_finite() && b.is_finite() && (a - b).abs() <= 1e-12 * a.abs().max(b.abs())
            }
        }
    }

    fn combine(
        self,
        other: Self,
        exact: impl Fn(BigRational, BigRational) -> Option<BigRational>,
        float: impl Fn(f64, f64) -> f64,
    ) -> Option<Self> {
        match (self, other) {
            (Self::Exact(a), Self::Exact(b)) => exact(a, b).and_then(bounded),
            (a, b) => Some(float(a.to_f64(), b.to_f64())).filter(|value| value.is_finite()).map(Self::Float),
        }
    }
}

fn bounded(value: BigRational) -> Option<Number> {
    (value.numer().bits() + value.denom().bits() <= BITS_MAX).then_some(Number::Exact(value))
}

/// The value of an expression: `+ - * / ^`, brackets, `sqrt(x)`, `root(n,x)`, `pi`, products without a sign (`2pi`, `3(4)`).
///
/// `None` where it is anything else, or too large.
pub(super) fn evaluate(text: &str) -> Option<Number> {
    if text.len() > LENGTH_MAX {
        return None;
    }
    let mut parser = Parser { rest: text.as_bytes(), depth: 0 };
    let value = parser.sum()?;
    parser.rest.is_empty().then_some(value)
}

/// A decimal number, exactly.
pub(super) fn decimal(text: &str) -> Option<BigRational> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.is_empty() && fraction.is_empty() || text.len() > LENGTH_MAX {
        return None;
    }
    let digits = format!("{whole}{fraction}");
    if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let scale = BigInt::from(10).pow(u32::try_from(fraction.len()).ok()?);
    Some(BigRational::new(digits.parse().ok()?, scale))
}

struct Parser<'a> {
    rest: &'a [u8],
    depth: usize,
}

impl Parser<'_> {
    fn take(&mut self, wanted: &str) -> bool {
        match self.rest.strip_prefix(wanted.as_bytes()) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn sum(&mut self) -> Option<Number> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let mut value = self.product()?;
        loop {
            if self.take("+") {
                value = value.combine(self.product()?, |a, b| Some(a + b), |a, b| a + b)?;
            } else if self.take("-") {
                value = value.combine(self.product()?, |a, b| Some(a - b), |a, b| a - b)?;
            } else {
                self.depth -= 1;
                return Some(value);
            }
        }
    }

    fn product(&mut self) -> Option<Number> {
        let mut value = self.signed()?;
        loop {
            if self.take("*") {
                value = times(value, self.signed()?)?;
            } else if self.take("/") {
                let by = self.signed()?;
                value = value.combine(by, |a, b| (!b.is_zero()).then(|| a / b), |a, b| a / b)?;
            } else if self.rest.first().is_some_and(|byte| *byte == b'(' || byte.is_ascii_alphabetic()) {
                value = times(value, self.power()?)?;
            } else {
                return Some(value);
            }
        }
    }

    fn signed(&mut self) -> Option<Number> {
        if self.take("-") {
            self.depth += 1;
            if self.depth > DEPTH_MAX {
                return None;
            }
            let value = self.signed()?;
            self.depth -= 1;
            return times(Number::Exact(-BigRational::one()), value);
        }
        let _ = self.take("+");
        self.power()
    }

    fn power(&mut self) -> Option<Number> {
        let base = self.atom()?;
        if !self.take("^") {
            return Some(base);
        }
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let exponent = self.signed()?;
        self.depth -= 1;
        raise(base, &exponent)
    }

    fn atom(&mut self) -> Option<Number> {
        if self.take("(") {
            let value = self.sum()?;
            return self.take(")").then_some(value);
        }
        if self.take("sqrt(") {
            let value = self.sum()?;
            return if self.take(")") { root(&BigInt::from(2), &value) } else { None };
        }
        if self.take("root(") {
            let degree = self.sum()?;
            let value = if self.take(",") { self.sum()? } else { return None };
            return match degree {
                Number::Exact(degree) if degree.is_integer() && self.take(")") => root(degree.numer(), &value),
                _ => None,
            };
        }
        if self.take("pi") {
            return Some(Number::Float(std::f64::consts::PI));
        }
        let length = self.rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count();
        let (digits, rest) = self.rest.split_at(length);
        self.rest = rest;
        decimal(std::str::from_utf8(digits).ok()?).and_then(bounded)
    }
}

fn times(a: Number, b: Number) -> Option<Number> {
    a.combine(b, |a, b| Some(a * b), |a, b| a * b)
}

fn raise(base: Number, exponent: &Number) -> Option<Number> {
    if let (Number::Exact(base), Number::Exact(power)) = (&base, exponent)
        && power.is_integer()
    {
        let power = power.numer().to_i64().filter(|power| power.abs() <= POWER_MAX)?;
        let bits = (base.numer().bits() + base.denom().bits()).saturating_mul(power.unsigned_abs());
        if bits > BITS_MAX || (base.is_zero() && power <= 0) {
            return None;
        }
        return bounded(base.pow(i32::try_from(power).ok()?));
    }
    Some(base.to_f64().powf(exponent.to_f64())).filter(|value| value.is_finite()).map(Number::Float)
}

/// The real root of a number, exact where it is rational.
fn root(degree: &BigInt, value: &Number) -> Option<Number> {
    let degree = degree.to_u32().filter(|degree| (1..=100).contains(degree))?;
    if let Number::Exact(exact) = value
        && !exact.is_negative()
    {
        let (top, bottom) = (exact.numer().nth_root(degree), exact.denom().nth_root(degree));
        if top.pow(degree) == *exact.numer() && bottom.pow(degree) == *exact.denom() {
            return Some(Number::Exact(BigRational::new(top, bottom)));
        }
    }
    let float = value.to_f64();
    let value = if float < 0.0 && degree % 2 == 1 {
        -(-float).powf(1.0 / f64::from(degree))
    } else {
        float.powf(1.0 / f64::from(degree))
    };
    value.is_finite().then_some(Number::Float(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn arithmetic_is_exact() {
        for (a, b) in [
            ("1/3+1/6", "0.5"),
            ("2^10", "1024"),
            ("-2^2", "-4"),
            ("2(3+4)", "14"),
            ("sqrt(16)", "4"),
            ("sqrt(2)*sqrt(8)", "4"),
            ("2sqrt(3)", "sqrt(12)"),
            ("root(3,27)", "3"),
            ("2pi", "pi*2"),
            ("0.1+0.2", "0.3"),
            ("4/2/2", "1"),
            ("--1", "1"),
            ("2^-1", "0.5"),
        ] {
            let (a, b) = (evaluate(a).unwrap(), evaluate(b).unwrap());
            assert!(a.same(&b), "{a:?} {b:?}");
        }
        for bad in ["", "1/0", "2^", "(1", "1)", "x", "1..2", "2^99999999", "9^9^9", "sqrt(-1)", "1e5", ")("] {
            assert_eq!(evaluate(bad), None, "{bad}");
        }
        assert!(!evaluate("50000000000000000").unwrap().same(&evaluate("50000000000000001").unwrap()));
        assert!(!evaluate("3.14159").unwrap().same(&evaluate("pi").unwrap()));
        assert_eq!(evaluate(&"(".repeat(900)), None);
        assert_eq!(evaluate(&"-".repeat(900)), None);
        assert_eq!(evaluate(&format!("{}1", "2^".repeat(400))), None);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[0-9+*/^()., a-z-]{0,60}") {
            let _ = evaluate(&text);
        }
    }
}
