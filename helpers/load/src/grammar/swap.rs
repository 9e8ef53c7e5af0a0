//! `swap` of the machine file.

use super::at::At;
use super::mapping::{Mapping, keys};
use super::mount::{format_mistake, source};
use super::values::{choice, duration, number, word};
use kelson_spec::machine::{Format, SwapPlace, SwapSpec};

/// More than three times the memory does not fit into it, compressed or not.
const MOST_ZRAM: u16 = 300;
/// The kernel takes no higher one.
const MOST_PRIORITY: u16 = 32_767;

/// A disk, a file or compressed memory.
pub fn swap() -> Mapping<SwapSpec> {
    let source_at = At::new(
        |swap: &SwapSpec| if let SwapPlace::Disk(source) = &swap.place { Some(source.clone()) } else { None },
        |swap, source| swap.place = SwapPlace::Disk(source),
    );
    let zram_at = At::new(
        |swap: &SwapSpec| {
            if let SwapPlace::Zram { percent, .. } = &swap.place { Some(*percent) } else { None }
        },
        |swap, percent| swap.place = SwapPlace::Zram { percent, algorithm: None },
    );
    let algorithm_at = At::new(
        |swap: &SwapSpec| match &swap.place {
            SwapPlace::Zram { algorithm, .. } => Some(algorithm.clone()),
            SwapPlace::Disk(_) => None,
        },
        |swap, chosen| {
            if let SwapPlace::Zram { algorithm, .. } = &mut swap.place {
                *algorithm = chosen;
            }
        },
    );
    let algorithm = word("name of an algorithm", "^[a-z0-9][a-z0-9-]*$", "zstd").but(|text| {
        let sound =
            text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
        (!sound).then_some("this is not the name of an algorithm; write such as zstd or lzo-rle")
    });
    keys! {
        Mapping::new("swap", SwapSpec::default);
        alternative "source" (source_at) = source(),
            "a disk by any of its [names](howto/disks.md#names), or the path of a file; with a swap area (`mkswap`)";
        alternative "zram" (zram_at) = number(1..=MOST_ZRAM),
            "compressed memory: its size before the compression, in percent of the memory of the machine";
        means "algorithm" (algorithm_at) = algorithm.optional(), "that of the kernel",
            "with `zram`: the name of the compression, such as `zstd`; `/sys/block/zram0/comp_algorithm` lists those of \
             a kernel";
        means "priority" priority = number(0..=MOST_PRIORITY).optional(), "of `zram` 100; of a disk the kernel's, which is lower",
            "the swap of the highest priority is used first";
        key "wait" wait = duration(), "how long the boot waits for the disk";
        means "format" format = choice([("ifBlank", Format::IfBlank)]), "a disk is never formatted",
            "`ifBlank`: a disk that is [known to be blank](howto/disks.md#format-blank-disks) gets a swap area";
    }
    .one_of(&["source", "zram"])
    .check(|d, seen, swap| {
        if let SwapPlace::Disk(source) = &swap.place {
            if seen.has("algorithm") {
                seen.wrong_key(d, "algorithm", "algorithm belongs to zram, not to source");
            }
            if let Some(wrong) = format_mistake(source).filter(|_| swap.format != Format::Never) {
                seen.wrong_key(d, "format", wrong);
                swap.format = Format::Never;
            }
        } else {
            for key in ["wait", "format"].into_iter().filter(|key| seen.has(key)) {
                seen.wrong_key(d, key, format_args!("{key} belongs to source, not to zram"));
            }
        }
    })
}
