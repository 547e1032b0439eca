//! What reports say of a culprit that was named by a metric: part of the metric's definition.

/// What a culprit did, and with what. Only metrics by which rules name culprits have one; where one is missing the id of the metric has to
/// do, as with [`Deed::USUAL`].
#[derive(Debug, Clone, Copy)]
pub struct Deed {
    /// `used 98.0% of the busy CPU time`: its verb.
    pub verb: &'static str,
    /// And what it is a share of; empty where the id of the metric says it.
    pub of: &'static str,
    /// Verb and object where the share is not known: `read 3.0 GiB from storage`. Without them it is `had 3 (the threads)`.
    pub alone: Option<(&'static str, &'static str)>,
    /// Instead of all that, the state by which a process is named and of which a share says nothing: `is stopped`.
    pub state: Option<&'static str>,
    /// What processes share is counted for each of them: several have at most the sum.
    pub is_shared: bool,
    /// The file of a single culprit is the one that most of it was for.
    pub is_by_file: bool,
    /// What is left of the whole host's: what was used and is charged to no process that was seen.
    pub unattributed: &'static str,
    /// And what no process used.
    pub unused: &'static str,
}

impl Deed {
    /// What is said unless a metric says otherwise. For `..Deed::USUAL` behind the fields that it has.
    pub const USUAL: Self = Self {
        verb: "had",
        of: "",
        alone: None,
        state: None,
        is_shared: false,
        is_by_file: false,
        unattributed: "kernel, processes that ended",
        unused: "Available",
    };
}

/// The deed of the metric whose id stands beside it in a document. It follows from the metric, as the program that shows the document
/// defines it, so it is neither written nor compared.
#[derive(Debug, Clone, Copy, Default)]
pub struct DeedOfMetric(Option<&'static Deed>);

impl DeedOfMetric {
    /// As the definition has it; the usual where that says nothing.
    #[must_use]
    pub fn of(defined: &'static Option<Deed>) -> Self {
        Self(defined.as_ref())
    }

    /// The deed.
    #[must_use]
    pub fn get(self) -> &'static Deed {
        self.0.unwrap_or(&Deed::USUAL)
    }
}

impl PartialEq for DeedOfMetric {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
