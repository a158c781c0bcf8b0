//! Values as a person reads them: Python's `repr`, near enough.

use super::Value;

/// Python's `repr` of a value, cut after about `max` characters.
pub(crate) fn repr(value: &Value, max: usize) -> String {
    let mut out = String::new();
    write(value, &mut out, max);
    if out.chars().count() > max {
        out = out.chars().take(max).collect();
        out.push('…');
    }
    out
}

fn write(value: &Value, out: &mut String, max: usize) {
    if out.len() > max {
        return;
    }
    match value {
        Value::None => out.push_str("None"),
        Value::Bool(held) => out.push_str(if *held { "True" } else { "False" }),
        Value::Int(int) => out.push_str(&int.to_text()),
        Value::Float(float) => out.push_str(&float_text(*float)),
        Value::Complex(real, imaginary) => {
            out.push_str(&format!("({}{:+}j)", float_text(*real), imaginary));
        }
        Value::Str(bytes) => out.push_str(&quoted(&String::from_utf8_lossy(bytes))),
        Value::Bytes(bytes) => out.push_str(&format!("b'{}'", bytes.escape_ascii())),
        Value::List(items) => sequence("[", items, "]", out, max),
        Value::Tuple(items) if items.len() == 1 => sequence("(", items, ",)", out, max),
        Value::Tuple(items) => sequence("(", items, ")", out, max),
        Value::Set(items) if items.is_empty() => out.push_str("set()"),
        Value::Set(items) => sequence("{", items, "}", out, max),
        Value::FrozenSet(items) => sequence("frozenset({", items, "})", out, max),
        Value::Dict(pairs) => {
            out.push('{');
            for (index, (key, value)) in pairs.iter().enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write(key, out, max);
                out.push_str(": ");
                write(value, out, max);
                if out.len() > max {
                    break;
                }
            }
            out.push('}');
        }
    }
}

fn sequence(open: &str, items: &[Value], close: &str, out: &mut String, max: usize) {
    out.push_str(open);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push_str(", ");
        }
        write(item, out, max);
        if out.len() > max {
            break;
        }
    }
    out.push_str(close);
}

fn float_text(float: f64) -> String {
    if float.is_finite() {
        format!("{float:?}")
    } else if float.is_nan() {
        "nan".into()
    } else if float > 0.0 {
        "inf".into()
    } else {
        "-inf".into()
    }
}

fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('\'');
    for character in text.chars() {
        match character {
            '\'' | '\\' => {
                out.push('\\');
                out.push(character);
            }
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control.is_control() => out.push_str(&format!("\\x{:02x}", control as u32)),
            plain => out.push(plain),
        }
    }
    out.push('\'');
    out
}

#[cfg(test)]
mod tests {
    use super::super::Int;
    use super::*;

    #[test]
    fn reads_like_python() {
        let value = Value::Dict(vec![
            (Value::str("it's"), Value::List(vec![Value::Int(Int::from(-3)), Value::Float(2.0), Value::None])),
            (Value::Tuple(vec![Value::Bool(true)]), Value::Bytes(b"\x00a".to_vec())),
        ]);
        assert_eq!(repr(&value, 200), r"{'it\'s': [-3, 2.0, None], (True,): b'\x00a'}");
        assert_eq!(repr(&Value::List(vec![Value::None; 1000]), 10).chars().count(), 11);
    }
}
