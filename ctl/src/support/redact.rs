//! Removes texts that look like secrets from the archive before it leaves the host. Asks nothing and keeps
//! nothing but counts.
//!
//! No rule tells a secret from another word for certain. So names decide, and the few forms that everybody uses: where
//! in doubt a word too many goes, since one too few cannot be called back.

mod line;

use std::collections::BTreeMap;

use serde_yaml::Value;

use line::GONE;

/// A private key has fewer lines; what goes on for longer has lost its end.
const KEY_LINES: usize = 400;

const BEGIN: &str = "-----BEGIN ";
const END: &str = "-----END ";
const KEY: &str = "PRIVATE KEY-----";

/// Takes secrets out, and counts them by their kind.
#[derive(Debug, Default)]
pub struct Redactor {
    /// Kinds: `environment`, `arguments`, `assignments`, `urls`, `authorization`, `privateKeys`, `specs`.
    pub removed: BTreeMap<&'static str, u64>,
}

impl Redactor {
    fn count(&mut self, kind: &'static str) {
        *self.removed.entry(kind).or_default() += 1;
    }

    /// Text of several lines.
    pub fn text(&mut self, text: &str) -> String {
        self.lines(text.split('\n').map(str::to_owned).collect()).join("\n")
    }

    /// Lines that follow each other; as many come back, so that each can have its own words in front.
    pub fn lines(&mut self, lines: Vec<String>) -> Vec<String> {
        let mut out: Vec<String> = Vec::with_capacity(lines.len());
        // How many lines of a key have gone by.
        let mut inside: Option<usize> = None;
        for line in lines {
            if let Some(gone) = inside {
                match marker(&line, END) {
                    Some((_, end)) => {
                        inside = None;
                        let rest = line.get(end..).unwrap_or_default().to_owned();
                        out.push(format!("{GONE}{}", self.line(&rest)));
                    }
                    None => {
                        inside = (gone < KEY_LINES).then_some(gone + 1);
                        out.push(GONE.to_owned());
                    }
                }
                continue;
            }
            let line = self.whole_keys(line);
            if let Some((start, _)) = marker(&line, BEGIN) {
                self.count("privateKeys");
                inside = Some(0);
                let front = line.get(..start).unwrap_or_default().to_owned();
                out.push(format!("{}{GONE}", self.line(&front)));
            } else if let Some((_, end)) = marker(&line, END) {
                // It began before the first line that is kept.
                self.count("privateKeys");
                let body = out.iter_mut().rev().take_while(|line| is_base64(line));
                body.for_each(|line| GONE.clone_into(line));
                let rest = line.get(end..).unwrap_or_default().to_owned();
                out.push(format!("{GONE}{}", self.line(&rest)));
            } else {
                out.push(self.line(&line));
            }
        }
        out
    }

    /// Keys that begin and end on one line, as JSON has them.
    fn whole_keys(&mut self, mut line: String) -> String {
        let mut from = 0;
        while let Some((start, body)) = line.get(from..).and_then(|rest| marker(rest, BEGIN)) {
            let Some((_, end)) = line.get(from + body..).and_then(|rest| marker(rest, END)) else { break };
            line.replace_range(from + start..from + body + end, GONE);
            self.count("privateKeys");
            from += start + GONE.len();
        }
        line
    }

    /// A line without a line break.
    fn line(&mut self, line: &str) -> String {
        let line = line::authorization(line, &mut |kind| self.count(kind));
        let line = line::urls(&line, &mut |kind| self.count(kind));
        let line = line::options(&line, &mut |kind| self.count(kind));
        line::assignments(&line, &mut |kind| self.count(kind))
    }

