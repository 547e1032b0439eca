//! The lessons of a playbook as HTML: a few harmless elements, and everything else as text.

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

use super::shown::{Html, Shown};

/// Markdown as HTML. Playbooks are not trusted: raw HTML is shown as text, links and images lose their targets.
///
/// What is longer than `most` bytes is cut.
pub(super) fn html(markdown: &str, most: usize) -> Shown<Html> {
    let end = (0..=markdown.len().min(most)).rev().find(|at| markdown.is_char_boundary(*at)).unwrap_or(0);
    let mut out = Shown::new();
    for event in Parser::new_ext(markdown.get(..end).unwrap_or_default(), Options::ENABLE_TABLES) {
        match event {
            Event::Start(tag) => out.push(open(&tag)),
            Event::End(tag) => out.push(close(&tag)),
            Event::Text(text) | Event::Html(text) | Event::InlineHtml(text) => push(&mut out, &text),
            Event::Code(text) => {
                out.push("<code>");
                push(&mut out, &text);
                out.push("</code>");
            }
            Event::SoftBreak => out.push("\n"),
            Event::HardBreak => out.push("<br>"),
            Event::Rule => out.push("<hr>"),
            _ => {}
        }
    }
    out
}

fn push(out: &mut Shown<Html>, text: &str) {
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        out.push(Shown::<Html>::text(line));
        out.push(end);
    }
}

fn open(tag: &Tag<'_>) -> &'static str {
    match tag {
        Tag::Paragraph => "<p>",
        // The report has its own headings down to the third level.
        Tag::Heading { .. } => "<h4>",
        Tag::BlockQuote(_) => "<blockquote>",
        Tag::CodeBlock(CodeBlockKind::Fenced(_) | CodeBlockKind::Indented) => "<pre><code>",
        Tag::List(None) => "<ul>",
        Tag::List(Some(_)) => "<ol>",
        Tag::Item => "<li>",
        Tag::Emphasis => "<em>",
        Tag::Strong => "<strong>",
        Tag::Table(_) => "<table>",
        Tag::TableHead => "<thead><tr>",
        Tag::TableRow => "<tr>",
        Tag::TableCell => "<td>",
        _ => "",
    }
}

fn close(tag: &TagEnd) -> &'static str {
    match tag {
        TagEnd::Paragraph => "</p>\n",
        TagEnd::Heading(_) => "</h4>\n",
        TagEnd::BlockQuote(_) => "</blockquote>\n",
        TagEnd::CodeBlock => "</code></pre>\n",
        TagEnd::List(false) => "</ul>\n",
        TagEnd::List(true) => "</ol>\n",
        TagEnd::Item => "</li>\n",
        TagEnd::Emphasis => "</em>",
        TagEnd::Strong => "</strong>",
        TagEnd::Table => "</table>\n",
        TagEnd::TableHead => "</tr></thead>\n",
        TagEnd::TableRow => "</tr>\n",
        TagEnd::TableCell => "</td>",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::html;

    #[test]
    fn plain_markdown_becomes_plain_elements() {
        assert_eq!(&*html("A *b* `c`\n\n- d\n", 99), "<p>A <em>b</em> <code>c</code></p>\n<ul><li>d</li>\n</ul>\n");
    }

    #[test]
    fn raw_html_links_and_images_are_inert() {
        let shown =
            html("<script>alert(1)</script>\n\n[x](javascript:alert(1)) ![y](http://z/) <b onclick=x>\u{202e}", 999);
        assert!(!shown.contains("<script") && !shown.contains("href") && !shown.contains("<img"), "{shown}");
        assert!(!shown.contains("<b ") && shown.contains("&lt;script&gt;") && shown.contains("\\u{202e}"), "{shown}");
    }
}
