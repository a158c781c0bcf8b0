//! Rules for outputs. Each takes time and memory linear in the texts (sorting apart).

use super::decimal::Decimal;
use crate::verdict::TextRule;

/// Characters of a line shown in a difference.
const SHOWN: usize = 200;

/// Whether an output is the one expected.
pub(crate) fn texts_equal(rule: TextRule, got: &[u8], expected: &[u8]) -> bool {
    match rule {
        TextRule::Exact => got == expected,
        TextRule::RstripNl => without_newlines(got) == without_newlines(expected),
        TextRule::Judge => judge_lines(got).eq(judge_lines(expected)),
        TextRule::StripLines => stripped_lines(got).eq(stripped_lines(expected)),
        TextRule::Tokens => words(got).eq(words(expected)),
        TextRule::Lcb => same_lines(got, expected, same_decimals),
        TextRule::SfOj => same_lines(got, expected, |a, b| a.eq_ignore_ascii_case(b) || close_line(a, b)),
        TextRule::Float { absolute, relative } => {
            let (mut a, mut b) = (words(got), words(expected));
            loop {
                match (a.next(), b.next()) {
                    (None, None) => return true,
                    (Some(a), Some(b)) if a == b || close(a, b, absolute, relative) => {}
                    _ => return false,
                }
            }
        }
        TextRule::UnorderedLines => {
            let (mut a, mut b): (Vec<_>, Vec<_>) = (stripped_lines(got).collect(), stripped_lines(expected).collect());
            a.sort_unstable();
            b.sort_unstable();
            a == b
        }
    }
}

/// Where two texts first differ, line by line: the expected line and the one got, for people.
pub(crate) fn difference(got: &[u8], expected: &[u8]) -> (String, String) {
    let (mut a, mut b) = (got.split(|byte| *byte == b'\n'), expected.split(|byte| *byte == b'\n'));
    let mut number = 1;
    loop {
        match (a.next(), b.next()) {
            (Some(a), Some(b)) if a == b => number += 1,
            (None, None) => return ("the same text".into(), "the same text".into()),
            (a, b) => return (shown(number, b), shown(number, a)),
        }
    }
}

fn shown(number: usize, line: Option<&[u8]>) -> String {
    let Some(line) = line else { return format!("line {number}: (the output has ended)") };
    let text = String::from_utf8_lossy(&line[..line.len().min(SHOWN * 4)]).into_owned();
    let cut: String = text.chars().take(SHOWN).collect();
    let more = if cut.len() < line.len() { "…" } else { "" };
    format!("line {number}: {cut:?}{more}")
}

fn is_space(byte: u8) -> bool {
    byte.is_ascii_whitespace() || byte == 0x0B
}

fn trim_end(mut text: &[u8]) -> &[u8] {
    while let [rest @ .., last] = text
        && is_space(*last)
    {
        text = rest;
    }
    text
}

fn trim(mut text: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = text
        && is_space(*first)
    {
        text = rest;
    }
    trim_end(text)
}

fn without_newlines(mut text: &[u8]) -> &[u8] {
    while let Some(rest) = text.strip_suffix(b"\n") {
        text = rest;
    }
    text
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|byte| is_space(*byte)).filter(|word| !word.is_empty())
}

/// Lines without white space at their ends, empty lines at the end left out.
fn judge_lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    trim_end(text).split(|byte| *byte == b'\n').map(trim_end)
}

fn stripped_lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    trim(text).split(|byte| *byte == b'\n').map(trim)
}

fn same_lines(got: &[u8], expected: &[u8], same: impl Fn(&[u8], &[u8]) -> bool) -> bool {
    let (mut a, mut b) = (stripped_lines(got), stripped_lines(expected));
    loop {
        match (a.next(), b.next()) {
            (None, None) => return true,
            (Some(a), Some(b)) if a == b || same(a, b) => {}
            _ => return false,
        }
    }
}

/// The same decimal numbers, word by word.
fn same_decimals(got: &[u8], expected: &[u8]) -> bool {
    let (mut a, mut b) = (words(got), words(expected));
    loop {
        match (a.next(), b.next()) {
            (None, None) => return true,
            (Some(a), Some(b)) => match (Decimal::parse(a), Decimal::parse(b)) {
                (Some(a), Some(b)) if a == b => {}
                _ => return false,
            },
            _ => return false,
        }
    }
}

fn number(text: &[u8]) -> Option<f64> {
    // Only what is written as a decimal number: Rust's parser would take `infinity` and `nan` as well.
    Decimal::parse(text)?;
    std::str::from_utf8(text).ok()?.parse::<f64>().ok().filter(|number| number.is_finite())
}

