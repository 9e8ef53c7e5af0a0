//! The last lines: a problem, a question, a message, or the keys.

use super::text::{Text, external, wrapped};
use crate::commands::acting::Action;
use crate::dashboard::model::{Link, Mode, Model};
use crate::output::Tone;

/// More rows than these a sentence does not get.
const MOST: usize = 3;

pub fn rows(model: &Model, columns: usize) -> Vec<Text> {
    let mut rows = Vec::new();
    if let Link::Lost(reason) = &model.link {
        let lost = external(Tone::Bad, &format!("not connected: {reason}; trying again"));
        rows.extend(wrapped(vec![lost], columns).into_iter().take(MOST));
    }
    let text = match (&model.mode, &model.said) {
        (Mode::Confirm(action, _, said), _) => {
            let more = match action {
                Action::Stop { cascade: true } => ". Use --cascade?",
                _ => "",
            };
            external(Tone::Waiting, &format!("{said}{more} (y/n)"))
        }
        (Mode::Filter, _) => {
            external(Tone::Busy, &format!("/{}_  (Enter keeps it, Esc shows all)", model.filter))
        }
        (Mode::Help, _) => (Tone::Quiet, "any key goes back".to_owned()),
        (Mode::Browse, Some((tone, said))) => external(*tone, said),
        (Mode::Browse, None) => (Tone::Quiet, keys(model).to_owned()),
    };
    let hint = model.mode == Mode::Browse && model.said.is_none();
    rows.extend(wrapped(vec![text], columns).into_iter().take(if hint { 1 } else { MOST }));
    rows
}

fn keys(model: &Model) -> &'static str {
    match (model.zoomed, model.in_pane) {
        (true, _) => "? keys  Esc table  PgUp PgDn  s start  x stop  r restart  q quit",
        (false, true) => "? keys  Tab table  Enter whole  PgUp PgDn  s start  x stop  r restart  q quit",
        (false, false) => "? keys  Tab pane  Enter whole  / filter  s start  x stop  r restart  q quit",
    }
}
