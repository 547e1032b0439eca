//! Documents made from the schema of their type: every field is there, every variant, and every text that is not one of a list
//! of words.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::support::path;

/// So many words of a list are tried, the last ones: the worst stand there.
const WORDS: usize = 4;
/// Types that hold themselves end here.
const DEEPEST: usize = 14;

/// What a text becomes, by where it stands and what it is.
pub(super) type Changes<'t> = &'t dyn Fn(&str, &str) -> String;

/// A type, as its committed schema describes it.
pub(super) struct Type {
    root: Value,
}

/// What stands in the place of a text, by where it stands: `findings[].culprit.labels{}`.
pub(super) type Texts<'t> = &'t dyn Fn(&str) -> String;

impl Type {
    pub(super) fn of(name: &str) -> Self {
        let text = std::fs::read_to_string(path(&format!("reports/schema/{name}.schema.json"))).unwrap();
        Self { root: serde_json::from_str(&text).unwrap() }
    }

    /// A document with these texts.
    pub(super) fn sample(&self, texts: Texts<'_>) -> Value {
        self.examples(&self.root, "", texts, 0).remove(0)
    }

    /// Where its texts stand.
    pub(super) fn places(&self) -> BTreeSet<String> {
        let all = std::cell::RefCell::new(BTreeSet::new());
        self.sample(&|place| {
            all.borrow_mut().insert(place.to_owned());
            super::PLAIN.to_owned()
        });
        all.into_inner()
    }

