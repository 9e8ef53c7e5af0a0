//! Which of its files a run uses.

use std::collections::BTreeMap;

use super::acts::Play;
use super::deeds::Reading;
use super::world::version_number;

#[derive(Default)]
pub struct LawsOfFiles {
    /// So many runs of each service were looked at.
    mains: BTreeMap<String, usize>,
}

impl LawsOfFiles {
    /// Each run uses the file that was read last before the run was reported, regardless of the caller and of
    /// the incarnation.
    pub fn ask(&mut self, play: &Play, readings: &BTreeMap<String, Reading>, wrongs: &mut Vec<String>) {
        let book = play.book.lock().unwrap();
        let read = play.versions_read.lock().unwrap();
        for (name, reading) in readings {
            let seen = self.mains.entry(name.clone()).or_default();
            for main in &reading.mains[*seen..] {
                let run = format!("run {}", main.run);
                let told = book.events.iter().rev().find(|(at, event)| {
                    let of_it = *event.service == **name && event.run == main.run;
                    of_it && *at <= main.begun && event.message.starts_with(&run)
                });
                let Some((told, _)) = told.filter(|(_, event)| !book.late.contains(&event.seq)) else {
                    continue;
                };
                let known = read.get(name).into_iter().flatten().rev().find(|(at, _)| at < told);
                let (_, used) = version_number(&main.command);
                if let Some((_, newest)) = known.filter(|(_, newest)| used < *newest) {
                    wrongs
                        .push(format!("{name}: its file {newest} was read before, and not used by {main:?}"));
                }
            }
            *seen = reading.mains.len();
        }
    }
}
