//! Answers in words and numbers: where they are in a completion, and when two are the same.
//!
//! Wrongly holding two answers the same is worse than wrongly telling them apart: what is not understood compares as text.

use super::expression::{Number, evaluate};
use super::latex::{Plain, plain};
use crate::verdict::{AnswerFrom, AnswerRule};

/// The answer a completion gives, or `None` where it gives none.
pub(crate) fn answer_in(from: &AnswerFrom, completion: &str) -> Option<String> {
    let found = match from {
        AnswerFrom::Whole => completion,
        AnswerFrom::LastLine => last_line(completion)?,
        AnswerFrom::Boxed => boxed(completion)?,
        AnswerFrom::After(marker) => after(completion, marker)?,
        AnswerFrom::Auto => boxed(completion)
            .or_else(|| after(completion, "####"))
            .or_else(|| announced(completion))
            .or_else(|| last_line(completion))?,
    };
    let found = found.trim();
    (!found.is_empty()).then(|| found.to_owned())
}

fn last_line(text: &str) -> Option<&str> {
    text.lines().rev().map(str::trim).find(|line| !line.is_empty())
}

fn after<'a>(text: &'a str, marker: &str) -> Option<&'a str> {
    let at = text.rfind(marker).filter(|_| !marker.is_empty())? + marker.len();
    text[at..].lines().next().map(str::trim).filter(|rest| !rest.is_empty())
}

/// What follows the last `answer is` or `answer:`.
fn announced(text: &str) -> Option<&str> {
    // ASCII case folding keeps every byte where it was.
    let folded = text.to_ascii_lowercase();
    let at =
        ["answer is", "answer:"].into_iter().filter_map(|marker| Some(folded.rfind(marker)? + marker.len())).max()?;
    let rest = text[at..].lines().next()?.trim().trim_start_matches([':', ' ', '*']);
    (!rest.is_empty()).then_some(rest)
}

/// The contents of the last `\boxed{…}` that is closed.
fn boxed(text: &str) -> Option<&str> {
    let mut end = text.len();
    while let Some(at) = text[..end].rfind("\\boxed{") {
        let inside = &text[at + "\\boxed{".len()..];
        let mut depth = 1;
        for (offset, byte) in inside.bytes().enumerate() {
            depth += i32::from(byte == b'{') - i32::from(byte == b'}');
            if depth == 0 {
                return Some(&inside[..offset]);
            }
        }
        end = at;
    }
    None
}

/// Whether two answers are the same.
pub(crate) fn answers_equal(rule: AnswerRule, got: &str, expected: &str) -> bool {
    match rule {
        AnswerRule::Text => words(got).eq(words(expected)),
        AnswerRule::Number { tolerance } => match (number(got), number(expected)) {
            (Some(a), Some(b)) if a.same(&b) => true,
            (Some(a), Some(b)) if tolerance > 0.0 => {
                let (a, b) = (a.to_f64(), b.to_f64());
                (a - b).abs() <= tolerance || (a - b).abs() <= tolerance * b.abs()
            }
            _ => false,
        },
        AnswerRule::Math => same_math(got, expected),
    }
}

fn words(text: &str) -> impl Iterator<Item = String> {
    text.trim().trim_end_matches('.').split_whitespace().map(str::to_lowercase)
}

/// A number as written in answers: a decimal, a fraction, `1.5e3`, with thousands separators, a unit or a currency sign.
fn number(text: &str) -> Option<Number> {
    let Plain { body, .. } = plain(text);
    if let Some((mantissa, power)) = body.split_once(['e', 'E'])
        && let Ok(power) = power.parse::<i32>()
        && power.abs() <= 400
    {
        return evaluate(&format!("({mantissa})*10^({power})"));
    }
    evaluate(&body)
}

fn same_math(got: &str, expected: &str) -> bool {
    let (a, b) = (plain(got), plain(expected));
    if !a.unit.is_empty() && !b.unit.is_empty() && a.unit != b.unit {
        return false;
    }
    let (a_body, b_body) = (right_side(&a.body), right_side(&b.body));
    if choice(a_body).is_some() || choice(b_body).is_some() {
        return choice(a_body) == choice(b_body);
    }
    same_bodies(a_body, b_body)
}

/// `x=5` says 5, as `x∈[0,1]` says the interval.
fn right_side(body: &str) -> &str {
    for sign in ["=", "∈", "\\in"] {
        if let Some((left, right)) = body.split_once(sign)
            && left.chars().count() <= 4
            && left.chars().next().is_some_and(char::is_alphabetic)
            && !right.contains('=')
        {
            return right;
        }
    }
    body
}

