//! The sentence at the top of a report, in its two parts.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The headline of a verdict. In documents it is one sentence, which is joined and split here and nowhere else.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Headline {
    /// The conclusion in a few words: `Bottleneck: CPU saturation`.
    pub title: String,
    /// What joins the two.
    pub link: Link,
    /// What is known of it, as it goes on behind the title; empty if the title says all.
    pub detail: String,
}

/// What the title of a bottleneck begins with.
pub const BOTTLENECK: &str = "Bottleneck: ";

/// What stands between the title and the detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// The detail is the sentence of a finding.
    Dash,
    /// The detail is a further clause.
    Semicolon,
}

impl Link {
    fn text(self) -> &'static str {
        match self {
            Self::Dash => " — ",
            Self::Semicolon => "; ",
        }
    }
}

impl fmt::Display for Headline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.title)?;
        if self.detail.is_empty() {
            return Ok(());
        }
        write!(f, "{}{}", self.link.text(), self.detail)
    }
}

impl From<Headline> for String {
    fn from(headline: Headline) -> Self {
        headline.to_string()
    }
}

/// A whole sentence, from a document or from where no parts are known: its first clause is the title.
impl From<String> for Headline {
    fn from(sentence: String) -> Self {
        for link in [Link::Dash, Link::Semicolon] {
            if let Some((title, detail)) = sentence.split_once(link.text()).filter(|(_, detail)| !detail.is_empty()) {
                return Self { title: title.to_owned(), link, detail: detail.to_owned() };
            }
        }
        Self { title: sentence, link: Link::Semicolon, detail: String::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_from_a_document_has_its_parts_and_is_the_same_again() {
        let sentences = [
            ("Bottleneck: disk saturation (sda) — 9 requests; dd did it", "Bottleneck: disk saturation (sda)"),
            ("No bottleneck found; 1 of 5 checks could not be made; worth knowing", "No bottleneck found"),
            ("No bottleneck found: 4 checks made, none fired", "No bottleneck found: 4 checks made, none fired"),
            ("an end that is missing; ", "an end that is missing; "),
            ("", ""),
        ];
        for (sentence, title) in sentences {
            let headline = Headline::from(sentence.to_owned());
            assert_eq!(headline.title, title);
            assert_eq!(headline.to_string(), sentence);
            let json = serde_json::to_string(&headline).unwrap();
            assert_eq!(json, serde_json::to_string(sentence).unwrap());
            assert_eq!(serde_json::from_str::<Headline>(&json).unwrap(), headline);
        }
    }
}
