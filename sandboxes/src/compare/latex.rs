//! LaTeX-light: from an answer as people write it to something `expression` evaluates.

/// Longest answer that is read as mathematics, bytes.
const LENGTH_MAX: usize = 2000;

/// An answer without its dress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Plain {
    /// The expression: no white space, `* / ^ ( ) sqrt( root( pi`; sets are in braces.
    pub(super) body: String,
    /// Its unit: `%`, `deg`, `$`, or words. Empty where there is none.
    pub(super) unit: String,
}

/// Takes an answer's dress off: dollars, `\boxed`, spacing, `\left`, `\text`, units; rewrites fractions, roots, products.
pub(super) fn plain(answer: &str) -> Plain {
    let mut text = undressed(answer);
    if text.len() > LENGTH_MAX {
        return Plain { body: text, unit: String::new() };
    }
    for (from, to) in WORDS {
        text = text.replace(from, to);
    }
    let (text, mut unit) = split_unit(&text);
    let text = mixed(&text);
    let body = commands(&text);
    let mut body: String = body.chars().filter(|c| !c.is_whitespace()).collect();
    for (sign, name) in [("%", "%"), ("deg", "deg")] {
        if let Some(rest) = body.strip_suffix(sign) {
            (unit, body) = (name.to_owned(), rest.to_owned());
        }
    }
    if let Some(rest) = body.strip_prefix('$') {
        (unit, body) = ("$".to_owned(), rest.to_owned());
    }
    Plain { body: without_thousands(&body), unit }
}

const WORDS: [(&str, &str); 38] = [
    ("\\left", ""),
    ("\\right", ""),
    ("\\displaystyle", ""),
    ("\\dfrac", "\\frac"),
    ("\\tfrac", "\\frac"),
    ("\\cfrac", "\\frac"),
    ("\\qquad", " "),
    ("\\quad", " "),
    ("\\!", ""),
    ("\\,", ""),
    ("\\;", ""),
    ("\\:", ""),
    ("\\ ", " "),
    ("~", " "),
    ("{,}", ","),
    ("\\cdot", "*"),
    ("\\times", "*"),
    ("\\div", "/"),
    ("×", "*"),
    ("·", "*"),
    ("÷", "/"),
    ("−", "-"),
    ("\\pi", "pi "),
    ("π", "pi "),
    ("√", "\\sqrt"),
    ("\\%", "%"),
    ("^{\\circ}", "deg"),
    ("^\\circ", "deg"),
    ("\\circ", "deg"),
    ("\\degree", "deg"),
    ("°", "deg"),
    ("\\$", "$"),
    ("\\infty", "∞"),
    ("\\pm", "±"),
    ("\\cup", "∪"),
    ("\\{", "⟨"),
    ("\\}", "⟩"),
    ("**", "^"),
];

/// Without dollars, brackets of display mathematics, `\boxed`, and the full stop of a sentence.
fn undressed(answer: &str) -> String {
    let mut text = answer.trim();
    loop {
        let before = text;
        text = text.trim();
        text = text.strip_suffix('.').unwrap_or(text);
        for (open, close) in [("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"), ("\\boxed{", "}"), ("**", "**")]
        {
            if text.len() >= open.len() + close.len()
                && let Some(inside) = text.strip_prefix(open).and_then(|rest| rest.strip_suffix(close))
                && (open != "\\boxed{" || balanced(inside))
                && !(open == "$" && inside.contains('$'))
            {
                text = inside;
            }
        }
        if text == before {
            return text.to_owned();
        }
    }
}

/// Whether no closing brace stands before its opening one.
fn balanced(text: &str) -> bool {
    let mut depth = 0i32;
    for byte in text.bytes() {
        depth += i32::from(byte == b'{') - i32::from(byte == b'}');
        if depth < 0 {
            return false;
        }
    }
    depth == 0
}