/// The letter of a multiple choice: `A`, `(A)`, `A.`, `A)`.
fn choice(body: &str) -> Option<char> {
    let inside = body.strip_prefix('(').unwrap_or(body);
    let inside = inside.strip_suffix([')', '.', ':']).unwrap_or(inside);
    let mut letters = inside.chars();
    match (letters.next(), letters.next()) {
        (Some(letter @ 'A'..='J'), None) => Some(letter),
        _ => None,
    }
}

fn same_bodies(a: &str, b: &str) -> bool {
    if a == b {
        return !a.is_empty();
    }
    match (listed(a), listed(b)) {
        (Some((open_a, items_a, close_a)), Some((open_b, items_b, close_b))) => {
            let ordered = open_a != '{' && open_b != '{';
            (open_a, close_a) == (open_b, close_b) && same_items(&items_a, &items_b, ordered)
        }
        (None, None) => same_values(a, b),
        _ => false,
    }
}

fn same_items(a: &[String], b: &[String], ordered: bool) -> bool {
    if a.len() != b.len() {
        return false;
    }
    if ordered {
        return a.iter().zip(b).all(|(a, b)| same_bodies(a, b));
    }
    let mut left: Vec<_> = b.iter().collect();
    a.iter().all(|item| match left.iter().position(|other| same_bodies(item, other)) {
        Some(at) => {
            left.swap_remove(at);
            true
        }
        None => false,
    })
}

/// Items of one answer, and of all its levels.
const ITEMS_MAX: usize = 100;

/// A tuple, an interval, a set, or several values; `a±b` is two of them. Brackets tell them apart, and bare lists are sets.
fn listed(body: &str) -> Option<(char, Vec<String>, char)> {
    let first = body.chars().next()?;
    let last = body.chars().next_back()?;
    if matches!((first, last), ('(' | '[', ')' | ']') | ('{', '}')) && closes_at_end(body) {
        let items = split_top(&body[1..body.len() - 1]);
        if items.len() > 1 || first == '{' {
            return (items.len() <= ITEMS_MAX).then_some((first, items, last));
        }
    }
    let items = split_top(body);
    if items.len() > 1 && items.len() <= ITEMS_MAX {
        return Some(('{', items, '}'));
    }
    let (left, right) = body.split_once('±')?;
    (!right.contains('±')).then(|| ('{', vec![format!("{left}+({right})"), format!("{left}-({right})")], '}'))
}

/// Whether the first bracket closes with the last character.
fn closes_at_end(body: &str) -> bool {
    let mut depth = 0i32;
    for (at, c) in body.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + c.len_utf8() == body.len();
        }
    }
    false
}

