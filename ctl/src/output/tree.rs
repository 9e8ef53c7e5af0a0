//! Indented trees: a line for each thing, below it what it rests on.

/// One line and what stands below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    /// Already painted and safe to show.
    pub line: String,
    pub below: Vec<Branch>,
}

/// The tree as lines. Drawn with ASCII alone where `unicode` is false.
pub fn render(root: &Branch, unicode: bool) -> String {
    let mut out = String::new();
    out.push_str(&root.line);
    out.push('\n');
    draw(&root.below, "", unicode, &mut out);
    out
}

fn draw(branches: &[Branch], indent: &str, unicode: bool, out: &mut String) {
    for (index, branch) in branches.iter().enumerate() {
        let last = index + 1 == branches.len();
        let (knot, rail) = match (unicode, last) {
            (true, false) => ("├─ ", "│  "),
            (true, true) => ("└─ ", "   "),
            (false, false) => ("|- ", "|  "),
            (false, true) => ("`- ", "   "),
        };
        out.push_str(indent);
        out.push_str(knot);
        out.push_str(&branch.line);
        out.push('\n');
        draw(&branch.below, &format!("{indent}{rail}"), unicode, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaf(line: &str) -> Branch {
        Branch { line: line.to_owned(), below: Vec::new() }
    }

    #[test]
    fn rails_lead_to_the_last_knot() {
        let root = Branch {
            line: "a".to_owned(),
            below: vec![
                Branch { line: "b".to_owned(), below: vec![leaf("c"), leaf("d")] },
                Branch { line: "e".to_owned(), below: vec![leaf("f")] },
            ],
        };
        assert_eq!(render(&root, true), "a\n├─ b\n│  ├─ c\n│  └─ d\n└─ e\n   └─ f\n");
        assert_eq!(render(&root, false), "a\n|- b\n|  |- c\n|  `- d\n`- e\n   `- f\n");
    }
}
