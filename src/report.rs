//! `report.html`: the curves of a run and samples of what the policy wrote. Self-contained: no script, no network.

use std::fmt::Write as _;
use std::sync::Arc;

use rehearsal_actors::{Outcome, Rollout, StepSummary};

use crate::evaluate::Evaluation;

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 52.0;
const BOTTOM: f64 = 30.0;
const TOP: f64 = 28.0;
const RIGHT: f64 = 12.0;

/// Everything a report shows.
#[derive(Debug)]
pub struct Report<'a> {
    /// The run's name.
    pub name: &'a str,
    /// The resolved recipe.
    pub recipe: &'a str,
    /// Steps so far.
    pub steps: &'a [StepSummary],
    /// Evaluations so far.
    pub evaluations: &'a [Evaluation],
    /// Rollouts to show, the first and the last batch's.
    pub samples: &'a [(String, Vec<Arc<Rollout>>)],
}

/// One line of a chart.
#[derive(Debug)]
struct Curve<'a> {
    label: &'a str,
    colour: &'a str,
    points: Vec<(f64, f64)>,
    dots_only: bool,
}

/// One panel: its title and curves.
#[derive(Debug)]
struct Chart<'a> {
    title: &'a str,
    curves: Vec<Curve<'a>>,
    from_zero: bool,
}

impl Report<'_> {
    /// The page.
    pub fn html(&self) -> String {
        let mut page = String::new();
        let _ = write!(
            page,
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
             <title>{name}</title><style>{STYLE}</style></head><body><h1>{name}</h1><p class=\"lead\">{lead}</p>",
            name = escape(self.name),
            lead = escape(&self.lead()),
        );
        page.push_str("<section class=\"charts\">");
        for chart in self.charts() {
            page.push_str(&chart.svg());
        }
        page.push_str("</section>");
        self.write_evaluations(&mut page);
        for (title, rollouts) in self.samples {
            write_samples(&mut page, title, rollouts);
        }
        let _ = write!(
            page,
            "<details><summary>Recipe</summary><pre>{}</pre></details></body></html>",
            escape(self.recipe)
        );
        page
    }

    /// The reward's curve alone, for a document.
    pub fn reward_svg(&self) -> String {
        self.charts().first().map(Chart::svg).unwrap_or_default()
    }

    fn lead(&self) -> String {
        let (Some(first), Some(last)) = (self.steps.first(), self.steps.last()) else {
            return "No step yet.".to_owned();
        };
        let window = 5.min(self.steps.len());
        let mean = |steps: &[StepSummary]| steps.iter().map(|step| step.reward).sum::<f64>() / steps.len() as f64;
        let (early, late) = (mean(&self.steps[..window]), mean(&self.steps[self.steps.len() - window..]));
        let seconds: f64 = self.steps.iter().map(|step| step.seconds).sum();
        format!(
            "Steps {} to {}, {:.0} s. Mean reward {early:.3} over the first {window} steps, {late:.3} over the last {window}.",
            first.step, last.step, seconds
        )
    }

    fn series(&self, value: impl Fn(&StepSummary) -> Option<f64>) -> Vec<(f64, f64)> {
        self.steps
            .iter()
            .filter_map(|step| Some((step.step as f64, value(step)?)))
            .filter(|(_, y)| y.is_finite())
            .collect()
    }

    fn charts(&self) -> Vec<Chart<'_>> {
        let reward = self.series(|step| Some(step.reward));
        let evaluations =
            self.evaluations.iter().map(|evaluation| (evaluation.step as f64, evaluation.pass_at_1)).collect();
        let line = |label, colour, points| Curve { label, colour, points, dots_only: false };
        let learner =
            |value: fn(&rehearsal_models::StepReport) -> f64| self.series(move |step| step.learner.as_ref().map(value));
        let chart = |title, from_zero, curves| Chart { title, curves, from_zero };
        vec![
            chart(
                "Reward per step",
                true,
                vec![
                    line("reward", "#9ec5e8", reward.clone()),
                    line("5-step mean", "#0b5fa5", running_mean(&reward, 5)),
                    Curve { label: "held-out pass@1", colour: "#c4320a", points: evaluations, dots_only: true },
                ],
            ),
            chart("Pass rate", true, vec![line("passed", "#0b5fa5", self.series(|step| Some(step.pass_rate)))]),
            chart(
                "Completion tokens",
                true,
                vec![line("mean", "#0b5fa5", self.series(|step| Some(step.completion_tokens_mean)))],
            ),
            chart(
                "Truncated share",
                true,
                vec![line("cut by the limit", "#0b5fa5", self.series(|step| Some(step.truncated)))],
            ),
            chart("Entropy (nats)", true, vec![line("entropy", "#0b5fa5", learner(|report| report.entropy))]),
            chart("Gradient norm", true, vec![line("before clipping", "#0b5fa5", learner(|report| report.grad_norm))]),
            chart(
                "Largest |Δ log-prob|, learner and generator",
                true,
                vec![line("max", "#0b5fa5", learner(|report| report.logprob_mismatch_max))],
            ),
            chart(
                "Seconds per step",
                true,
                vec![
                    line("step", "#0b5fa5", self.series(|step| Some(step.seconds))),
                    line("learner", "#c4320a", self.series(|step| Some(step.learner_seconds))),
                ],
            ),
            chart(
                "Zero-variance groups",
                true,
                vec![line("groups", "#0b5fa5", self.series(|step| Some(step.zero_variance_groups as f64)))],
            ),
            chart(
                "Staleness (versions)",
                true,
                vec![line("max", "#0b5fa5", self.series(|step| Some(step.staleness_max as f64)))],
            ),
        ]
    }

    fn write_evaluations(&self, page: &mut String) {
        if self.evaluations.is_empty() {
            return;
        }
        page.push_str(
            "<h2>Held-out tasks</h2><table><tr><th></th><th>step</th><th>pass@1</th><th>± s.e.</th><th>tasks</th><th>samples</th>\
             <th>tokens</th><th>outcomes</th></tr>",
        );
        for e in self.evaluations {
            let outcomes: Vec<String> = e.outcomes.iter().map(|(outcome, n)| format!("{n} {outcome}")).collect();
            let _ = write!(
                page,
                "<tr><td>{}</td><td>{}</td><td>{:.3}</td><td>{:.3}</td><td>{}</td><td>{}</td><td>{:.1}</td><td>{}</td></tr>",
                escape(&e.when),
                e.step,
                e.pass_at_1,
                e.standard_error,
                e.tasks,
                e.samples,
                e.completion_tokens_mean,
                escape(&outcomes.join(", ")),
            );
        }
        page.push_str("</table>");
    }
}

