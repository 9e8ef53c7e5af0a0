//! Metrics as OpenMetrics text (version 1.0.0) or in the classic format of Prometheus, made by those who ask PID 1 for
//! them: kelsonctl and kelson-apid.
//!
//! Text grows with each part that comes and shrinks as it is sent, so that nobody holds all of it.

mod format;

use std::fmt::Write as _;

use kelson_proto::v1::metric_family::Type;
use kelson_proto::v1::metric_sample::Value;
use kelson_proto::v1::{MetricFamily, MetricSample};

pub use format::Format;

/// The line at its end; a text without it is not whole. In the classic format it is a comment.
pub const END: &str = "# EOF\n";

/// Writes families in the order in which they come.
#[derive(Debug, Default)]
pub struct Text {
    format: Format,
    /// The family whose head is written.
    family: String,
    written: String,
}

impl Text {
    pub fn new(format: Format) -> Text {
        Text { format, ..Text::default() }
    }

    /// Writes a family, or one more part of the last.
    pub fn family(&mut self, family: &MetricFamily) {
        if self.family != family.name {
            self.family.clone_from(&family.name);
            self.head(family);
        }
        for sample in &family.samples {
            self.sample(family, sample);
        }
    }

    /// Takes the text that has been written since the last call.
    pub fn take(&mut self) -> String {
        std::mem::take(&mut self.written)
    }

    fn put(&mut self, arguments: std::fmt::Arguments<'_>) {
        let written = self.written.write_fmt(arguments);
        debug_assert!(written.is_ok(), "writing into a String does not fail");
    }

    fn head(&mut self, family: &MetricFamily) {
        let MetricFamily { name, unit, help, .. } = family;
        // The classic format names what is counted as its samples are named, and knows no units.
        let (suffix, unit) = match self.format {
            Format::OpenMetrics => ("", unit.as_str()),
            Format::Prometheus => (counted(family), ""),
        };
        let kind = match (self.format, kind(family)) {
            (Format::Prometheus, "unknown") => "untyped",
            (_, kind) => kind,
        };
        self.put(format_args!("# TYPE {name}{suffix} {kind}\n"));
        if !unit.is_empty() {
            self.put(format_args!("# UNIT {name} {unit}\n"));
        }
        self.put(format_args!("# HELP {name}{suffix} "));
        match self.format {
            Format::OpenMetrics => self.escaped(help),
            // There a quote would be shown with its backslash.
            Format::Prometheus => {
                let help = help.replace('\\', "\\\\").replace('\n', "\\n");
                self.written.push_str(&help);
            }
        }
        self.put(format_args!("\n"));
    }

    fn sample(&mut self, family: &MetricFamily, sample: &MetricSample) {
        match &sample.value {
            Some(Value::Number(number)) => {
                self.line(family, counted(family), sample, Number(*number));
            }
            Some(Value::Summary(summary)) => {
                self.line(family, "_count", sample, summary.count);
                self.line(family, "_sum", sample, Number(summary.sum));
            }
            // Of a kind that a later version knows.
            None => {}
        }
    }

    fn line(
        &mut self,
        family: &MetricFamily,
        suffix: &str,
        sample: &MetricSample,
        value: impl std::fmt::Display,
    ) {
        self.put(format_args!("{}{suffix}", family.name));
        let mut before = '{';
        for (label, value) in family.labels.iter().zip(&sample.labels) {
            self.put(format_args!("{before}{label}=\""));
            self.escaped(value);
            self.put(format_args!("\""));
            before = ',';
        }
        let after = if before == ',' { "}" } else { "" };
        self.put(format_args!("{after} {value}\n"));
    }

    /// Also the text of help: there a quote need not be escaped, and may be.
    fn escaped(&mut self, text: &str) {
        for letter in text.chars() {
            match letter {
                '\\' => self.written.push_str("\\\\"),
                '"' => self.written.push_str("\\\""),
                '\n' => self.written.push_str("\\n"),
                other => self.written.push(other),
            }
        }
    }
}

/// The suffix of a family's name in its samples of one number.
fn counted(family: &MetricFamily) -> &'static str {
    if family.r#type() == Type::Counter { "_total" } else { "" }
}

/// The word for the type of a family; `unknown` for one that a later version has.
pub fn kind(family: &MetricFamily) -> &'static str {
    match family.r#type() {
        Type::Gauge => "gauge",
        Type::Counter => "counter",
        Type::Summary => "summary",
        Type::Unspecified => "unknown",
    }
}

