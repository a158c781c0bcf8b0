//! When two texts, or two answers, are the same. No guest has a say in it.

mod answer;
mod decimal;
mod expression;
mod latex;
mod text;

pub(crate) use answer::{answer_in, answers_equal};
pub(crate) use text::{difference, texts_equal};
