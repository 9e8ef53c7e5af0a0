//! The effect of keys.

use super::{Mode, Model, Pane};
use crate::commands::acting::Action;
use crate::dashboard::keys::Key;
use crate::output::Tone;

/// An effect outside of the model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    Quit,
    /// Redraw everything: something else has written on the terminal.
    Redraw,
    Act(Action, String),
}

impl Model {
    /// A key was pressed.
    pub fn press(&mut self, key: Key) -> Option<Effect> {
        match key {
            Key::Interrupt => return Some(Effect::Quit),
            Key::Redraw => return Some(Effect::Redraw),
            _ => {}
        }
        self.said = None;
        match &self.mode {
            Mode::Browse => return self.browse(key),
            Mode::Filter => self.type_name(key),
            Mode::Confirm(..) => return self.confirm(key),
            Mode::Help => self.mode = Mode::Browse,
        }
        None
    }

    fn browse(&mut self, key: Key) -> Option<Effect> {
        match key {
            Key::Char('q') => return Some(Effect::Quit),
            Key::Char('?' | 'h') => self.mode = Mode::Help,
            Key::Char('/') => self.mode = Mode::Filter,
            Key::Char('1' | 'l') => self.open(Pane::Logs),
            Key::Char('2' | 'e') => self.open(Pane::Events),
            Key::Char('3' | 'g') => self.open(Pane::Graph),
            Key::Char('4' | 'd') => self.open(Pane::Details),
            Key::Char('s') => self.ask(Action::Start { with_dependencies: false }),
            Key::Char('x') => self.ask(Action::Stop { cascade: false }),
            Key::Char('r') => self.ask(Action::Restart),
            Key::Tab if !self.zoomed => self.in_pane = !self.in_pane,
            Key::Enter => {
                self.zoomed = !self.zoomed;
                self.in_pane = self.zoomed;
            }
            Key::Escape if self.zoomed || self.in_pane => (self.zoomed, self.in_pane) = (false, false),
            Key::Escape => {
                self.filter.clear();
                self.choose_near();
            }
            Key::Up | Key::Char('k') => self.go(-1),
            Key::Down | Key::Char('j') => self.go(1),
            Key::PageUp => self.go(-self.page()),
            Key::PageDown => self.go(self.page()),
            Key::Home => self.go(isize::MIN),
            Key::End => self.go(isize::MAX),
            _ => {}
        }
        None
    }

    fn type_name(&mut self, key: Key) {
        match key {
            Key::Enter => self.mode = Mode::Browse,
            Key::Escape => {
                self.mode = Mode::Browse;
                self.filter.clear();
            }
            Key::Backspace => drop(self.filter.pop()),
            Key::Char(letter) => self.filter.push(letter),
            _ => {}
        }
        self.choose_near();
    }

    fn confirm(&mut self, key: Key) -> Option<Effect> {
        let yes = match key {
            Key::Char('y' | 'Y') => true,
            Key::Char('n' | 'N') | Key::Escape => false,
            _ => return None,
        };
        let Mode::Confirm(action, name, _) = std::mem::replace(&mut self.mode, Mode::Browse) else {
            return None;
        };
        if !yes {
            self.said = Some((Tone::Plain, format!("{name}: left as it is")));
            return None;
        }
        self.said = Some((Tone::Busy, format!("{name}: the host is asked to {} it", verb(action))));
        Some(Effect::Act(action, name))
    }

    fn ask(&mut self, action: Action) {
        if let Some((_, service)) = self.chosen() {
            let text = format!("{} \"{}\"?", verb(action), service.name);
            self.mode = Mode::Confirm(action, service.name.clone(), text);
        }
    }

    fn open(&mut self, pane: Pane) {
        if self.pane != pane {
            self.pane = pane;
            (self.bottom, self.top, self.no_detail) = (None, 0, None);
        }
    }

    /// How far a page leads: one line of the last is seen again.
    fn page(&self) -> isize {
        let lines = if self.in_pane { self.shown.pane } else { self.shown.table };
        isize::try_from(lines.saturating_sub(1)).unwrap_or(isize::MAX).max(1)
    }

    /// Moves the choice, or the pane, by this many lines.
    fn go(&mut self, lines: isize) {
        match (self.in_pane, self.followed()) {
            (false, _) => {
                let listed = self.listed();
                let place = self.place.saturating_add_signed(lines).min(listed.len().saturating_sub(1));
                if let Some(name) = listed.get(place).map(|service| service.name.clone()) {
                    self.choose(place, name);
                }
            }
            (true, Some((first, end))) if first < end => {
                let (newest, by) = (end - 1, i64::try_from(lines).unwrap_or_default());
                let item = self.bottom.unwrap_or(newest).saturating_add_signed(by).clamp(first, newest);
                self.bottom = (item < newest).then_some(item);
            }
            (true, Some(_)) => {}
            (true, None) => self.top = self.top.saturating_add_signed(lines),
        }
    }
}

/// The word for it.
fn verb(action: Action) -> &'static str {
    match action {
        Action::Start { .. } => "start",
        Action::Stop { .. } => "stop",
        Action::Restart => "restart",
    }
}
