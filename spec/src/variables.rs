//! Variables in the `meta` of a registration: `${host.name}`, `${port}` and `${fact.NAME}`. `$${` stands for `${`.

use std::borrow::Cow;

use crate::facts::is_number;

/// What stands in `${…}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variable<'t> {
    /// The name of the host in its fleet.
    HostName,
    /// The port of the registration.
    Port,
    /// The fact of this name.
    Fact(&'t str),
}

/// Why a text cannot be expanded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit<'t> {
    #[error("${{{0} has no closing brace; write ${{NAME}}, or $${{ for the signs themselves")]
    Unclosed(&'t str),
    #[error(
        "${{{0}}} is no variable; write ${{host.name}}, ${{port}} or ${{fact.NAME}}, or $${{ for the signs themselves"
    )]
    Unknown(&'t str),
    /// The variable has no value.
    #[error("there is no {0}")]
    Absent(&'t str),
}

/// The text with the values of its variables. `value` gives `None` for one that has none.
///
/// # Errors
/// The first mistake, or the first variable without a value.
pub fn expand<'t>(
    text: &'t str,
    mut value: impl FnMut(Variable<'t>) -> Option<Cow<'t, str>>,
) -> Result<String, Unfit<'t>> {
    let (mut whole, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((front, behind)) = rest.split_once("${") {
        if let Some(front) = front.strip_suffix('$') {
            whole.push_str(front);
            whole.push_str("${");
            rest = behind;
            continue;
        }
        let (name, after) = behind.split_once('}').ok_or(Unfit::Unclosed(behind))?;
        let variable = variable(name).ok_or(Unfit::Unknown(name))?;
        whole.push_str(front);
        whole.push_str(&value(variable).ok_or(Unfit::Absent(name))?);
        rest = after;
    }
    whole.push_str(rest);
    Ok(whole)
}

fn variable(name: &str) -> Option<Variable<'_>> {
    match name {
        "host.name" => Some(Variable::HostName),
        "port" => Some(Variable::Port),
        _ => name.strip_prefix("fact.").filter(|fact| is_number(fact).is_some()).map(Variable::Fact),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str) -> Result<String, String> {
        let value = |variable| match variable {
            Variable::HostName => Some("edge-1".into()),
            Variable::Port => Some("80".into()),
            Variable::Fact("platform") => Some("aws".into()),
            Variable::Fact(_) => None,
        };
        expand(text, value).map_err(|unfit| unfit.to_string())
    }

    #[test]
    fn variables_have_values_and_other_signs_stay() {
        for (text, whole) in [
            ("", ""),
            ("plain $5 {x} $", "plain $5 {x} $"),
            ("http://${host.name}:${port}/", "http://edge-1:80/"),
            ("${fact.platform}", "aws"),
            ("$${port} $$${port}", "${port} $${port}"),
            ("ä${port}ö", "ä80ö"),
        ] {
            assert_eq!(expanded(text), Ok(whole.to_owned()), "{text}");
        }
    }

    #[test]
    fn what_is_no_variable_is_named() {
        for (text, why) in [
            ("a${port", "${port has no closing brace; write ${NAME}, or $${ for the signs themselves"),
            (
                "${}",
                "${} is no variable; write ${host.name}, ${port} or ${fact.NAME}, or $${ for the signs themselves",
            ),
            (
                "${fact.colour}",
                "${fact.colour} is no variable; write ${host.name}, ${port} or ${fact.NAME}, or $${ for the signs themselves",
            ),
            ("${fact.boot.id}", "there is no fact.boot.id"),
        ] {
            assert_eq!(expanded(text), Err(why.to_owned()), "{text}");
        }
    }
}
