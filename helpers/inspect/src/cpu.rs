//! The work of the processors, and the number of processes that want one.

use std::time::SystemTime;

use kelson_proto::v1::{CpuResponse, CpuTimes};

use crate::answer::Unanswered;
use crate::pressure;
use crate::system::{System, lasting};

/// # Errors
/// When proc does not say it.
pub fn read(system: &System) -> Result<CpuResponse, Unanswered> {
    let stat = system.proc("stat").map_err(|error| Unanswered::reading("/proc/stat", &error))?;
    let mut response = CpuResponse { time: Some(SystemTime::now().into()), ..Default::default() };
    for line in stat.lines() {
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        let number = || rest.trim().parse().unwrap_or(0);
        match name {
            "cpu" => response.all = Some(times(system, 0, rest)),
            "ctxt" => response.switches = number(),
            "processes" => response.forks = number(),
            _ => {
                let processor = name.strip_prefix("cpu").and_then(|number| number.parse().ok());
                response.processors.extend(processor.map(|number| times(system, number, rest)));
            }
        }
    }
    let load = system.proc("loadavg").unwrap_or_default();
    let mut load = load.split_whitespace().map(|word| word.parse().unwrap_or(0.0));
    response.load_1 = load.next().unwrap_or(0.0);
    response.load_5 = load.next().unwrap_or(0.0);
    response.load_15 = load.next().unwrap_or(0.0);
    let info = system.proc("cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    response.model = model.map(|(_, name)| name.trim().to_owned()).unwrap_or_default();
    response.pressure = pressure::read(system, "cpu");
    Ok(response)
}

fn times(system: &System, number: u32, words: &str) -> CpuTimes {
    let mut words = words.split_whitespace();
    let mut next =
        || words.next().and_then(|word| word.parse().ok()).map(|ticks| lasting(system.ticks(ticks)));
    CpuTimes {
        number,
        user: next(),
        nice: next(),
        system: next(),
        idle: next(),
        io_wait: next(),
        irq: next(),
        soft_irq: next(),
        steal: next(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::testing::Played;

    #[test]
    fn each_processor_by_its_number() {
        let played = Played::new(&[
            (
                "proc/stat",
                "cpu  100 0 50 1000 5 1 2 3 0 0\ncpu0 50 0 25 500 1 1 1 1 0 0\ncpu3 50 0 25 500\nintr 5 6\nctxt 77\nprocesses 9\n",
            ),
            ("proc/loadavg", "0.50 1.25 x 1/100 1234\n"),
            ("proc/cpuinfo", "processor\t: 0\nmodel name\t: A: fast one\n"),
        ]);
        let cpu = read(&played.system).unwrap();
        let all = cpu.all.unwrap();
        assert_eq!((all.user.unwrap().seconds, all.steal.unwrap().nanos), (1, 30_000_000));
        assert_eq!(cpu.processors.iter().map(|one| one.number).collect::<Vec<_>>(), [0, 3]);
        assert_eq!(cpu.processors[1].io_wait, None);
        assert_eq!((cpu.switches, cpu.forks, cpu.model.as_str()), (77, 9, "A: fast one"));
        assert_eq!((cpu.load_1, cpu.load_5, cpu.load_15), (0.5, 1.25, 0.0));
    }

    #[test]
    fn this_machine_has_processors() {
        let cpu = read(&System::real()).unwrap();
        assert!(!cpu.processors.is_empty() && cpu.forks > 0);
    }
}
