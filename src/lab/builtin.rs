//! The scenarios that are part of the program.

/// File name and text.
pub const SCENARIOS: &[(&str, &str)] = &[
    ("00-busydisk.yaml", include_str!("../../lab-scenarios/00-busydisk.yaml")),
    ("01-stutter.yaml", include_str!("../../lab-scenarios/01-stutter.yaml")),
    ("02-hundred.yaml", include_str!("../../lab-scenarios/02-hundred.yaml")),
    ("04-load.yaml", include_str!("../../lab-scenarios/04-load.yaml")),
];

#[cfg(test)]
mod tests {
    use super::SCENARIOS;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the sources of rdiag, not the host")]
    fn every_scenario_of_the_folder_is_embedded() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("lab-scenarios");
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
        names.retain(|name| name.ends_with(".yaml"));
        names.sort();
        assert_eq!(SCENARIOS.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names);
    }
}