/// Takes `\text{…}` apart: after a number it is a unit, elsewhere it is the text itself. A plain word after a number is a unit too.
fn split_unit(text: &str) -> (String, String) {
    let mut text = text.to_owned();
    for command in ["\\text", "\\mathrm", "\\mbox", "\\textbf", "\\mathbf", "\\textit", "\\operatorname"] {
        while let Some(at) = text.find(&format!("{command}{{")) {
            let inside = at + command.len() + 1;
            let Some(length) = group(&text[inside..]) else { break };
            let words = text[inside..inside + length].to_owned();
            text.replace_range(at..(inside + length + 1).min(text.len()), &format!(" {words} "));
        }
    }
    let trimmed = text.trim_end();
    let head = trimmed.trim_end_matches(|c: char| c.is_alphabetic() || c == ' ' || c == '/' || c == '^');
    let tail = trimmed[head.len()..].trim();
    let is_unit = tail.chars().next().is_some_and(char::is_alphabetic)
        && tail.chars().filter(|c| c.is_alphabetic()).count() > 1
        && !["pi", "deg", "sqrt"].iter().any(|word| tail.split(' ').any(|part| part == *word))
        && head.ends_with(|c: char| c.is_ascii_digit() || c == '}' || c == ')');
    // `2 cm^2`: the digit belongs to the unit.
    if !is_unit {
        if let Some(at) = trimmed.rfind(' ')
            && let Some(unit) = trimmed[at + 1..].strip_suffix("^2").or_else(|| trimmed[at + 1..].strip_suffix("^3"))
            && unit.len() > 1
            && unit.chars().all(|c| c.is_ascii_alphabetic())
            && unit != "pi"
        {
            return (trimmed[..at].to_owned(), trimmed[at + 1..].to_lowercase());
        }
        return (trimmed.to_owned(), String::new());
    }
    (head.to_owned(), tail.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase())
}

/// The length of what stands before the brace that closes an opened group.
fn group(text: &str) -> Option<usize> {
    let mut depth = 1;
    for (at, byte) in text.bytes().enumerate() {
        depth += i32::from(byte == b'{') - i32::from(byte == b'}');
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

/// Mixed numbers: `3\frac12` and `3 1/2` are three and a half, not three times a half.
fn mixed(text: &str) -> String {
    let text = text.trim();
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let sign = &text[..text.len() - unsigned.len()];
    if let Some((whole, fraction)) = unsigned.split_once("\\frac")
        && digits(whole.trim())
        && !fraction.contains(['\\', '+', '^'])
    {
        return format!("{sign}({}+\\frac{fraction})", whole.trim());
    }
    if let Some((whole, fraction)) = unsigned.split_once(' ')
        && let Some((top, bottom)) = fraction.trim().split_once('/')
        && [whole, top, bottom].into_iter().all(digits)
    {
        return format!("{sign}({whole}+{top}/{bottom})");
    }
    text.to_owned()
}

/// Fractions, roots and groups as an expression.
fn commands(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    rewrite(text, &mut out, 0);
    out
}

fn rewrite(mut text: &str, out: &mut String, depth: usize) {
    if depth > 50 {
        out.push_str(text);
        return;
    }
    while let Some(first) = text.chars().next() {
        if let Some(rest) = text.strip_prefix("\\frac") {
            let (top, rest) = argument(rest);
            let (bottom, rest) = argument(rest);
            out.push_str("((");
            rewrite(top, out, depth + 1);
            out.push_str(")/(");
            rewrite(bottom, out, depth + 1);
            out.push_str("))");
            text = rest;
        } else if let Some(rest) = text.strip_prefix("\\sqrt") {
            let (degree, rest) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
                Some((degree, rest)) => (Some(degree), rest),
                None => (None, rest),
            };
            let (value, rest) = argument(rest);
            out.push_str(if degree.is_some() { "root(" } else { "sqrt(" });
            if let Some(degree) = degree {
                out.push_str(degree);
                out.push(',');
            }
            rewrite(value, out, depth + 1);
            out.push(')');
            text = rest;
        } else {
            out.push(match first {
                '{' => '(',
                '}' => ')',
                '⟨' => '{',
                '⟩' => '}',
                other => other,
            });
            text = &text[first.len_utf8()..];
        }
    }
}

/// A command's argument — a group, or one character — and what follows it.
fn argument(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    if let Some(inside) = text.strip_prefix('{') {
        return match group(inside) {
            Some(length) => (&inside[..length], &inside[length + 1..]),
            None => (inside, ""),
        };
    }
    if let Some(inside) = text.strip_prefix('(')
        && let Some(length) = inside.find(')')
        && !inside[..length].contains('(')
    {
        return (&inside[..length], &inside[length + 1..]);
    }
    let length = text.chars().next().map_or(0, char::len_utf8);
    text.split_at(length)
}

/// `1,234,567` as one number: groups of exactly three digits after the first, and nothing else around.
fn without_thousands(body: &str) -> String {
    let unsigned = body.strip_prefix('-').unwrap_or(body);
    let whole = unsigned.split_once('.').map_or(unsigned, |(whole, _)| whole);
    let mut groups = whole.split(',');
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let first = groups.next().is_some_and(|first| digits(first) && first.len() <= 3 && !first.starts_with('0'));
    let rest: Vec<_> = groups.collect();
    if first && !rest.is_empty() && rest.iter().all(|part| digits(part) && part.len() == 3) {
        return body.replace(',', "");
    }
    body.to_owned()
}
