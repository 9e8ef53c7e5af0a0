//! Which of several servers is believed: one of the largest group whose answers can all be true at once.

/// The answer of one server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Answer {
    /// Which of the servers, in the order of the file.
    pub server: usize,
    /// Seconds that are to be added to the clock.
    pub offset: f64,
    /// Seconds that the question and the answer were under way. The true offset is at most half of it away.
    pub delay: f64,
}

/// Two good servers differ in as much, in seconds, beyond what their delays explain.
const TOLERANCE: f64 = 0.01;

impl Answer {
    fn range(&self) -> (f64, f64) {
        let half = self.delay.max(0.0) / 2.0 + TOLERANCE;
        (self.offset - half, self.offset + half)
    }

    fn contains(&self, offset: f64) -> bool {
        let (low, high) = self.range();
        (low..=high).contains(&offset)
    }
}

/// The outcome of a round.
#[derive(Debug, PartialEq)]
pub struct Choice {
    /// The one with the shortest delay among those that agree.
    pub best: Answer,
    /// Servers whose answers cannot be true if that one's is.
    pub disagreeing: Vec<usize>,
}

/// Chooses among answers in the order of the file. Where no group is the largest, the one with the server named first
/// counts. `None`: there are no answers.
pub fn choose(answers: &[Answer]) -> Option<Choice> {
    // The largest overlap of ranges begins at the lower end of one of them.
    let groups = answers.iter().map(|answer| {
        let (low, _) = answer.range();
        answers.iter().copied().filter(|other| other.contains(low)).collect::<Vec<Answer>>()
    });
    let first = |group: &Vec<Answer>| group.iter().map(|answer| answer.server).min();
    let group = groups.max_by_key(|group| (group.len(), std::cmp::Reverse(first(group))))?;
    let best = group.iter().copied().min_by(|a, b| a.delay.total_cmp(&b.delay))?;
    let disagreeing = answers.iter().filter(|answer| !group.contains(answer)).map(|answer| answer.server);
    Some(Choice { best, disagreeing: disagreeing.collect() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(list: &[(f64, f64)]) -> Vec<Answer> {
        let numbered = list.iter().enumerate();
        numbered.map(|(server, &(offset, delay))| Answer { server, offset, delay }).collect()
    }

    fn chosen(list: &[(f64, f64)]) -> Option<(usize, Vec<usize>)> {
        choose(&answers(list)).map(|choice| (choice.best.server, choice.disagreeing))
    }

    #[test]
    fn the_shortest_delay_among_those_that_agree_counts() {
        assert_eq!(chosen(&[]), None);
        assert_eq!(chosen(&[(12.0, 0.1)]), Some((0, vec![])));
        assert_eq!(chosen(&[(1.00, 0.2), (1.05, 0.02), (1.1, 0.3)]), Some((1, vec![])));
        // A negative delay can come from a clock that was set meanwhile.
        assert_eq!(chosen(&[(1.0, -3.0), (1.005, 0.1)]), Some((0, vec![])));
    }

    #[test]
    fn a_majority_outvotes_a_server_however_near_it_is() {
        assert_eq!(chosen(&[(3600.0, 0.001), (1.0, 0.05), (1.01, 0.04)]), Some((2, vec![0])));
        assert_eq!(chosen(&[(1.0, 0.05), (-9.0, 0.0), (1.01, 0.04), (f64::MAX, 0.0)]), Some((2, vec![1, 3])));
    }

    #[test]
    fn between_two_that_disagree_the_first_in_the_file_counts() {
        assert_eq!(chosen(&[(5.0, 0.1), (-5.0, 0.001)]), Some((0, vec![1])));
        assert_eq!(chosen(&[(-5.0, 0.1), (5.0, 0.001)]), Some((0, vec![1])));
    }
}
