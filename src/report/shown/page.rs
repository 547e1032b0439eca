//! Pages made of templates: every text in them is escaped, and only [`Shown`] HTML is markup.

use minijinja::{AutoEscape, Environment, Error, Output, Value, filters, functions};

use super::{Html, Shown};
use crate::escape::{html, visible_within};

/// rdiag's templates.
pub(crate) struct Pages {
    env: Environment<'static>,
}

impl Pages {
    /// Takes the templates, each with its name. Of the engine's own filters and functions only those that they use are there: several
    /// declare whatever they are given to be safe.
    pub(crate) fn of(templates: &[(&'static str, &'static str)]) -> Result<Self, Error> {
        let mut env = Environment::empty();
        env.add_filter("length", filters::length);
        env.add_function("range", functions::range);
        env.set_auto_escape_callback(|_| AutoEscape::Html);
        for (name, source) in templates {
            env.add_template(name, source)?;
        }
        Ok(Self { env })
    }

    /// A page. Texts are cut after `most` characters.
    pub(crate) fn page(&mut self, name: &str, most: usize, context: Value) -> Result<Shown<Html>, Error> {
        self.env.set_formatter(move |out, _, value| write(out, value, most));
        Ok(Shown::made(self.env.get_template(name)?.render(context)? + "\n"))
    }
}

/// Everything that a template writes passes here: first what has no shape is spelled out, then HTML is escaped.
fn write(out: &mut Output<'_>, value: &Value, most: usize) -> Result<(), Error> {
    match value.as_str() {
        Some(markup) if value.is_safe() => Ok(out.write_str(markup)?),
        Some(text) => Ok(out.write_str(&html(&visible_within(text, most)))?),
        None if value.is_undefined() => Ok(()),
        None => Ok(out.write_str(&html(&visible_within(&value.to_string(), most)))?),
    }
}

#[cfg(test)]
mod tests {
    use minijinja::context;

    use super::*;

    fn page(template: &'static str, context: Value) -> Result<String, Error> {
        Ok(Pages::of(&[("page", template)])?.page("page", 99, context)?.trim_end().to_owned())
    }

    #[test]
    fn a_template_can_declare_no_text_to_be_safe() {
        let name = || context! { name => "<b>", own => Shown::<Html>::of("<i>").value() };
        assert_eq!(page("{{ name }}{{ own }}", name()).unwrap(), "&lt;b&gt;<i>");
        let quiet = "{% autoescape false %}{{ name }}{{ [name] }}{% endautoescape %}";
        assert_eq!(page(quiet, name()).unwrap(), "&lt;b&gt;[&#39;&lt;b&gt;&#39;]");
        for filter in ["safe", "escape", "tojson", "replace('&', '<')"] {
            let written: &'static str = Box::leak(format!("{{{{ name|{filter} }}}}").into_boxed_str());
            assert!(page(written, name()).is_err(), "{filter}");
        }
    }
}
