//! What a source file says of modules: those that it declares, what it imports, what it defines, and the paths that it names.
//!
//! Code for tests alone is left out.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A module of a crate, without its child modules.
#[derive(Clone, Debug, Default)]
pub(super) struct Module {
    /// Modules that it declares.
    pub(super) children: BTreeSet<String>,
    /// What it defines, beside modules.
    pub(super) items: BTreeSet<String>,
    /// The macros among the items that stand at the root of the crate as well.
    pub(super) exported: BTreeSet<String>,
    /// Imported names and the paths behind them.
    pub(super) names: BTreeMap<String, Vec<String>>,
    /// Paths that it imports everything from.
    pub(super) globs: Vec<Vec<String>>,
    /// Paths in `use` and elsewhere.
    pub(super) mentions: Vec<Mention>,
}

/// A path as it stands in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mention {
    pub(super) path: Vec<String>,
    pub(super) line: usize,
}

/// A module that a file declares.
#[derive(Clone, Debug)]
pub(super) struct Child {
    pub(super) name: String,
    pub(super) body: Body,
}

/// Where a child module's source is.
#[derive(Clone, Debug)]
pub(super) enum Body {
    /// Between braces.
    Inline(TokenStream),
    /// In a file of its own.
    File,
}

/// What the source of one module says, and the modules that it declares.
pub(super) fn read(tokens: TokenStream) -> (Module, Vec<Child>) {
    let mut reader = Reader::default();
    reader.walk(tokens, true);
    (reader.module, reader.children)
}

#[derive(Debug, Default)]
struct Reader {
    module: Module,
    children: Vec<Child>,
}

impl Reader {
    /// Reads tokens; `top` are those of the module itself rather than of a group in it.
    fn walk(&mut self, tokens: TokenStream, top: bool) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let (mut at, mut is_exported) = (0, false);
        while at < tokens.len() {
            let rest = &tokens[at..];
            at += match attribute(rest) {
                Some((length, Attribute::Test)) => length + item_length(&rest[length..]),
                Some((length, attribute)) => {
                    is_exported |= attribute == Attribute::MacroExport;
                    length
                }
                None => {
                    if let [TokenTree::Ident(word), _, name, ..] = rest
                        && word == "macro_rules"
                        && std::mem::take(&mut is_exported)
                    {
                        self.module.exported.insert(name.to_string());
                    }
                    self.one(rest, top)
                }
            };
        }
    }

    /// Reads what the tokens begin with and says of how many tokens it consists.
    fn one(&mut self, tokens: &[TokenTree], top: bool) -> usize {
        let name = match &tokens[0] {
            TokenTree::Group(group) => {
                self.walk(group.stream(), false);
                return 1;
            }
            TokenTree::Ident(name) => name.to_string(),
            _ => return 1,
        };
        match name.as_str() {
            // The place of `pub(in ..)` is no import.
            "pub" => {
                1 + usize::from(matches!(tokens.get(1), Some(TokenTree::Group(group))
                if group.delimiter() == Delimiter::Parenthesis && is_place(group.stream())))
            }
            "use" => {
                let end = tokens.iter().position(|token| is(token, ';')).unwrap_or(tokens.len());
                self.import(&tokens[1..end], &[], top);
                end
            }
            "mod" if top && tokens.len() > 2 => {
                let body = match &tokens[2] {
                    TokenTree::Group(group) => Body::Inline(group.stream()),
                    _ => Body::File,
                };
                let name = tokens[1].to_string();
                self.module.children.insert(name.clone());
                self.children.push(Child { name, body });
                3
            }
            "macro_rules" if top && tokens.len() > 2 => {
                self.module.items.insert(tokens[2].to_string());
                3
            }
            "struct" | "enum" | "union" | "trait" | "type" | "const" | "static" | "fn" if top => {
                // `const fn` names the function next.
                if let Some(TokenTree::Ident(name)) = tokens.get(1) {
                    self.module.items.insert(name.to_string());
                }
                1
            }
            _ => {
                let (path, length) = path(tokens);
                if path.len() > 1 {
                    let line = tokens[0].span().start().line;
                    self.module.mentions.push(Mention { path, line });
                }
                length
            }
        }
    }

    /// Reads one tree of a `use` behind the segments before it.
    fn import(&mut self, tokens: &[TokenTree], before: &[String], top: bool) {
        let Some(first) = tokens.first() else { return };
        let line = first.span().start().line;
        let mut path = before.to_vec();
        let mut alias = None;
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Group(group) => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    for tree in inner.split(|token| is(token, ',')) {
                        self.import(tree, &path, top);
                    }
                    return;
                }
                TokenTree::Ident(word) if word == "as" => {
                    alias = tokens.get(at + 1).map(ToString::to_string);
                    break;
                }
                // `a::{self}` is `a`.
                TokenTree::Ident(word) if word == "self" && !path.is_empty() => {}
                TokenTree::Ident(word) => path.push(word.to_string()),
                token if is(token, '*') => {
                    if top {
                        self.module.globs.push(path.clone());
                    }
                    path.push("*".to_owned());
                }
                _ => {}
            }
            at += 1;
        }
        let Some(last) = path.last().cloned() else { return };
        if top && last != "*" {
            self.module.names.insert(alias.unwrap_or(last), path.clone());
        }
        self.module.mentions.push(Mention { path, line });
    }
}

