//! Values of task files: JSON, and what JSON cannot say as an object with one key that begins with `$`.

use serde_json::Value as Json;

use super::compare::Number;
use super::{Int, Value};

/// Characters of a bad value that an error shows.
const SHOWN: usize = 60;

/// A value as a task file writes it (see [`crate::verdict::TestCase`]).
///
/// # Errors
/// What is wrong with it and how it is written instead: an unknown tag, a tag on the wrong kind of thing, a set's item or
/// a dict's key that Python cannot hash.
pub(crate) fn from_json(json: &Json) -> Result<Value, String> {
    Ok(match json {
        Json::Null => Value::None,
        Json::Bool(held) => Value::Bool(*held),
        Json::Number(number) => match number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from)) {
            Some(int) => Value::Int(Int::from(int)),
            None => Value::Float(number.as_f64().ok_or_else(|| format!("`{number}` is no number"))?),
        },
        Json::String(text) => Value::str(text),
        Json::Array(items) => Value::List(all(items)?),
        Json::Object(entries) => {
            let mut pairs = entries.iter();
            match (pairs.next(), pairs.next()) {
                (Some((tag, held)), None) if tag.starts_with('$') => tagged(tag, held)?,
                _ => Value::Dict(entries.iter().map(|(k, v)| Ok((Value::str(k), from_json(v)?))).collect::<Pairs>()?),
            }
        }
    })
}

type Pairs = Result<Vec<(Value, Value)>, String>;

fn all(items: &[Json]) -> Result<Vec<Value>, String> {
    items.iter().map(from_json).collect()
}

fn tagged(tag: &str, held: &Json) -> Result<Value, String> {
    let wrong = |wanted: &str| {
        let shown: String = held.to_string().chars().take(SHOWN).collect();
        format!("`{tag}` holds {wanted}, not `{shown}`")
    };
    let list = || held.as_array().ok_or_else(|| wrong("a list"));
    let text = |wanted: &str| held.as_str().ok_or_else(|| wrong(wanted));
    Ok(match tag {
        "$tuple" => Value::Tuple(all(list()?)?),
        "$set" => Value::Set(hashable(tag, all(list()?)?)?),
        "$frozenset" => Value::FrozenSet(hashable(tag, all(list()?)?)?),
        "$dict" => Value::Dict(list()?.iter().map(|pair| entry(tag, pair)).collect::<Pairs>()?),
        "$int" => {
            let digits = "an integer's decimal digits as a string";
            Value::Int(Int::from_decimal(text(digits)?).ok_or_else(|| wrong(digits))?)
        }
        "$float" => Value::Float(float(held).ok_or_else(|| wrong("a number, or `nan`, `inf`, `-inf` as a string"))?),
        "$complex" => match list()?.iter().map(float).collect::<Option<Vec<_>>>().as_deref() {
            Some([real, imaginary]) => Value::Complex(*real, *imaginary),
            _ => return Err(wrong("two numbers")),
        },
        "$bytes" => Value::Bytes(
            hex(text("hexadecimal digits as a string")?).ok_or_else(|| wrong("pairs of hexadecimal digits"))?,
        ),
        _ => {
            return Err(format!(
                "`{tag}` is no tag: $tuple, $set, $frozenset, $dict, $int, $float, $complex and $bytes are; an object whose one key \
                 begins with `$` is written {{\"$dict\": [[key, value]]}}"
            ));
        }
    })
}

fn entry(tag: &str, pair: &Json) -> Result<(Value, Value), String> {
    match pair.as_array().map(Vec::as_slice) {
        Some([key, value]) => {
            let key = hashable(tag, vec![from_json(key)?])?.remove(0);
            Ok((key, from_json(value)?))
        }
        _ => Err(format!("`{tag}` holds a list of pairs [key, value]")),
    }
}