fn write_samples(page: &mut String, title: &str, rollouts: &[Arc<Rollout>]) {
    let _ = write!(page, "<h2>{}</h2><div class=\"samples\">", escape(title));
    for rollout in rollouts {
        let (prompt, text) = rollout.action.as_ref().map_or(("", ""), |action| (&*action.prompt, action.text.as_str()));
        let class = if rollout.outcome == Outcome::Passed { "passed" } else { "other" };
        let reward = rollout.reward.map_or_else(|| "no reward".to_owned(), |reward| format!("reward {reward:.2}"));
        let _ = write!(
            page,
            "<article class=\"{class}\"><h3>{task} · {outcome} · {reward}</h3><details><summary>prompt</summary><pre>{prompt}</pre></details>\
             <pre>{text}</pre><p>{detail}</p></article>",
            task = escape(&rollout.key.task_id.0),
            outcome = rollout.outcome.label(),
            prompt = escape(prompt),
            text = escape(text),
            detail = escape(&rollout.outcome.detail()),
        );
    }
    page.push_str("</div>");
}

fn running_mean(points: &[(f64, f64)], window: usize) -> Vec<(f64, f64)> {
    let mean = |at: usize| {
        let recent = &points[(at + 1).saturating_sub(window)..=at];
        recent.iter().map(|(_, y)| y).sum::<f64>() / recent.len() as f64
    };
    (0..points.len()).map(|at| (points[at].0, mean(at))).collect()
}

impl Chart<'_> {
    /// The panel as SVG.
    fn svg(&self) -> String {
        let all = || self.curves.iter().flat_map(|curve| &curve.points);
        let (x_min, x_max) = span(all().map(|(x, _)| *x), false);
        let (y_min, y_max) = span(all().map(|(_, y)| *y), self.from_zero);
        // Up to a whole tick, so that the highest point stands below a labelled line.
        let y_max = (y_max / tick_step(y_min, y_max) - 1e-9).ceil() * tick_step(y_min, y_max);
        let x_at = |x: f64| LEFT + (x - x_min) / (x_max - x_min) * (WIDTH - LEFT - RIGHT);
        let y_at = |y: f64| HEIGHT - BOTTOM - (y - y_min) / (y_max - y_min) * (HEIGHT - TOP - BOTTOM);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\" \
             font-family=\"system-ui,sans-serif\" font-size=\"11\"><rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\
             <text x=\"{LEFT}\" y=\"16\" font-size=\"13\" fill=\"#222\">{title}</text>",
            title = escape(self.title),
        );
        for tick in ticks(y_min, y_max) {
            let y = y_at(tick);
            let _ = write!(
                svg,
                "<line x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#e5e5e5\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#555\">{}</text>",
                WIDTH - RIGHT,
                LEFT - 5.0,
                y + 4.0,
                number(tick),
            );
        }
        for tick in ticks(x_min, x_max) {
            let _ = write!(
                svg,
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"#555\">{}</text>",
                x_at(tick),
                HEIGHT - BOTTOM + 15.0,
                number(tick),
            );
        }
        let mut legend_x = WIDTH - RIGHT;
        for curve in self.curves.iter().rev() {
            let _ = write!(
                svg,
                "<text x=\"{legend_x:.1}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"{}\">{}</text>",
                HEIGHT - 3.0,
                curve.colour,
                escape(curve.label),
            );
            legend_x -= 7.0 * curve.label.len() as f64 + 14.0;
        }
        for curve in &self.curves {
            curve.draw(&mut svg, &x_at, &y_at);
        }
        svg.push_str("</svg>");
        svg
    }
}