fn split_top(text: &str) -> Vec<String> {
    let (mut items, mut depth, mut start) = (Vec::new(), 0i32, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                items.push(text[start..at].to_owned());
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push(text[start..].to_owned());
    items
}

fn same_values(a: &str, b: &str) -> bool {
    if let (Some(a), Some(b)) = (evaluate(a), evaluate(b)) {
        return a.same(&b);
    }
    // Words have no case; a single letter is a variable, and has.
    let worded = |text: &str| text.chars().count() > 1 && text.chars().all(char::is_alphabetic);
    worded(a) && worded(b) && a.to_lowercase() == b.to_lowercase()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_answer_is_found_where_the_rule_says() {
        let auto = |text: &str| answer_in(&AnswerFrom::Auto, text);
        assert_eq!(auto("so \\boxed{\\frac{1}{2}} and \\boxed{3").as_deref(), Some("\\frac{1}{2}"));
        assert_eq!(auto("\\boxed{1} then \\boxed{2}").as_deref(), Some("2"));
        assert_eq!(auto("work\n#### 42\n").as_deref(), Some("42"));
        assert_eq!(auto("The Answer is: **7**\nbye").as_deref(), Some("7**"));
        assert_eq!(auto("first\n 12 \n\n").as_deref(), Some("12"));
        assert_eq!(auto(" \n"), None);
        assert_eq!(answer_in(&AnswerFrom::Boxed, "12"), None);
        assert_eq!(answer_in(&AnswerFrom::After("=>".into()), "a => 3\nb"), Some("3".into()));
        assert_eq!(answer_in(&AnswerFrom::After(String::new()), "a"), None);
    }

    #[test]
    fn mathematics_written_differently_is_the_same() {
        for (a, b) in [
            ("\\frac{1}{2}", "0.5"),
            ("\\dfrac12", "1/2"),
            ("$\\frac{3}{4}$", "3/4"),
            ("3\\frac{1}{2}", "7/2"),
            ("3 1/2", "3.5"),
            ("\\sqrt{8}", "2\\sqrt{2}"),
            ("\\frac{\\sqrt{3}}{3}", "\\frac{1}{\\sqrt{3}}"),
            ("2\\pi", "2 \\cdot \\pi"),
            ("1{,}234", "1,234"),
            ("1,234,567", "1234567"),
            ("50\\%", "50"),
            ("90^\\circ", "90"),
            ("5\\text{ cm}", "5"),
            ("5 cm", "5\\text{ cm}"),
            ("\\$12.50", "12.5"),
            ("x = 5", "5"),
            ("(1, 2)", "\\left(1,2\\right)"),
            ("(1,\\frac{1}{2})", "(1,0.5)"),
            ("\\{1, 2\\}", "\\{2,1\\}"),
            ("1, 2", "2,1"),
            ("[0, 1)", "[0,1)"),
            ("1 \\pm \\sqrt{2}", "1+\\sqrt{2}, 1-\\sqrt{2}"),
            ("(A)", "A"),
            ("\\text{A}", "A."),
            ("\\text{Yes}", "yes"),
            ("\\boxed{4}", "4."),
            ("2^{10}", "1024"),
            ("x^2+1", "x^2 + 1"),
        ] {
            assert!(answers_equal(AnswerRule::Math, a, b), "{a} and {b}: {:?} {:?}", plain(a), plain(b));
            assert!(answers_equal(AnswerRule::Math, b, a), "{b} and {a}");
        }
    }

    #[test]
    fn different_answers_are_told_apart() {
        for (a, b) in [
            ("", ""),
            ("5", "6"),
            ("5 cm", "5 m"),
            ("50\\%", "0.5"),
            ("(1,2)", "(2,1)"),
            ("[0,1)", "[0,1]"),
            ("(0,1)", "[0,1]"),
            ("1,2", "1,2,3"),
            ("1,1", "1,2"),
            ("A", "B"),
            ("A", "a"),
            ("x", "X"),
            ("3.14", "\\pi"),
            ("50000000000000000", "50000000000000001"),
            ("12", "1,2"),
            ("0.333", "1/3"),
            ("x=5", "y=6"),
            ("2x+1", "2x-1"),
            ("yes", "no"),
            ("-1", "1"),
            ("1/0", "0"),
        ] {
            assert!(!answers_equal(AnswerRule::Math, a, b), "{a} and {b}: {:?} {:?}", plain(a), plain(b));
        }
    }

    #[test]
    fn numbers_and_words_compare_as_such() {
        let exact = AnswerRule::Number { tolerance: 0.0 };
        assert!(answers_equal(exact, "1.50", "3/2"));
        assert!(answers_equal(exact, "1.5e3", "1,500"));
        assert!(!answers_equal(exact, "0.33", "1/3"));
        assert!(answers_equal(AnswerRule::Number { tolerance: 0.02 }, "0.33", "1/3"));
        assert!(!answers_equal(AnswerRule::Number { tolerance: 0.02 }, "nan", "nan"));
        assert!(answers_equal(AnswerRule::Text, " The  Moon.", "the moon"));
        assert!(!answers_equal(AnswerRule::Text, "moon", "the moon"));
    }

    proptest! {
        #[test]
        fn no_text_panics_and_equality_has_no_direction(a in "[-0-9+*/^(){}\\[\\]\\\\., a-cx=$%±]{0,40}", b in "[-0-9/., (){}]{0,20}") {
            for rule in [AnswerRule::Text, AnswerRule::Number { tolerance: 0.0 }, AnswerRule::Math] {
                prop_assert_eq!(answers_equal(rule, &a, &b), answers_equal(rule, &b, &a));
            }
            let _ = answer_in(&AnswerFrom::Auto, &a);
        }

        #[test]
        fn different_integers_are_different(a: i64, b: i64) {
            let same = answers_equal(AnswerRule::Math, &a.to_string(), &b.to_string());
            prop_assert_eq!(same, a == b);
        }

        #[test]
        fn any_unicode_is_taken(a in "\\PC{0,40}") {
            let _ = answers_equal(AnswerRule::Math, &a, "1");
            let _ = answer_in(&AnswerFrom::Auto, &a);
        }
    }
}