/// Items that may be in a set.
fn hashable(tag: &str, items: Vec<Value>) -> Result<Vec<Value>, String> {
    fn is(value: &Value) -> bool {
        match value {
            Value::Tuple(items) | Value::FrozenSet(items) => items.iter().all(is),
            Value::Str(_) | Value::Bytes(_) | Value::None => true,
            other => Number::of(other).is_some(),
        }
    }
    match items.iter().find(|item| !is(item)) {
        Some(item) => Err(format!(
            "`{tag}` cannot hold `{}`, which Python cannot hash: write a list as {{\"$tuple\": […]}} there",
            super::repr(item, SHOWN)
        )),
        None => Ok(items),
    }
}

fn float(json: &Json) -> Option<f64> {
    match json {
        Json::Number(number) => number.as_f64(),
        Json::String(text) => text.parse().ok(),
        _ => None,
    }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect::<Option<_>>()?;
    digits.len().is_multiple_of(2).then(|| digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn int(value: i128) -> Value {
        Value::Int(Int::from(value))
    }

    #[test]
    fn what_json_cannot_say_has_a_tag() {
        let cases = [
            (json!({"$tuple": [1, [2]]}), Value::Tuple(vec![int(1), Value::List(vec![int(2)])])),
            (json!({"$set": [1, {"$tuple": [2]}]}), Value::Set(vec![int(1), Value::Tuple(vec![int(2)])])),
            (json!({"$frozenset": []}), Value::FrozenSet(vec![])),
            (
                json!({"$dict": [[1, "a"], [{"$tuple": []}, null]]}),
                Value::Dict(vec![(int(1), Value::str("a")), (Value::Tuple(vec![]), Value::None)]),
            ),
            (json!({"$int": "-170141183460469231731687303715884105728"}), int(i128::MIN)),
            (json!({"$float": "-inf"}), Value::Float(f64::NEG_INFINITY)),
            (json!({"$float": 2}), Value::Float(2.0)),
            (json!({"$complex": [1, "inf"]}), Value::Complex(1.0, f64::INFINITY)),
            (json!({"$bytes": "00fF"}), Value::Bytes(vec![0, 255])),
            (json!({"$dict": [["$tuple", 1]]}), Value::Dict(vec![(Value::str("$tuple"), int(1))])),
            (json!({"$a": 1, "b": 2}), Value::Dict(vec![(Value::str("$a"), int(1)), (Value::str("b"), int(2))])),
            (json!({"a": u64::MAX}), Value::Dict(vec![(Value::str("a"), int(i128::from(u64::MAX)))])),
        ];
        for (json, value) in cases {
            assert_eq!(from_json(&json).as_ref(), Ok(&value), "{json}");
        }
        let digits = format!("1{}", "0".repeat(50));
        let Value::Int(long) = from_json(&json!({"$int": digits})).unwrap() else { panic!("no integer") };
        assert_eq!(long.to_f64(), 1e50);
    }

    #[test]
    fn a_bad_value_says_what_to_write() {
        let cases = [
            (json!({"$typo": 1}), "is no tag"),
            (json!({"$tuple": 1}), "holds a list"),
            (json!({"$set": [[1]]}), "cannot hash"),
            (json!({"$dict": [[{"$set": []}, 1]]}), "cannot hash"),
            (json!({"$dict": [[1]]}), "pairs"),
            (json!({"$int": "1.5"}), "digits"),
            (json!({"$int": "+-5"}), "digits"),
            (json!({"$int": 5}), "digits"),
            (json!({"$float": "one"}), "nan"),
            (json!({"$complex": [1]}), "two numbers"),
            (json!({"$bytes": "abc"}), "hexadecimal"),
            (json!({"$bytes": "é0"}), "hexadecimal"),
            (json!([{"a": {"$int": ""}}]), "digits"),
        ];
        for (json, says) in cases {
            let error = from_json(&json).unwrap_err();
            assert!(error.contains(says), "{json} gave {error}");
        }
    }
}
