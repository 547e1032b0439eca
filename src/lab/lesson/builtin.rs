//! The lessons and recordings that are part of the program.

/// File name and text.
pub const LESSONS: &[(&str, &str)] = &[
    ("busy.yaml", include_str!("../../../lab-scenarios/lessons/busy.yaml")),
    ("disk.yaml", include_str!("../../../lab-scenarios/lessons/disk.yaml")),
    ("memory.yaml", include_str!("../../../lab-scenarios/lessons/memory.yaml")),
];

/// Name and packed recording.
pub(super) const RECORDINGS: &[(&str, &[u8])] = &[
    ("busy-disk", include_bytes!("../../../lab-scenarios/recordings/busy-disk.json.gz")),
    ("memory-thrashing", include_bytes!("../../../lab-scenarios/recordings/memory-thrashing.json.gz")),
    ("short-of-cpu", include_bytes!("../../../lab-scenarios/recordings/short-of-cpu.json.gz")),
];

#[cfg(test)]
mod tests {
    use super::{LESSONS, RECORDINGS};

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the sources of rdiag, not the host")]
    fn every_lesson_and_recording_of_the_folders_is_embedded() {
        let names = |folder: &str, ending: &str| {
            let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab-scenarios").join(folder);
            let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
            let mut names: Vec<String> =
                names.filter_map(|name| Some(name.to_str()?.strip_suffix(ending)?.to_owned())).collect();
            names.sort();
            names
        };
        let lessons: Vec<&str> = LESSONS.iter().map(|(name, _)| name.trim_end_matches(".yaml")).collect();
        assert_eq!(lessons, names("lessons", ".yaml"));
        assert_eq!(RECORDINGS.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names("recordings", ".json.gz"));
    }
}
