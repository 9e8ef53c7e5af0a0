//! Templates that end the process while it renders them.
//!
//! The language bounds the steps of a template and its text, but not the values in between: a few steps double a string
//! until there is no memory left. The next process would end in the same way before it renews the lease of the host. So a
//! file in the runtime folder counts the attempts of a template that have not come to their end.

use std::fs;
use std::path::{Path, PathBuf};

/// So often a version of a template may end the process.
const MOST: u32 = 3;

/// A template that is being rendered. Its end, also by a mistake in the template, is that of the attempt.
pub struct Attempt {
    file: PathBuf,
}

impl Attempt {
    /// Begins to render this version of a template. `rendered`: the file for its text.
    ///
    /// # Errors
    /// For an operator: it has ended the process too often.
    pub fn begin(rendered: &Path, version: &str) -> Result<Attempt, String> {
        // Beside the texts, whose names begin with `!`.
        let name = rendered.file_name().unwrap_or_default().to_string_lossy();
        let file = rendered.with_file_name(format!("trying{name}"));
        let of = format!("{version} ");
        let before = fs::read_to_string(&file).unwrap_or_default();
        let ended: u32 = before.strip_prefix(&of).and_then(|count| count.parse().ok()).unwrap_or_default();
        if ended >= MOST {
            return Err(format!(
                "kelson-fleet ended {MOST} times while it rendered this template: it needs too much memory; change it"
            ));
        }
        // Where it cannot be written the texts cannot either.
        let _ = fs::write(&file, format!("{of}{}", ended.saturating_add(1)));
        Ok(Attempt { file })
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_ended_the_process_three_times_in_a_row_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = ["!-a", "!-b"].map(|name| folder.path().join(name));
        let (first, second) = ("(1, 2)", "(1, 3)");
        let dies = |rendered: &Path, version| std::mem::forget(Attempt::begin(rendered, version).unwrap());
        let may_begin = |rendered: &Path, version| Attempt::begin(rendered, version).is_ok();
        (0..2).for_each(|_| dies(&one, first));
        assert!(may_begin(&one, first));
        for _ in 0..MOST {
            dies(&one, first);
            assert!(may_begin(&other, first), "another one comes to its end in between");
        }
        assert!(!may_begin(&one, first) && !may_begin(&one, first));
        assert!(may_begin(&one, second), "another version");
        fs::write(folder.path().join("trying!-a"), "damaged").unwrap();
        assert!(may_begin(&one, first));
    }
}
