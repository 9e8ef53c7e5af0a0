//! The two formats of the text, and which of them a reader wants.

/// How the text is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Format {
    /// OpenMetrics 1.0.0.
    #[default]
    OpenMetrics,
    /// The classic text format of Prometheus, 0.0.4.
    Prometheus,
}

impl Format {
    /// The type of the text, as HTTP names it.
    pub const fn content_type(self) -> &'static str {
        match self {
            Format::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Format::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
        }
    }

    /// Media type and version.
    const fn offered(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Format::OpenMetrics => ("application", "openmetrics-text", "1.0.0"),
            Format::Prometheus => ("text", "plain", "0.0.4"),
        }
    }

    /// The format that these `Accept` headers want most. Where they want both alike, or neither, it is OpenMetrics: a
    /// reader that cannot take it sees what it is by its content type.
    pub fn wanted<'a>(accept: impl Iterator<Item = &'a str>) -> Format {
        let ranges: Vec<&str> = accept.flat_map(|header| header.split(',')).collect();
        let quality = |format: Format| {
            let fits = ranges.iter().filter_map(|range| fit(range, format));
            // The range that says most about it decides.
            fits.max_by_key(|(precision, _)| *precision).map_or(0, |(_, quality)| quality)
        };
        match quality(Format::Prometheus) > quality(Format::OpenMetrics) {
            true => Format::Prometheus,
            false => Format::OpenMetrics,
        }
    }
}

/// How precisely a range names a format, and how much it is wanted, in thousandths. `None`: it means another.
fn fit(range: &str, format: Format) -> Option<(u8, u16)> {
    let (kind, subtype, version) = format.offered();
    let mut parts = range.split(';').map(str::trim);
    let (first, second) = parts.next()?.split_once('/')?;
    let is = |word: &str, other: &str| word.eq_ignore_ascii_case(other);
    let mut precision = match (first, second) {
        ("*", "*") => 0,
        (first, "*") if is(first, kind) => 1,
        (first, second) if is(first, kind) && is(second, subtype) => 2,
        _ => return None,
    };
    let mut quality = 1000;
    for (name, value) in parts.filter_map(|part| part.split_once('=')) {
        let value = value.trim().trim_matches('"');
        match name.trim() {
            name if is(name, "q") => quality = thousandths(value),
            name if is(name, "version") && value == version => precision = 3,
            name if is(name, "version") => return None,
            _ => {}
        }
    }
    Some((precision, quality))
}

/// A weight from 0 to 1; one that is none counts as 1.
fn thousandths(text: &str) -> u16 {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = format!("{fraction:0<3}");
    match (whole, digits.get(..3).and_then(|digits| digits.parse::<u16>().ok())) {
        ("0", Some(thousandths)) => thousandths,
        _ => 1000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(accept: &[&str]) -> Format {
        Format::wanted(accept.iter().copied())
    }

    #[test]
    fn scrapers_get_what_they_ask_for() {
        // Prometheus 2.42, 3.0, and the classic clients.
        let both = "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
                    text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        assert_eq!(wanted(&[both]), Format::OpenMetrics);
        let third = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
                     text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        assert_eq!(wanted(&[third]), Format::OpenMetrics);
        assert_eq!(wanted(&["text/plain;version=0.0.4;q=1,*/*;q=0.1"]), Format::Prometheus);
        let old = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited; q=0.7, \
                   text/plain; version=0.0.4; q=0.3, */*;q=0.1";
        assert_eq!(wanted(&[old]), Format::Prometheus);
        for either in [&[][..], &["*/*"], &["text/html,*/*;q=0.8"], &["application/json"], &[""], &[";;,/"]] {
            assert_eq!(wanted(either), Format::OpenMetrics, "{either:?}");
        }
    }

    #[test]
    fn the_range_that_says_most_decides() {
        assert_eq!(wanted(&["text/plain"]), Format::Prometheus);
        assert_eq!(wanted(&["TEXT/*"]), Format::Prometheus);
        assert_eq!(wanted(&["*/*;q=0.9", "text/plain;q=0.2"]), Format::OpenMetrics);
        assert_eq!(wanted(&["*/*, application/openmetrics-text;q=0"]), Format::Prometheus);
        assert_eq!(
            wanted(&["application/openmetrics-text; version=2.0.0, text/plain;q=0.1"]),
            Format::Prometheus
        );
        assert_eq!(
            wanted(&["text/plain;version=\"0.0.4\";Q=0.51", "application/openmetrics-text;q=0.5"]),
            Format::Prometheus
        );
    }

    #[test]
    fn a_weight_is_a_number_of_thousandths() {
        for (text, weight) in [
            ("1", 1000),
            ("1.000", 1000),
            ("0", 0),
            ("0.5", 500),
            ("0.123456", 123),
            ("x", 1000),
            ("0.x", 1000),
        ] {
            assert_eq!(thousandths(text), weight, "{text}");
        }
    }
}
