//! The scenarios that are part of the program.

/// File name and text.
pub const SCENARIOS: &[(&str, &str)] = &[
    ("00-busydisk.yaml", include_str!("../../lab-scenarios/00-busydisk.yaml")),
    ("01-stutter.yaml", include_str!("../../lab-scenarios/01-stutter.yaml")),
    ("02-hundred.yaml", include_str!("../../lab-scenarios/02-hundred.yaml")),
    ("03-twocopies.yaml", include_str!("../../lab-scenarios/03-twocopies.yaml")),
    ("04-load.yaml", include_str!("../../lab-scenarios/04-load.yaml")),
    ("05-nostart.yaml", include_str!("../../lab-scenarios/05-nostart.yaml")),
    ("06-tremor.yaml", include_str!("../../lab-scenarios/06-tremor.yaml")),
    ("07-upkeep.yaml", include_str!("../../lab-scenarios/07-upkeep.yaml")),
    ("10-more.yaml", include_str!("../../lab-scenarios/10-more.yaml")),
    ("11-slow.yaml", include_str!("../../lab-scenarios/11-slow.yaml")),
    ("12-rival.yaml", include_str!("../../lab-scenarios/12-rival.yaml")),
    ("13-eight.yaml", include_str!("../../lab-scenarios/13-eight.yaml")),
    ("14-pair.yaml", include_str!("../../lab-scenarios/14-pair.yaml")),
    ("15-table.yaml", include_str!("../../lab-scenarios/15-table.yaml")),
    ("16-vanish.yaml", include_str!("../../lab-scenarios/16-vanish.yaml")),
    ("17-catalogue.yaml", include_str!("../../lab-scenarios/17-catalogue.yaml")),
    ("18-orders.yaml", include_str!("../../lab-scenarios/18-orders.yaml")),
    ("19-spool.yaml", include_str!("../../lab-scenarios/19-spool.yaml")),
    ("20-sessions.yaml", include_str!("../../lab-scenarios/20-sessions.yaml")),
    ("21-knock.yaml", include_str!("../../lab-scenarios/21-knock.yaml")),
    ("22-silent.yaml", include_str!("../../lab-scenarios/22-silent.yaml")),
    ("23-polite.yaml", include_str!("../../lab-scenarios/23-polite.yaml")),
    ("24-parser.yaml", include_str!("../../lab-scenarios/24-parser.yaml")),
    ("25-helpers.yaml", include_str!("../../lab-scenarios/25-helpers.yaml")),
    ("26-nobody.yaml", include_str!("../../lab-scenarios/26-nobody.yaml")),
    ("27-answers.yaml", include_str!("../../lab-scenarios/27-answers.yaml")),
    ("30-requests.yaml", include_str!("../../lab-scenarios/30-requests.yaml")),
    ("31-watched.yaml", include_str!("../../lab-scenarios/31-watched.yaml")),
    ("32-pages.yaml", include_str!("../../lab-scenarios/32-pages.yaml")),
    ("33-missing.yaml", include_str!("../../lab-scenarios/33-missing.yaml")),
    ("34-messages.yaml", include_str!("../../lab-scenarios/34-messages.yaml")),
    ("35-counters.yaml", include_str!("../../lab-scenarios/35-counters.yaml")),
];

#[cfg(test)]
mod tests {
    use super::SCENARIOS;

    #[test]
    #[expect(clippy::disallowed_methods, reason = "the sources of rdiag, not the host")]
    fn every_scenario_of_the_folder_is_embedded() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab-scenarios");
        let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
        names.retain(|name| name.ends_with(".yaml"));
        names.sort();
        assert_eq!(SCENARIOS.iter().map(|(name, _)| *name).collect::<Vec<_>>(), names);
    }
}
