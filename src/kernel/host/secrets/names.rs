//! Whether what goes by a name is a secret.

/// Words that end such a name, alone or with others before them (`PGPASSWORD`, `rootpassword`).
const ENDINGS: &[&str] = &[
    "password",
    "passwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "credentials",
    "apikey",
    "accesskey",
    "secretkey",
    "privatekey",
    "setcookie",
];
/// Words that are such a name, or its last part.
const WORDS: &[&str] = &[
    "pass",
    "pwd",
    "passwort",
    "requirepass",
    "masterauth",
    "userpass",
    "dbpass",
    "keypass",
    "storepass",
    "jwt",
    "bearer",
];
/// What a key is before it is a secret.
const KEYS: &[&str] = &["api", "access", "secret", "private", "auth", "encryption", "signing", "account"];
/// Options about a secret that hold none, by their first word.
const ABOUT: &[&str] = &[
    "no", "ask", "prompt", "use", "require", "with", "without", "enable", "disable", "show", "allow", "skip", "print",
    "read", "max",
];

/// Whether a name, without the hyphens in front, is that of a secret: its last part says what it is, so a `password-file` is none.
pub(super) fn is_secret(name: &str) -> bool {
    let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    // The shell's own.
    if name.len() > 100 || !name.chars().all(is_known) || matches!(name, "PWD" | "OLDPWD") {
        return false;
    }
    let parts = parts(name);
    let [.., last] = parts.as_slice() else { return false };
    if parts.first().is_some_and(|first| parts.len() > 1 && ABOUT.contains(&first.as_str())) {
        return false;
    }
    let is_key = last == "key" && matches!(parts.as_slice(), [.., of, _] if KEYS.contains(&of.as_str()));
    is_key || WORDS.contains(&last.as_str()) || ENDINGS.iter().any(|ending| last.ends_with(ending))
}

/// The parts of a name in lower case: `api-key`, `API_KEY`, `spring.apiKey`.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut was_lower = false;
    for c in name.chars() {
        let begins = was_lower && c.is_ascii_uppercase();
        was_lower = c.is_ascii_lowercase();
        if begins || !c.is_ascii_alphanumeric() {
            parts.push(String::new());
        }
        if let Some(part) = parts.last_mut().filter(|_| c.is_ascii_alphanumeric()) {
            part.push(c.to_ascii_lowercase());
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}