/// SandboxFusion's tolerance: 1e-5 of the expected value, which counts as 1e-10 where it is 0.
fn close_line(got: &[u8], expected: &[u8]) -> bool {
    match (number(got), number(expected)) {
        (Some(a), Some(b)) => (a - b).abs() / if b == 0.0 { 1e-10 } else { b.abs() } <= 1e-5,
        _ => false,
    }
}

/// Two words as numbers within a tolerance. Whole numbers are exact: they never pass through a float.
fn close(got: &[u8], expected: &[u8], absolute: f64, relative: f64) -> bool {
    if Decimal::is_integer_literal(got) && Decimal::is_integer_literal(expected) {
        return Decimal::parse(got) == Decimal::parse(expected);
    }
    match (number(got), number(expected)) {
        (Some(a), Some(b)) => {
            let off = (a - b).abs();
            off <= absolute || off <= relative * b.abs()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FLOAT: TextRule = TextRule::Float { absolute: 1e-6, relative: 1e-6 };
    const ALL: [TextRule; 9] = [
        TextRule::Exact,
        TextRule::RstripNl,
        TextRule::Judge,
        TextRule::StripLines,
        TextRule::Tokens,
        TextRule::Lcb,
        TextRule::SfOj,
        FLOAT,
        TextRule::UnorderedLines,
    ];

    /// For each rule in the order of `ALL`, whether it holds the two texts the same.
    fn table(got: &str, expected: &str) -> String {
        ALL.iter().map(|rule| if texts_equal(*rule, got.as_bytes(), expected.as_bytes()) { 'y' } else { '-' }).collect()
    }

    #[test]
    fn each_rule_forgives_what_it_says_and_nothing_else() {
        for (got, expected, rules) in [
            ("1\n2\n", "1\n2\n", "yyyyyyyyy"),
            ("1\n2", "1\n2\n", "-yyyyyyyy"),
            ("1\n2\n\n", "1\n2\n", "-yyyyyyyy"),
            ("1 \n2\n", "1\n2\n", "--yyyyyyy"),
            ("1\r\n2\r\n", "1\n2\n", "--yyyyyyy"),
            (" 1\n2\n", "1\n2\n", "---yyyyyy"),
            ("1 2\n", "1\n2\n", "----y--y-"),
            ("1\n\n2\n", "1\n2\n", "----y--y-"),
            ("1.0\n2\n", "1\n2\n", "-----yyy-"),
            ("1.0 x\n", "1 x\n", "-------y-"),
            ("YES\n", "Yes\n", "------y--"),
            ("0.3333333\n", "0.333333\n", "------yy-"),
            ("2\n1\n", "1\n2\n", "--------y"),
            ("nan\n", "nan\n", "yyyyyyyyy"),
            ("NaN\n", "nan\n", "------y--"),
            ("50000000000000000\n", "50000000000000001\n", "------y--"),
            ("", "", "yyyyyyyyy"),
            ("\n", "", "-yyyyyyyy"),
            ("1\n", "1\n2\n", "---------"),
            ("1\n2\n", "1\n", "---------"),
            ("", "0\n", "---------"),
            ("1\n1\n2\n", "1\n2\n2\n", "---------"),
        ] {
            assert_eq!(table(got, expected), rules, "{got:?} against {expected:?}");
        }
    }

    #[test]
    fn a_difference_names_the_line() {
        assert_eq!(difference(b"a\nb\n", b"a\nc\n"), ("line 2: \"c\"".into(), "line 2: \"b\"".into()));
        assert!(difference(b"a", b"a\nb").1.contains("ended"));
        assert!(difference(&vec![b'x'; 10_000], b"y").1.len() < 300);
    }

    proptest! {
        #[test]
        fn every_text_equals_itself_and_no_bytes_panic(a: Vec<u8>, b: Vec<u8>) {
            for rule in ALL {
                prop_assert!(texts_equal(rule, &a, &a), "{rule:?}");
                prop_assert_eq!(texts_equal(rule, &a, &b), texts_equal(rule, &a, &b));
            }
            let _ = difference(&a, &b);
        }

        #[test]
        fn a_final_newline_counts_only_where_it_is_said(a in "[a-z0-9 \n]{0,30}") {
            let more = format!("{a}\n");
            for rule in &ALL[1..] { prop_assert!(texts_equal(*rule, more.as_bytes(), a.as_bytes()), "{rule:?} {a:?}"); }
        }

        #[test]
        fn stricter_rules_imply_looser_ones(a in "[ab12. \n]{0,12}", b in "[ab12. \n]{0,12}") {
            let held = |rule| texts_equal(rule, a.as_bytes(), b.as_bytes());
            let order = [TextRule::Exact, TextRule::RstripNl, TextRule::Judge, TextRule::StripLines, TextRule::Tokens, FLOAT];
            for pair in order.windows(2) { prop_assert!(!held(pair[0]) || held(pair[1]), "{pair:?}"); }
        }
    }
}