impl Curve<'_> {
    fn draw(&self, svg: &mut String, x_at: &dyn Fn(f64) -> f64, y_at: &dyn Fn(f64) -> f64) {
        if !self.dots_only && self.points.len() > 1 {
            let points: Vec<String> =
                self.points.iter().map(|(x, y)| format!("{:.1},{:.1}", x_at(*x), y_at(*y))).collect();
            let _ = write!(
                svg,
                "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.8\" points=\"{}\"/>",
                self.colour,
                points.join(" ")
            );
        } else {
            for (x, y) in &self.points {
                let _ = write!(
                    svg,
                    "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"{}\"/>",
                    x_at(*x),
                    y_at(*y),
                    self.colour
                );
            }
        }
    }
}

/// The range of some values, never empty.
fn span(values: impl Iterator<Item = f64>, from_zero: bool) -> (f64, f64) {
    let (low, high) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    if !low.is_finite() {
        return (0.0, 1.0);
    }
    let low = if from_zero { low.min(0.0) } else { low };
    if high - low < 1e-12 { (low, low + 1.0) } else { (low, high) }
}

/// Three to six round numbers within a range.
fn ticks(low: f64, high: f64) -> Vec<f64> {
    let step = tick_step(low, high);
    let first = (low / step).ceil() as i64;
    (first..).map(|n| n as f64 * step).take_while(|tick| *tick <= high + step * 1e-9).take(12).collect()
}

/// 1, 2 or 5 times a power of ten, three to six of which span the range.
fn tick_step(low: f64, high: f64) -> f64 {
    let rough = (high - low) / 4.0;
    let magnitude = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|m| m * magnitude).find(|step| *step >= rough).unwrap_or(rough)
}

fn number(value: f64) -> String {
    let text = if value != 0.0 && value.abs() < 1e-3 { format!("{value:.0e}") } else { format!("{value:.3}") };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn escape(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c if c.is_control() && c != '\n' && c != '\t' => out.push('\u{fffd}'),
            c => out.push(c),
        }
        out
    })
}

const STYLE: &str = "body{font-family:system-ui,sans-serif;max-width:1000px;margin:2rem auto;padding:0 1rem;color:#222}\
h1{margin-bottom:0}.lead{color:#555}.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:1rem}\
svg{width:100%;height:auto;border:1px solid #e5e5e5;border-radius:6px}table{border-collapse:collapse}\
td,th{padding:.25rem .75rem;border-bottom:1px solid #e5e5e5;text-align:left}pre{white-space:pre-wrap;overflow-wrap:anywhere;\
background:#f6f6f6;padding:.6rem;border-radius:6px}.samples{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:1rem}\
article{border:1px solid #e5e5e5;border-left:5px solid #c4320a;border-radius:6px;padding:.2rem 1rem}article.passed{border-left-color:#16803c}\
h3{font-size:1rem}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within_the_range() {
        assert_eq!(ticks(0.0, 1.0), [0.0, 0.5, 1.0]);
        assert_eq!(ticks(1.0, 40.0), [10.0, 20.0, 30.0, 40.0]);
        for (low, high) in [(0.0, 1e-6), (-3.0, 7.0), (0.0, 123_456.0), (1.0, 2.0)] {
            let ticks = ticks(low, high);
            assert!((2..=12).contains(&ticks.len()), "{low}..{high}: {ticks:?}");
            assert!(ticks.iter().all(|tick| (low - 1e-12..=high + (high - low) * 1e-6).contains(tick)));
        }
    }

    #[test]
    fn a_report_of_nothing_and_hostile_text_is_still_a_page() {
        let report =
            Report { name: "<script>alert(1)</script>", recipe: "a & b", steps: &[], evaluations: &[], samples: &[] };
        let html = report.html();
        assert!(!html.contains("<script"), "text is escaped");
        assert!(html.contains("No step yet."));
    }
}
