//! `umask`, `nice`, `oomScoreAdjust` and `cpuAffinity`.

use super::at::At;
use super::codec::Codec;
use super::mapping::{Mapping, keys};
use super::values::{four_octal, integer, span};
use kelson_spec::service::{Attributes, ServiceSpec};

/// The permissions of a file, which a umask takes away.
const PERMISSIONS: u32 = 0o777;
/// The last CPU that a kernel can have.
const LAST_CPU: u16 = 8191;
/// CPUs of one word of the kernel's set.
const BITS: u16 = 64;

/// Adds these keys to those of a service.
pub fn attributes(mapping: Mapping<ServiceSpec>) -> Mapping<ServiceSpec> {
    keys! {
        mapping;
        key "umask" (at(|of| of.umask, |of, umask| of.umask = umask)) if Units =
            four_octal("umask", PERMISSIONS, "0027"),
            "the permissions that a new file of it does not get";
        means "nice" (at(|of| of.nice, |of, nice| of.nice = nice)) if Units =
            integer(-20..=19).optional(), "that of `init`, 0",
            "-20: its processes come before others. 19: after them. See [nice](#umask-nice-oomscoreadjust-cpuaffinity)";
        means "oomScoreAdjust" (at(|of| of.oom_score, |of, score| of.oom_score = score)) if Units =
            integer(-1000..=1000).optional(),
            "0", "`oom_score_adj`: where memory is short, the kernel ends a process with a higher number first. \
             -1000: never this one";
        means "cpuAffinity" (at(|of| of.cpus.clone(), |of, cpus| of.cpus = cpus)) if Units = cpus(),
            "all that `init` may use", "the CPUs on which its processes run: `[0, 4-7]`";
    }
}

fn at<T: 'static>(
    get: impl Fn(&Attributes) -> T + 'static,
    put: impl Fn(&mut Attributes, T) + 'static,
) -> At<ServiceSpec, T> {
    At::new(
        move |spec: &ServiceSpec| Some(get(&spec.attributes)),
        move |spec, value| put(&mut spec.attributes, value),
    )
}

fn cpus() -> Codec<Vec<u64>> {
    let one = span(0..=LAST_CPU, ("CPU", "CPUs", "range of CPUs"), "4-7");
    one.list("a list of CPUs such as [0, 4-7]").parsed(|spans| Ok::<_, &str>(set(spans)), |set| spans(set))
}

fn set(spans: &[(u16, u16)]) -> Vec<u64> {
    let mut words = Vec::new();
    for cpu in spans.iter().flat_map(|(first, last)| *first..=*last) {
        let place = usize::from(cpu / BITS);
        if words.len() <= place {
            words.resize(place.saturating_add(1), 0);
        }
        if let Some(word) = words.get_mut(place) {
            *word |= 1_u64.wrapping_shl(u32::from(cpu % BITS));
        }
    }
    words
}

fn spans(set: &[u64]) -> Vec<(u16, u16)> {
    let has = |cpu: &u16| {
        let word = set.get(usize::from(cpu / BITS)).copied().unwrap_or_default();
        word.wrapping_shr(u32::from(cpu % BITS)) & 1 == 1
    };
    let mut spans: Vec<(u16, u16)> = Vec::new();
    for cpu in (0..=LAST_CPU).filter(has) {
        match spans.last_mut() {
            Some((_, last)) if last.saturating_add(1) == cpu => *last = cpu,
            _ => spans.push((cpu, cpu)),
        }
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_become_a_set_and_spans_again() {
        for (written, words, shown) in [
            (&[][..], &[][..], &[][..]),
            (&[(0, 0), (1, 1), (4, 7)], &[0b1111_0011], &[(0, 1), (4, 7)]),
            (&[(63, 64), (64, 66)], &[1 << 63, 0b111], &[(63, 66)]),
            (&[(130, 130)], &[0, 0, 0b100], &[(130, 130)]),
        ] {
            assert_eq!(set(written), words);
            assert_eq!(spans(words), shown);
        }
        assert_eq!(set(&[(LAST_CPU, LAST_CPU)]).len(), 128);
    }
}