/// A number as the text has it.
struct Number(f64);

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            number if number.is_nan() => f.write_str("NaN"),
            f64::INFINITY => f.write_str("+Inf"),
            f64::NEG_INFINITY => f.write_str("-Inf"),
            number => write!(f, "{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kelson_proto::v1::MetricSummary;

    fn family(name: &str, kind: Type, unit: &str, labels: &[&str]) -> MetricFamily {
        MetricFamily {
            name: name.into(),
            help: "What it tells.".into(),
            r#type: kind.into(),
            unit: unit.into(),
            labels: labels.iter().map(|&label| label.into()).collect(),
            samples: Vec::new(),
        }
    }

    fn sample(labels: &[&str], value: Value) -> MetricSample {
        MetricSample { labels: labels.iter().map(|&label| label.into()).collect(), value: Some(value) }
    }

    fn text(families: &[MetricFamily]) -> String {
        let mut text = Text::default();
        families.iter().for_each(|family| text.family(family));
        text.take() + END
    }

    #[test]
    fn each_type_in_its_own_way() {
        let mut up = family("kelson_service_up", Type::Gauge, "", &["service"]);
        up.samples = vec![sample(&["db"], Value::Number(1.0)), sample(&["web"], Value::Number(0.0))];
        let mut cpu = family("kelson_init_cpu_seconds", Type::Counter, "seconds", &[]);
        cpu.samples = vec![sample(&[], Value::Number(1.25))];
        let mut starts =
            family("kelson_check_duration_seconds", Type::Summary, "seconds", &["service", "check"]);
        let summary = MetricSummary { count: 3, sum: 0.1 };
        starts.samples = vec![sample(&["db", "http"], Value::Summary(summary))];
        assert_eq!(
            text(&[up, cpu, starts]),
            "\
# TYPE kelson_service_up gauge
# HELP kelson_service_up What it tells.
kelson_service_up{service=\"db\"} 1
kelson_service_up{service=\"web\"} 0
# TYPE kelson_init_cpu_seconds counter
# UNIT kelson_init_cpu_seconds seconds
# HELP kelson_init_cpu_seconds What it tells.
kelson_init_cpu_seconds_total 1.25
# TYPE kelson_check_duration_seconds summary
# UNIT kelson_check_duration_seconds seconds
# HELP kelson_check_duration_seconds What it tells.
kelson_check_duration_seconds_count{service=\"db\",check=\"http\"} 3
kelson_check_duration_seconds_sum{service=\"db\",check=\"http\"} 0.1
# EOF
"
        );
    }

    #[test]
    fn the_classic_format_names_counters_as_their_samples() {
        let mut cpu = family("kelson_init_cpu_seconds", Type::Counter, "seconds", &[]);
        cpu.help = "CPU \"time\",\nC:\\".into();
        cpu.samples = vec![sample(&[], Value::Number(1.25))];
        let mut other = family("kelson_other", Type::Unspecified, "", &["a"]);
        other.samples = vec![sample(&["\"x\""], Value::Number(2.0))];
        let mut text = Text::new(Format::Prometheus);
        [cpu, other].iter().for_each(|family| text.family(family));
        assert_eq!(
            text.take(),
            "\
# TYPE kelson_init_cpu_seconds_total counter
# HELP kelson_init_cpu_seconds_total CPU \"time\",\\nC:\\\\
kelson_init_cpu_seconds_total 1.25
# TYPE kelson_other untyped
# HELP kelson_other What it tells.
kelson_other{a=\"\\\"x\\\"\"} 2
"
        );
    }

    #[test]
    fn a_family_in_parts_has_one_head() {
        let mut first = family("kelson_service_up", Type::Gauge, "", &["service"]);
        let mut second = first.clone();
        first.samples = vec![sample(&["a"], Value::Number(1.0))];
        second.samples = vec![sample(&["b"], Value::Number(1.0))];
        let text = text(&[first, second]);
        assert_eq!(text.matches("# TYPE").count(), 1, "{text}");
        assert!(text.contains("{service=\"a\"} 1\nkelson_service_up{service=\"b\"} 1\n# EOF\n"), "{text}");
    }

    #[test]
    fn no_value_breaks_out_of_its_line() {
        let mut phase = family("kelson_boot", Type::Gauge, "", &["phase"]);
        phase.help = "a \"b\"\nc\\d".into();
        phase.samples = vec![sample(&["x\"} 1\ny\\grüß"], Value::Number(f64::NAN))];
        let text = text(&[phase]);
        assert!(text.contains("# HELP kelson_boot a \\\"b\\\"\\nc\\\\d\n"), "{text}");
        assert!(text.contains("kelson_boot{phase=\"x\\\"} 1\\ny\\\\grüß\"} NaN\n"), "{text}");
    }

    #[test]
    fn numbers_that_are_none_have_words() {
        for (number, word) in [
            (f64::INFINITY, "+Inf"),
            (f64::NEG_INFINITY, "-Inf"),
            (1e21, "1000000000000000000000"),
            (0.5, "0.5"),
        ] {
            assert_eq!(Number(number).to_string(), word);
        }
    }
}
