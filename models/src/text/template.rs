//! Chat templates: Jinja as `transformers` sets it up.

use std::time::{SystemTime, UNIX_EPOCH};

use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde};
use minijinja::{Environment, Error, ErrorKind, Value, context};
use serde::Serialize;
use serde_json::ser::{PrettyFormatter, Serializer};

use super::Message;

const NAME: &str = "chat_template";

/// A compiled template.
#[derive(Debug)]
pub(super) struct ChatTemplate {
    environment: Environment<'static>,
    source: String,
}

impl ChatTemplate {
    pub(super) fn new(source: String) -> Result<Self, String> {
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|e| format!("{e:#}"))?);
        // Templates are written for Python and call methods of its strings and lists.
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", raise_exception);
        environment.add_function("strftime_now", |format: &str| strftime(format, seconds_now()));
        environment.add_filter("tojson", tojson);
        environment.add_template_owned(NAME, source.clone()).map_err(|e| format!("{e:#}"))?;
        Ok(Self { environment, source })
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    pub(super) fn render(&self, messages: &[Message], bos: Option<&str>, eos: Option<&str>) -> Result<String, String> {
        let values = context! {
            messages => Value::from(Serde(messages)),
            add_generation_prompt => true,
            bos_token => bos.unwrap_or_default(),
            eos_token => eos.unwrap_or_default(),
        };
        let rendered = self.environment.get_template(NAME).and_then(|template| template.render(values));
        rendered.map_err(|e| format!("{e:#}"))
    }
}

fn raise_exception(message: String) -> Result<Value, Error> {
    Err(Error::new(ErrorKind::InvalidOperation, message))
}

/// Python's `json.dumps(value, ensure_ascii=False, indent=indent)`: its separators, no HTML escapes.
fn tojson(value: Value, options: Kwargs) -> Result<Value, Error> {
    let indent: Option<usize> = options.get("indent")?;
    let failed = |e: serde_json::Error| Error::new(ErrorKind::BadSerialization, e.to_string());
    let mut out = Vec::new();
    match indent {
        Some(width) => {
            let spaces = " ".repeat(width.min(16));
            let formatter = PrettyFormatter::with_indent(spaces.as_bytes());
            value.serialize(&mut Serializer::with_formatter(&mut out, formatter)).map_err(failed)?;
        }
        None => value.serialize(&mut Serializer::with_formatter(&mut out, PythonFormatter)).map_err(failed)?,
    }
    Ok(Value::from_safe_string(String::from_utf8_lossy(&out).into_owned()))
}

/// `", "` and `": "` between items, as Python writes them.
struct PythonFormatter;

impl serde_json::ser::Formatter for PythonFormatter {
    fn begin_array_value<W: ?Sized + std::io::Write>(&mut self, out: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(&mut self, out: &mut W, first: bool) -> std::io::Result<()> {
        if first { Ok(()) } else { out.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, out: &mut W) -> std::io::Result<()> {
        out.write_all(b": ")
    }
}

fn seconds_now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs())
}

/// The parts of `strftime` that chat templates use, in UTC. Unknown directives are an error rather than silently kept.
fn strftime(format: &str, seconds: u64) -> Result<String, Error> {
    const MONTHS: [&str; 12] = [
        "January",
        "February",
        "March",
        "April",
        "May",
        "June",
        "July",
        "August",
        "September",
        "October",
        "November",
        "December",
    ];
    const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];
    let (year, month, day) = civil_date(seconds / 86_400);
    let (month_name, day_name) = (MONTHS[month - 1], DAYS[(seconds / 86_400 % 7) as usize]);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let mut out = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            out.push(character);
            continue;
        }
        match characters.next() {
            Some('Y') => out += &year.to_string(),
            Some('m') => out += &format!("{month:02}"),
            Some('d') => out += &format!("{day:02}"),
            Some('B') => out += month_name,
            Some('b') => out += &month_name[..3],
            Some('A') => out += day_name,
            Some('a') => out += &day_name[..3],
            Some('H') => out += &format!("{hour:02}"),
            Some('M') => out += &format!("{minute:02}"),
            Some('S') => out += &format!("{second:02}"),
            Some('%') => out.push('%'),
            other => {
                let message = format!("strftime_now: directive `%{}` is not supported", other.unwrap_or(' '));
                return Err(Error::new(ErrorKind::InvalidOperation, message));
            }
        }
    }
    Ok(out)
}

/// Year, month and day of a day counted from 1 January 1970 (Hinnant, "chrono-compatible low-level date algorithms").
fn civil_date(days: u64) -> (u64, usize, u64) {
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let day_of_era = shifted % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month as usize, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(source: &str) -> Result<String, String> {
        ChatTemplate::new(source.to_owned())?.render(&[Message::new("user", "it's <b>")], Some("<s>"), None)
    }

    #[test]
    fn blocks_are_trimmed_as_transformers_does() {
        let source = "{% for m in messages %}\n  {% if true %}\n{{ m.content.strip() }}\n  {% endif %}\n{% endfor %}\n";
        assert_eq!(render(source).unwrap(), "it's <b>\n");
    }

    #[test]
    fn tojson_is_pythons() {
        assert_eq!(render("{{ {'a': [1, 'x<y'], 'b': none} | tojson }}").unwrap(), r#"{"a": [1, "x<y"], "b": null}"#);
        assert_eq!(render("{{ [1] | tojson(indent=2) }}").unwrap(), "[\n  1\n]");
    }

    #[test]
    fn raised_exceptions_reach_the_caller() {
        assert!(render("{{ raise_exception('roles must alternate') }}").unwrap_err().contains("roles must alternate"));
    }

    #[test]
    fn dates() {
        assert_eq!(strftime("%d %b %Y, %A %H:%M:%S", 1_709_210_096).unwrap(), "29 Feb 2024, Thursday 12:34:56");
        assert_eq!(strftime("%Y-%m-%d", 0).unwrap(), "1970-01-01");
        assert!(strftime("%q", 0).is_err());
    }
}