    /// A command line, word by word: a word may be the name of what the next one is.
    pub fn arguments(&mut self, words: &[String]) -> Vec<String> {
        let mut follows = false;
        words
            .iter()
            .map(|word| {
                // A secret that was removed already is counted.
                let is_gone = word.starts_with(GONE);
                if std::mem::take(&mut follows) && !word.starts_with('-') && !word.is_empty() && !is_gone {
                    self.count("arguments");
                    return GONE.to_owned();
                }
                if word.contains(char::is_whitespace) {
                    return self.phrase(word);
                }
                let name = word.trim_start_matches('-');
                match name.split_once('=') {
                    Some((name, value))
                        if line::names_argument(name) && !value.is_empty() && !value.starts_with(GONE) =>
                    {
                        self.count("arguments");
                        let front = word.get(..word.len() - value.len()).unwrap_or_default();
                        format!("{front}{GONE}")
                    }
                    Some(_) => self.text(word),
                    None => {
                        let bare = ["token", "secret", "password", "passphrase", "key", "bearer"];
                        follows = match word.starts_with('-') {
                            true => line::names_argument(name),
                            false => bare.iter().any(|bare| word.eq_ignore_ascii_case(bare)),
                        };
                        self.text(word)
                    }
                }
            })
            .collect()
    }

    /// A word that is a command line itself: `sh -c "…"`, or the title of a process.
    fn phrase(&mut self, phrase: &str) -> String {
        // As a whole first: a header is more than a word.
        let phrase = self.text(phrase);
        let words: Vec<String> = phrase.split_whitespace().map(str::to_owned).collect();
        let safe = self.arguments(&words);
        let mut out = String::with_capacity(phrase.len());
        let mut rest = phrase.as_str();
        for (word, safe) in words.iter().zip(&safe) {
            let (gap, behind) = rest.split_once(word.as_str()).unwrap_or(("", rest));
            out = out + gap + safe;
            rest = behind;
        }
        out + rest
    }

    /// All that a document holds.
    pub fn value(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Sequence(items) if items.iter().all(Value::is_string) => {
                let words: Vec<String> =
                    items.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect();
                *items = self.arguments(&words).into_iter().map(Value::String).collect();
            }
            Value::Sequence(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Mapping(fields) => {
                for (name, value) in fields.iter_mut() {
                    self.field(name.as_str().unwrap_or_default(), value);
                }
            }
            Value::Tagged(tagged) => self.value(&mut tagged.value),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn field(&mut self, name: &str, value: &mut Value) {
        let secret = line::names_secret(name) || name.eq_ignore_ascii_case("authorization");
        match value {
            // Names tell what a service is given; what it is given stays with it.
            Value::Mapping(variables) if name == "environment" => {
                for (_, value) in variables.iter_mut() {
                    *value = GONE.into();
                    self.count("environment");
                }
            }
            Value::Sequence(variables) if name == "environment" => {
                for variable in variables.iter_mut() {
                    let name = variable.as_str().and_then(|text| text.split('=').next()).unwrap_or_default();
                    *variable = format!("{name}={GONE}").into();
                    self.count("environment");
                }
            }
            // It could not be read as what it is, so nothing is known of what stands in it.
            Value::String(_) if name == "spec" => {
                *value = GONE.into();
                self.count("specs");
            }
            Value::String(text) if secret && !text.is_empty() => {
                *value = GONE.into();
                self.count("assignments");
            }
            value => self.value(value),
        }
    }
}

/// Where a marker of a private key begins and ends.
fn marker(text: &str, word: &str) -> Option<(usize, usize)> {
    let mut from = 0;
    loop {
        let start = from + text.get(from..)?.find(word)?;
        let behind = start + word.len();
        let rest = text.get(behind..)?;
        // `RSA `, `EC `, `ENCRYPTED `, or nothing stands between.
        let kind = rest.find("-----").unwrap_or(rest.len());
        if rest.get(..kind + 5).is_some_and(|label| label.ends_with(KEY)) {
            return Some((start, behind + kind + 5));
        }
        from = behind;
    }
}

/// A line such as a key is made of.
fn is_base64(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && line.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
}

#[cfg(test)]
mod tests;
