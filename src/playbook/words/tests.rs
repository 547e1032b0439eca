use super::{banned, bare_share, has_unit};

#[test]
fn phrases_are_found_as_whole_words_and_outside_of_templates() {
    let found = |text: &str| banned(text).map(|(phrase, _)| phrase).collect::<Vec<_>>();
    assert_eq!(found("The pool is for whoever asks;\n killed for  want of memory"), ["for want of", "whoever"]);
    assert_eq!(found("{{ whom }} waits"), Vec::<&str>::new());
    assert_eq!(found("The rewhomed disk"), Vec::<&str>::new());
}

#[test]
fn a_number_needs_a_unit() {
    for text in ["4 CPUs waited", "p99 8.40 ms", "99.1% of it", "17.0/s forks"] {
        assert!(has_unit(text), "{text}");
    }
    for text in ["it is full", "value 4.", "run 7"] {
        assert!(!has_unit(text), "{text}");
    }
}

#[test]
fn a_share_says_of_what() {
    for text in ["3.0% of the time", "CPUs 90.0% busy (system 10.0%, nice 2.0%)", "no share"] {
        assert_eq!(bare_share(text), None, "{text}");
    }
    assert_eq!(bare_share("steal was 3.0%"), Some("3.0%"));
    assert_eq!(bare_share("(13.5%) of it"), Some("13.5%"));
    assert_eq!(bare_share("3.0% of it, 4% there"), Some("4%"));
}