/// What an attribute says of the item behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attribute {
    /// It is for tests alone.
    Test,
    /// It is a macro that stands at the root of the crate as well.
    MacroExport,
    Other,
}

/// The attribute that the tokens begin with, and its length.
fn attribute(tokens: &[TokenTree]) -> Option<(usize, Attribute)> {
    if !is(tokens.first()?, '#') {
        return None;
    }
    let inner = usize::from(is(tokens.get(1)?, '!'));
    let TokenTree::Group(group) = tokens.get(1 + inner)? else { return None };
    let text: String = group.stream().to_string().split_whitespace().collect();
    let attribute = match text.as_str() {
        "test" | "cfg(test)" => Attribute::Test,
        text if text.starts_with("cfg(all(test,") => Attribute::Test,
        "macro_export" => Attribute::MacroExport,
        _ => Attribute::Other,
    };
    Some((2 + inner, attribute))
}

/// How many tokens an item takes, further attributes included.
fn item_length(tokens: &[TokenTree]) -> usize {
    let mut at = 0;
    while let Some((length, _)) = attribute(&tokens[at..]) {
        at += length;
    }
    let keywords = ["fn", "mod", "struct", "enum", "impl", "trait", "use", "type", "const", "static"];
    let item = tokens[at..]
        .iter()
        .take_while(|token| matches!(token, TokenTree::Ident(_) | TokenTree::Group(_)))
        .any(|token| keywords.iter().any(|keyword| token.to_string() == *keyword));
    let ends = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        // A field or an argument.
        token => is(token, ';') || (!item && is(token, ',')),
    };
    tokens[at..].iter().position(ends).map_or(tokens.len(), |end| at + end + 1)
}

/// The path that the tokens begin with, an identifier, and the number of its tokens.
fn path(tokens: &[TokenTree]) -> (Vec<String>, usize) {
    let mut path = vec![tokens[0].to_string()];
    let mut at = 1;
    while let [first, second, TokenTree::Ident(name), ..] = &tokens[at..]
        && is(first, ':')
        && is(second, ':')
    {
        path.push(name.to_string());
        at += 3;
    }
    (path, at)
}

/// Whether these are the insides of `pub(..)`.
fn is_place(tokens: TokenStream) -> bool {
    let first = tokens.into_iter().next().map(|token| token.to_string());
    matches!(first.as_deref(), Some("crate" | "super" | "self" | "in"))
}

fn is(token: &TokenTree, sign: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(text: &str) -> Module {
        read(text.parse().unwrap()).0
    }

    fn paths(text: &str) -> Vec<String> {
        module(text).mentions.iter().map(|mention| mention.path.join("::")).collect()
    }

    #[test]
    fn a_use_gives_each_of_its_paths() {
        let text = "pub(crate) use crate::a::{self, b::C, d::*, e as f};";
        assert_eq!(paths(text), ["crate::a", "crate::a::b::C", "crate::a::d::*", "crate::a::e"]);
        let module = module(text);
        assert_eq!(module.names.keys().collect::<Vec<_>>(), ["C", "a", "f"]);
        assert_eq!(module.globs, [["crate", "a", "d"]]);
    }

    #[test]
    fn paths_are_found_in_bodies_types_and_macros() {
        assert_eq!(
            paths("fn f(a: &crate::a::B) { let x = super::c(); vec![super::d::E::new()]; use self::g; }"),
            ["crate::a::B", "super::c", "super::d::E::new", "self::g"]
        );
    }

    #[test]
    fn code_for_tests_is_left_out() {
        let text =
            "#[cfg(test)] mod tests { use crate::a; } #[cfg(test)] pub(crate) fn f() -> A { crate::b::c() }
            struct S { #[cfg(test)] x: crate::d::E, y: crate::f::G } #[cfg(test)] use crate::h;
            #[cfg(any(test, feature = \"x\"))] fn g() { crate::i::j() }";
        assert_eq!(paths(text), ["crate::f::G", "crate::i::j"]);
        assert!(module(text).children.is_empty());
    }

    #[test]
    fn neither_comments_nor_visibilities_nor_texts_are_imports() {
        assert!(paths("/// See [`crate::a::b`].\npub(in crate::a) fn f() { \"crate::c::d\" }").is_empty());
    }

    #[test]
    fn items_and_children_are_known_by_name() {
        let module =
            module("mod a; pub mod b { struct C; } const fn d() {} macro_rules! e { () => {} } enum F {}");
        assert_eq!(module.children.iter().collect::<Vec<_>>(), ["a", "b"]);
        for name in ["d", "e", "F"] {
            assert!(module.items.contains(name), "{name}");
        }
    }

    #[test]
    fn a_mention_knows_its_line() {
        assert_eq!(module("\n\nuse crate::a;").mentions[0].line, 3);
    }
}
