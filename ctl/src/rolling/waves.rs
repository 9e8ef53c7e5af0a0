//! The sizes of waves: `1,10%,all`.

use std::str::FromStr;

/// How many hosts a wave has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Size {
    Hosts(usize),
    /// Of all hosts, rounded up.
    Percent(usize),
    /// All that are left.
    All,
}

/// The sizes of waves, one after the other. The last one is used again until no host is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waves(Vec<Size>);

impl Waves {
    /// How many of this number of hosts are in each wave.
    pub fn split(&self, hosts: usize) -> Vec<usize> {
        let (mut left, mut waves) = (hosts, Vec::new());
        let last = self.0.last().copied().unwrap_or(Size::All);
        let sizes = self.0.iter().copied().chain(std::iter::repeat(last));
        for size in sizes {
            if left == 0 {
                break;
            }
            let wave = match size {
                Size::Hosts(count) => count,
                Size::Percent(percent) => hosts.saturating_mul(percent).div_ceil(100),
                Size::All => left,
            };
            let wave = wave.clamp(1, left);
            waves.push(wave);
            left -= wave;
        }
        waves
    }
}

impl FromStr for Waves {
    type Err = String;

    fn from_str(text: &str) -> Result<Waves, String> {
        let words: Vec<&str> = text.split(',').map(str::trim).collect();
        let mut sizes = Vec::new();
        for (at, word) in words.iter().enumerate() {
            let wrong = |why: &str| format!("wave {} is {word:?}: {why}", at + 1);
            sizes.push(match (*word, word.strip_suffix('%')) {
                ("all", _) if at + 1 < words.len() => {
                    return Err(wrong("nothing is left for the waves after it"));
                }
                ("all", _) => Size::All,
                (_, Some(percent)) => match percent.parse() {
                    Ok(percent @ 1..=100) => Size::Percent(percent),
                    _ => return Err(wrong("a part of the hosts is 1% to 100%")),
                },
                (count, None) => match count.parse() {
                    Ok(0) => return Err(wrong("a wave has one host or more")),
                    Ok(count) => Size::Hosts(count),
                    Err(_) => return Err(wrong("write a number of hosts, a percentage such as 10%, or all")),
                },
            });
        }
        Ok(Waves(sizes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_split_into_waves_and_none_is_left() {
        for (text, hosts, waves) in [
            ("1,10%,all", 100, &[1, 10, 89][..]),
            ("1,10%,all", 11, &[1, 2, 8]),
            ("1,10%,all", 2, &[1, 1]),
            ("1,10%,all", 1, &[1]),
            ("1,10%,all", 0, &[]),
            ("1", 3, &[1, 1, 1]),
            ("1, 2", 6, &[1, 2, 2, 1]),
            ("all", 4, &[4]),
            ("50%", 3, &[2, 1]),
            ("1%", 3, &[1, 1, 1]),
            ("100%", 3, &[3]),
            ("18446744073709551615", 3, &[3]),
        ] {
            let split = text.parse::<Waves>().unwrap().split(hosts);
            assert_eq!(split, waves, "{text} of {hosts}");
            assert_eq!(split.iter().sum::<usize>(), hosts);
        }
    }

    #[test]
    fn mistakes_are_pointed_at() {
        for (text, said) in [
            ("", "wave 1 is \"\": write a number of hosts, a percentage such as 10%, or all"),
            ("1,,all", "wave 2 is \"\": write"),
            ("0", "wave 1 is \"0\": a wave has one host or more"),
            ("1,101%", "wave 2 is \"101%\": a part of the hosts is 1% to 100%"),
            ("0%", "wave 1 is \"0%\": a part"),
            ("1,all,2", "wave 2 is \"all\": nothing is left for the waves after it"),
            ("-1", "wave 1 is \"-1\": write"),
            ("1;2", "wave 1 is \"1;2\": write"),
        ] {
            let error = text.parse::<Waves>().unwrap_err();
            assert!(error.starts_with(said), "{error}");
        }
    }
}
