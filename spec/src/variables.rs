//! Variables in the `meta` of a registration: `${host.name}`, `${port}`, `${port.NAME}` and `${fact.NAME}`. `$${` stands for
//! `${`.

use std::borrow::Cow;
use std::fmt;

use crate::facts::is_number;
use crate::service::SocketSpec;

/// What stands in `${…}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variable<'t> {
    /// The name of the host in its fleet.
    HostName,
    /// The port of the registration.
    Port,
    /// The port of the socket of this name.
    PortOf(&'t str),
    /// The fact of this name.
    Fact(&'t str),
}

/// Its name.
impl fmt::Display for Variable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Variable::HostName => f.write_str("host.name"),
            Variable::Port => f.write_str("port"),
            Variable::PortOf(socket) => write!(f, "port.{socket}"),
            Variable::Fact(name) => write!(f, "fact.{name}"),
        }
    }
}

/// Why a text cannot be expanded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfit<'t> {
    #[error("${{{0} has no closing brace; write ${{NAME}}, or $${{ for the signs themselves")]
    Unclosed(&'t str),
    #[error(
        "${{{0}}} is no variable; write ${{host.name}}, ${{port}}, ${{port.NAME}} or ${{fact.NAME}}, or $${{ for the signs themselves"
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

/// The text with the ports of sockets in the place of their variables. All else stays as it is written.
///
/// # Errors
/// The first variable for whose socket `port` gives `None`, or the first mistake.
pub fn expand_ports(text: &str, port: impl Fn(&str) -> Option<u32>) -> Result<String, String> {
    let value = |variable| match variable {
        Variable::PortOf(socket) => port(socket).map(|port| Cow::Owned(port.to_string())),
        other => Some(Cow::Owned(format!("${{{other}}}"))),
    };
    // What stands for `${` still does afterwards.
    expand(&text.replace("$${", "$$${"), value).map_err(|unfit| match unfit {
        Unfit::Absent(name) => format!("${{{name}}}"),
        unfit => unfit.to_string(),
    })
}

fn variable(name: &str) -> Option<Variable<'_>> {
    let is_of_socket = |socket: &&str| !socket.is_empty() && socket.chars().all(SocketSpec::is_of_name);
    match name {
        "host.name" => Some(Variable::HostName),
        "port" => Some(Variable::Port),
        _ => match name.strip_prefix("port.") {
            Some(socket) => Some(socket).filter(is_of_socket).map(Variable::PortOf),
            None => name.strip_prefix("fact.").filter(|fact| is_number(fact).is_some()).map(Variable::Fact),
        },
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
            Variable::Fact(_) | Variable::PortOf(_) => None,
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
    fn ports_of_sockets_are_filled_in_and_all_else_stays() {
        let expanded = |text| expand_ports(text, |socket| (socket == "http").then_some(8080));
        for (text, whole) in [
            ("http://${host.name}:${port.http}/", "http://${host.name}:8080/"),
            ("${port} ${fact.platform}", "${port} ${fact.platform}"),
            ("$${port.http} $$${port.http} $5", "$${port.http} $$${port.http} $5"),
        ] {
            assert_eq!(expanded(text), Ok(whole.to_owned()), "{text}");
        }
        assert_eq!(expanded("${port.https}"), Err("${port.https}".to_owned()));
    }

    #[test]
    fn what_is_no_variable_is_named() {
        for (text, why) in [
            ("a${port", "${port has no closing brace; write ${NAME}, or $${ for the signs themselves"),
            (
                "${}",
                "${} is no variable; write ${host.name}, ${port}, ${port.NAME} or ${fact.NAME}, or $${ for the signs themselves",
            ),
            (
                "${fact.colour}",
                "${fact.colour} is no variable; write ${host.name}, ${port}, ${port.NAME} or ${fact.NAME}, or $${ for the signs themselves",
            ),
            ("${fact.boot.id}", "there is no fact.boot.id"),
            ("${port.http}", "there is no port.http"),
            (
                "${port.a b}",
                "${port.a b} is no variable; write ${host.name}, ${port}, ${port.NAME} or ${fact.NAME}, or $${ for the signs themselves",
            ),
        ] {
            assert_eq!(expanded(text), Err(why.to_owned()), "{text}");
        }
    }
}
