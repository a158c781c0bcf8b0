//! Whether a returned value is the expected one, decided by the host.

use std::collections::HashMap;

use super::{Int, Value, encode};

/// Python's `==` between a returned value and an expected one.
///
/// Numbers compare by value across bool, int, float and complex, and exactly: no integer passes through a float. NaN
/// equals nothing, itself included. A list expected matches a tuple too, at every level, since plain JSON has no tuples;
/// a dict's keys that are integers do not match JSON's strings. Sets match sets in any order.
pub(crate) fn expected_eq(got: &Value, expected: &Value) -> bool {
    if let (Some(a), Some(b)) = (Number::of(got), Number::of(expected)) {
        return a.equals(&b);
    }
    match (got, expected) {
        (Value::None, Value::None) => true,
        (Value::Str(a), Value::Str(b)) | (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::List(a) | Value::Tuple(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| expected_eq(a, b))
        }
        (Value::Set(a) | Value::FrozenSet(a), Value::Set(b) | Value::FrozenSet(b)) => {
            let keys: HashMap<_, ()> = a.iter().map(|item| (key(item), ())).collect();
            a.len() == b.len() && b.iter().all(|item| keys.contains_key(&key(item)))
        }
        (Value::Dict(a), Value::Dict(b)) => {
            let entries: HashMap<_, _> = a.iter().map(|(k, v)| (key(k), v)).collect();
            a.len() == b.len()
                && b.iter().all(|(k, expected)| entries.get(&key(k)).is_some_and(|got| expected_eq(got, expected)))
        }
        _ => false,
    }
}

/// Bytes that are equal for keys that Python holds equal: `1`, `1.0` and `True` are one key.
pub(super) fn key(value: &Value) -> Vec<u8> {
    encode(&canonical(value))
}

pub(super) fn canonical(value: &Value) -> Value {
    match Number::of(value) {
        Some(Number::Int(int)) => Value::Int(int),
        Some(Number::Float(float)) => Int::from_f64(float).map_or(Value::Float(float), Value::Int),
        Some(Number::Complex(re, im)) => Value::Complex(re + 0.0, im + 0.0),
        None => match value {
            Value::Tuple(items) => Value::Tuple(items.iter().map(canonical).collect()),
            Value::FrozenSet(items) => {
                let mut items: Vec<_> = items.iter().map(canonical).collect();
                items.sort_by_cached_key(encode);
                Value::FrozenSet(items)
            }
            other => other.clone(),
        },
    }
}

/// A value of Python's numeric tower.
pub(super) enum Number {
    Int(Int),
    Float(f64),
    Complex(f64, f64),
}

impl Number {
    pub(super) fn of(value: &Value) -> Option<Self> {
        Some(match value {
            Value::Bool(held) => Self::Int(Int::from(i128::from(*held))),
            Value::Int(int) => Self::Int(int.clone()),
            Value::Float(float) => Self::Float(*float),
            Value::Complex(real, imaginary) if *imaginary == 0.0 => Self::Float(*real),
            Value::Complex(real, imaginary) => Self::Complex(*real, *imaginary),
            _ => return None,
        })
    }

    fn equals(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Float(a), Self::Float(b)) => a == b,
            (Self::Int(int), Self::Float(float)) | (Self::Float(float), Self::Int(int)) => {
                Int::from_f64(*float).is_some_and(|whole| whole == *int)
            }
            (Self::Complex(a, b), Self::Complex(c, d)) => a == c && b == d,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    fn from_json(json: &Json) -> Value {
        crate::data::from_json(json).unwrap()
    }

    fn int(value: i128) -> Value {
        Value::Int(Int::from(value))
    }

    #[test]
    fn numbers_compare_by_value_and_exactly() {
        assert!(expected_eq(&Value::Bool(true), &from_json(&json!(1))));
        assert!(expected_eq(&Value::Float(2.0), &from_json(&json!(2))));
        assert!(expected_eq(&int(0), &from_json(&json!(-0.0))));
        assert!(!expected_eq(&int((1 << 53) + 1), &Value::Float((1u64 << 53) as f64)));
        assert!(!expected_eq(&int(50_000_000_000_000_001), &from_json(&json!(50_000_000_000_000_000u64))));
        assert!(!expected_eq(&Value::Float(f64::NAN), &Value::Float(f64::NAN)));
        assert!(!expected_eq(&Value::Float(0.1 + 0.2), &from_json(&json!(0.3))));
        assert!(expected_eq(&Value::Complex(2.0, 0.0), &int(2)));
    }

    #[test]
    fn containers_compare_by_content() {
        let nested = Value::Tuple(vec![int(1), Value::Tuple(vec![Value::str("a")])]);
        assert!(expected_eq(&nested, &from_json(&json!([1, ["a"]]))));
        assert!(!expected_eq(&nested, &from_json(&json!([1, "a"]))));
        assert!(!expected_eq(&Value::str("1"), &int(1)));
        assert!(!expected_eq(&Value::Set(vec![int(1)]), &from_json(&json!([1]))));
        let got = Value::Dict(vec![(Value::str("b"), int(2)), (Value::str("a"), Value::Float(1.0))]);
        assert!(expected_eq(&got, &from_json(&json!({"a": 1, "b": 2}))));
        assert!(!expected_eq(&got, &from_json(&json!({"a": 1, "b": 2, "c": null}))));
        assert!(!expected_eq(&Value::Dict(vec![(int(1), int(2))]), &from_json(&json!({"1": 2}))));
    }

    #[test]
    fn keys_are_equal_as_in_python() {
        let a = Value::Set(vec![int(1), Value::Tuple(vec![Value::Float(2.0)])]);
        let b = Value::Set(vec![Value::Tuple(vec![int(2)]), Value::Bool(true)]);
        assert!(expected_eq(&a, &b));
    }
}