    /// One example for each variant.
    fn examples(&self, schema: &Value, place: &str, texts: Texts<'_>, depth: usize) -> Vec<Value> {
        if let Some(name) = schema["$ref"].as_str() {
            let named = self.root.pointer(&name[1..]).expect("a schema refers to its own parts");
            return self.examples(named, place, texts, depth + 1);
        }
        if let Some(word) = schema.get("const") {
            return vec![word.clone()];
        }
        if let Some(words) = schema["enum"].as_array() {
            return words.iter().skip(words.len().saturating_sub(WORDS)).cloned().collect();
        }
        if let Some(variants) = schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array) {
            let all: Vec<&Value> = variants.iter().filter(|variant| variant["type"] != "null").collect();
            let words = all.iter().all(|variant| variant.get("const").is_some());
            let left_out = if words { all.len().saturating_sub(WORDS) } else { 0 };
            return all
                .into_iter()
                .skip(left_out)
                .flat_map(|variant| self.examples(variant, place, texts, depth))
                .collect();
        }
        match self.kind(schema) {
            "string" => vec![texts(place).into()],
            "integer" | "number" => vec![json!(1)],
            "boolean" => vec![json!(true), json!(false)],
            "null" => vec![Value::Null],
            "array" if depth > DEEPEST => vec![json!([])],
            "array" => vec![self.array(schema, place, texts, depth)],
            "object" => self.objects(schema, place, texts, depth),
            other => panic!("{place}: a schema of kind {other:?}: {schema}"),
        }
    }

    fn kind<'s>(&self, schema: &'s Value) -> &'s str {
        match &schema["type"] {
            Value::Array(kinds) => {
                kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null").unwrap_or("null")
            }
            Value::String(kind) => kind,
            // Anything goes.
            _ => "string",
        }
    }

    fn array(&self, schema: &Value, place: &str, texts: Texts<'_>, depth: usize) -> Value {
        let place = format!("{place}[]");
        if let Some(parts) = schema["prefixItems"].as_array() {
            let first = |part| self.examples(part, &place, texts, depth + 1).remove(0);
            return parts.iter().map(first).collect();
        }
        let mut all = self.examples(&schema["items"], &place, texts, depth + 1);
        // Some lists have as many as the schema says, and no other number.
        let (least, most) = (schema["minItems"].as_u64().unwrap_or(0), schema["maxItems"].as_u64().unwrap_or(u64::MAX));
        while (all.len() as u64) < least {
            all.push(all.first().cloned().unwrap_or_default());
        }
        all.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        all.into()
    }

    /// As many objects as their most varied field has variants.
    fn objects(&self, schema: &Value, place: &str, texts: Texts<'_>, depth: usize) -> Vec<Value> {
        let mut fields: Vec<(String, Vec<Value>)> = Vec::new();
        for (name, field) in schema["properties"].as_object().into_iter().flatten() {
            let place = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
            fields.push((name.clone(), self.examples(field, &place, texts, depth + 1)));
        }
        if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
            let place = format!("{place}{{}}");
            // Names that stand for themselves and names of a list.
            let key = match schema.get("propertyNames").map(|names| self.examples(names, &place, texts, depth + 1)) {
                Some(names) => names.first().and_then(Value::as_str).unwrap_or_default().to_owned(),
                None => texts(&place),
            };
            fields.push((key, self.examples(values, &place, texts, depth + 1)));
        }
        let variants = fields.iter().map(|(_, values)| values.len()).max().unwrap_or(1);
        let object = |at: usize| -> Value {
            let some = fields.iter().filter(|(_, values)| !values.is_empty());
            let some = some.filter_map(|(name, values)| Some((name.clone(), values.get(at % values.len())?.clone())));
            Value::Object(some.collect::<Map<_, _>>())
        };
        (0..variants).map(object).collect()
    }

    /// A document with other texts and names, everything else as it was. `texts` is given where each stands, and what it is.
    pub(super) fn replaced(&self, document: &Value, texts: Changes<'_>) -> Value {
        self.walk(&self.root, document, "", texts)
    }

    fn walk(&self, schema: &Value, value: &Value, place: &str, texts: Changes<'_>) -> Value {
        if let Some(name) = schema["$ref"].as_str() {
            return self.walk(self.root.pointer(&name[1..]).expect("its own part"), value, place, texts);
        }
        if let Some(variants) = schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array) {
            let variant = variants.iter().find(|variant| self.fits(variant, value));
            return variant.map_or_else(|| value.clone(), |variant| self.walk(variant, value, place, texts));
        }
        match value {
            Value::String(text) if schema.get("const").or_else(|| schema.get("enum")).is_none() => {
                texts(place, text).into()
            }
            Value::Array(all) => {
                let (place, parts) = (format!("{place}[]"), schema["prefixItems"].as_array());
                let of = |at: usize| parts.and_then(|parts| parts.get(at)).unwrap_or(&schema["items"]);
                all.iter().enumerate().map(|(at, one)| self.walk(of(at), one, &place, texts)).collect()
            }
            Value::Object(all) => {
                let mut changed = Map::new();
                for (name, one) in all {
                    if let Some(field) = schema["properties"].get(name) {
                        let place = if place.is_empty() { name.clone() } else { format!("{place}.{name}") };
                        changed.insert(name.clone(), self.walk(field, one, &place, texts));
                        continue;
                    }
                    let place = format!("{place}{{}}");
                    let shown = texts(&format!("{place} name"), name);
                    // No two names are the same.
                    let key = if changed.contains_key(&shown) { name.clone() } else { shown };
                    changed.insert(key, self.walk(&schema["additionalProperties"], one, &place, texts));
                }
                Value::Object(changed)
            }
            _ => value.clone(),
        }
    }

    fn fits(&self, schema: &Value, value: &Value) -> bool {
        if let Some(name) = schema["$ref"].as_str() {
            return self.fits(self.root.pointer(&name[1..]).expect("its own part"), value);
        }
        if let Some(word) = schema.get("const") {
            return word == value;
        }
        if let Some(variants) = schema.get("anyOf").or_else(|| schema.get("oneOf")).and_then(Value::as_array) {
            return variants.iter().any(|variant| self.fits(variant, value));
        }
        let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        match value {
            Value::Object(all) => {
                self.kind(schema) == "object" && required.into_iter().all(|name| all.contains_key(name))
            }
            Value::Array(_) => self.kind(schema) == "array",
            Value::String(_) => self.kind(schema) == "string",
            Value::Number(_) => ["number", "integer"].contains(&self.kind(schema)),
            Value::Bool(_) => self.kind(schema) == "boolean",
            Value::Null => schema["type"] == "null",
        }
    }
}
