//! The rules by which a task may have its values compared.

use super::compare::{Number, canonical, expected_eq, key};
use super::{Value, encode};
use crate::verdict::ValueRule;

/// Whether a returned value is the expected one by `rule`.
pub(crate) fn values_equal(rule: ValueRule, got: &Value, expected: &Value) -> bool {
    use Value::{FrozenSet, List, Set, Tuple};

    match (rule, got, expected) {
        (ValueRule::Approx { absolute, relative }, ..) => near(absolute, relative, got, expected),
        (ValueRule::Unordered, List(a) | Tuple(a), List(b)) | (ValueRule::Unordered, Tuple(a), Tuple(b)) => {
            let (mut a, mut b) = (keys(a), keys(b));
            a.sort_unstable();
            b.sort_unstable();
            a == b && !a.contains(&None)
        }
        (ValueRule::Set, List(a) | Tuple(a) | Set(a) | FrozenSet(a), List(b) | Tuple(b) | Set(b) | FrozenSet(b)) => {
            let distinct = |items: &[Value]| {
                let mut keys = keys(items);
                keys.sort_unstable();
                keys.dedup();
                keys
            };
            let (a, b) = (distinct(a), distinct(b));
            a == b && !a.contains(&None)
        }
        _ => expected_eq(got, expected),
    }
}

fn keys(items: &[Value]) -> Vec<Option<Vec<u8>>> {
    items.iter().map(|item| loose(item).map(|value| encode(&value))).collect()
}

/// A form that is the same for items that count as one where order does not: lists and tuples alike, entries of dicts in
/// any order. `None` where a NaN is in it, which equals nothing.
fn loose(value: &Value) -> Option<Value> {
    Some(match value {
        Value::Float(float) if float.is_nan() => return None,
        Value::Complex(re, im) if re.is_nan() || im.is_nan() => return None,
        Value::List(items) | Value::Tuple(items) => Value::List(items.iter().map(loose).collect::<Option<_>>()?),
        Value::Set(items) | Value::FrozenSet(items) => {
            let mut items: Vec<_> = items.iter().map(loose).collect::<Option<_>>()?;
            items.sort_by_cached_key(encode);
            Value::FrozenSet(items)
        }
        Value::Dict(pairs) => {
            let pairs = pairs.iter().map(|(k, v)| Some((canonical(k), loose(v)?)));
            let mut pairs: Vec<_> = pairs.collect::<Option<_>>()?;
            pairs.sort_by_cached_key(|(key, _)| encode(key));
            Value::Dict(pairs)
        }
        other => canonical(other),
    })
}

/// [`expected_eq`], where numbers may differ by `absolute + relative · |expected|`. Keys of dicts and items of sets compare exactly.
fn near(absolute: f64, relative: f64, got: &Value, expected: &Value) -> bool {
    let near_all =
        |a: &[Value], b: &[Value]| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| near(absolute, relative, a, b));
    match (got, expected) {
        (Value::Bool(_), _) | (_, Value::Bool(_)) => expected_eq(got, expected),
        (Value::List(a) | Value::Tuple(a), Value::List(b)) | (Value::Tuple(a), Value::Tuple(b)) => near_all(a, b),
        (Value::Dict(a), Value::Dict(b)) => {
            let entries: std::collections::HashMap<_, _> = a.iter().map(|(k, v)| (key(k), v)).collect();
            a.len() == b.len()
                && b.iter().all(|(k, expected)| {
                    entries.get(&key(k)).is_some_and(|got| near(absolute, relative, got, expected))
                })
        }
        _ => {
            expected_eq(got, expected)
                || parts(got).zip(parts(expected)).is_some_and(|(got, expected)| {
                    let size = expected.0.hypot(expected.1);
                    let distance = (got.0 - expected.0).hypot(got.1 - expected.1);
                    // An infinity is near nothing but itself, which is equal.
                    size.is_finite() && distance.is_finite() && distance <= absolute + relative * size
                })
        }
    }
}

/// Real and imaginary part of a number.
fn parts(value: &Value) -> Option<(f64, f64)> {
    Some(match Number::of(value)? {
        Number::Int(int) => (int.to_f64(), 0.0),
        Number::Float(float) => (float, 0.0),
        Number::Complex(real, imaginary) => (real, imaginary),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::data::from_json;

    fn equal(rule: ValueRule, got: &Json, expected: &Json) -> bool {
        values_equal(rule, &from_json(got).unwrap(), &from_json(expected).unwrap())
    }

    #[test]
    fn tolerances_hold_at_every_level_and_for_numbers_alone() {
        let rule = ValueRule::Approx { absolute: 1e-6, relative: 1e-3 };
        let yes = [
            (json!(1.0009), json!(1)),
            (json!([1, {"a": 2.001}]), json!([1, {"a": 2}])),
            (json!({"$tuple": [0.0000001]}), json!([0])),
            (json!({"$int": "1000000000000000000000000000000000000000000001"}), json!(1e45)),
            (json!({"$float": "inf"}), json!({"$float": "inf"})),
            (json!({"$complex": [1, 1.0001]}), json!({"$complex": [1, 1]})),
            (json!("a"), json!("a")),
            (json!(true), json!(1)),
        ];
        let no = [
            (json!(1.0011), json!(1)),
            (json!(0.00001), json!(0)),
            (json!(1e300), json!({"$float": "inf"})),
            (json!({"$float": "-inf"}), json!({"$float": "inf"})),
            (json!({"$float": "nan"}), json!({"$float": "nan"})),
            (json!(true), json!(1.0001)),
            (json!({"$dict": [[1.0001, 1]]}), json!({"$dict": [[1, 1]]})),
            (json!("1"), json!(1)),
            (json!([1]), json!([1, 1])),
        ];
        for (got, expected) in yes {
            assert!(equal(rule, &got, &expected), "{got} {expected}");
        }
        for (got, expected) in no {
            assert!(!equal(rule, &got, &expected), "{got} {expected}");
        }
        assert!(!equal(ValueRule::PyEq, &json!(1.0009), &json!(1)));
    }

    #[test]
    fn order_is_free_outermost_alone() {
        let rows = [
            (json!([2, 1, 1]), json!([1, 2, 1]), true, true),
            (json!([2, 1]), json!([1, 2, 1]), false, true),
            (json!([[1, 2], [3]]), json!([[3], [1, 2]]), true, true),
            (json!([[2, 1], [3]]), json!([[3], [1, 2]]), false, false),
            (json!([{"$tuple": [1, 2]}, 1.0]), json!([1, [1, 2]]), true, true),
            (json!({"$tuple": [1, 2]}), json!([2, 1]), true, true),
            (json!([1, 2]), json!({"$tuple": [2, 1]}), false, true),
            (json!({"$set": [1, 2]}), json!([2, 1]), false, true),
            (json!([{"$float": "nan"}]), json!([{"$float": "nan"}]), false, false),
            (json!([{"a": 1, "b": [2]}]), json!([{"b": [2], "a": true}]), true, true),
            (json!([1, "1"]), json!(["1", "1"]), false, false),
            (json!("ab"), json!("ba"), false, false),
            (json!([]), json!([]), true, true),
        ];
        for (got, expected, unordered, set) in rows {
            assert_eq!(equal(ValueRule::Unordered, &got, &expected), unordered, "unordered: {got} {expected}");
            assert_eq!(equal(ValueRule::Set, &got, &expected), set, "set: {got} {expected}");
        }
    }
}
