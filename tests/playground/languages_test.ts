/** The page in several languages: all have all words, and no word stands outside of them. */

import assert from "node:assert/strict";
import { stripTypeScriptTypes } from "node:module";
import { httpNames, type SettingField } from "../../generation/field_values.ts";
import { SETTING_FIELDS } from "../../generation/fields.ts";
import { BUNDLED_DRAWS } from "../../models/lora/bundled.ts";
import { MODULES } from "../../server/playground/sources.ts";

type Words = Record<string, string>;

/** The words of a language, from the text that browsers get: an import would bring the types of browsers into all tests. */
async function wordsOf(language: string): Promise<Words> {
  const source = stripTypeScriptTypes(MODULES[`${language}.ts`]!);
  return (await import(`data:text/javascript,${encodeURIComponent(source)}`))[language];
}

/** What a text must have in every language: its values, and its link. */
function slotsOf(text: string): string {
  const names = [...text.matchAll(/\{(\w+)/g)].map(([, name]) => name);
  return [...new Set(names)].sort().join() + text.replaceAll(/[^<>]/g, "");
}

Deno.test("every language has all words of the page, with the values and links of the English ones", async () => {
  const english = await wordsOf("english");
  for (const name of ["german", "chinese", "japanese"]) {
    const words = await wordsOf(name);
    assert.deepEqual(Object.keys(words), Object.keys(english), name);
    for (const [key, text] of Object.entries(words)) {
      assert.equal(slotsOf(text), slotsOf(english[key]!), `${name}, ${key}`);
      assert.ok(text.trim() !== "", `${name}, ${key}`);
    }
  }
});

Deno.test("every setting that the page shows has a name and a hint without names of the API", async () => {
  const english = await wordsOf("english");
  // The page has controls of its own for these, or none.
  const others = /^(?:hires_(?:width|height)|control_(?:net|type)|canny_|skip_guidance_layers)/;
  const shown = Object.entries(SETTING_FIELDS).filter(([, { kind, ...row }]) =>
    !["texts", "integers", "numbers"].includes(kind) && (kind !== "text" || "choices" in row)
  ).flatMap(([name, row]) => httpNames(name, row as SettingField<unknown>).slice(0, 1))
    .filter((name) => !others.test(name));
  assert.ok(shown.length > 30, `${shown}`);
  for (const name of [...shown, "negative_prompt"]) {
    assert.ok(english[`set_${name}`], `set_${name}`);
    assert.doesNotMatch(english[`hint_${name}`] ?? "_", /_|`/, name);
  }
  // The command line says the same.
  assert.ok(english["toyNote"]!.startsWith(BUNDLED_DRAWS), BUNDLED_DRAWS);
  assert.ok(english["toyNoteTop"]!.startsWith(BUNDLED_DRAWS));
});

/** Whether a text looks like one for people: words, or a word with a capital letter. */
const isVisible = (text: string) =>
  /[A-Za-z]{2,} +[A-Za-z]{2,}/.test(text) || /^\s*[A-Z][a-z]/.test(text);

/** Properties that hold no words for people, and functions that take none. */
const PLAIN_PROPERTIES = /^(?:class|d)$/;
const PLAIN_CALLS = /^(?:querySelector(?:All)?|includes|set)$/;
/** Names that are the same in every language, and of keys. */
const NAMES = [
  ...["ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown"],
  "Deno",
  "Python",
  "WebP",
  "English",
  "Deutsch",
];

// deno-lint-ignore no-explicit-any -- nodes of any kind
type Node = any;

/** What is called, through `?.` too. */
function calleeOf({ callee }: Node): Node {
  return callee.expression ?? callee;
}

function isForPeople(node: Node): boolean {
  const { parent, type, value } = node;
  if (type === "Literal" && NAMES.includes(value)) return false;
  switch (parent.type) {
    case "ConditionalExpression":
    case "TemplateLiteral":
      return isForPeople(parent);
    case "ImportDeclaration":
    case "ImportExpression":
    case "TSLiteralType":
      return false;
    case "BinaryExpression":
      return parent.operator === "+";
    case "AssignmentExpression":
      return !/^(?:name|font)$/.test(parent.left.property?.name);
    case "Property":
      return parent.key !== node && !PLAIN_PROPERTIES.test(parent.key.name);
    case "CallExpression":
      return !PLAIN_CALLS.test(calleeOf(parent).property?.name);
    default:
      return true;
  }
}

/** Texts of a source that people would read, and numbers that are written without their language. */
function strayIn(file: string, source: string): string[] {
  const found: string[] = [];
  const plugin: Deno.lint.Plugin = {
    name: "words",
    rules: {
      all: {
        create: () => ({
          Literal(node) {
            if (typeof node.value !== "string" || !isVisible(node.value)) return;
            if (isForPeople(node)) found.push(`${file}: ${node.value}`);
          },
          TemplateElement(node) {
            if (isVisible(node.cooked) && isForPeople(node)) {
              found.push(`${file}: ${node.cooked}`);
            }
          },
          MemberExpression({ property }) {
            const { name = "" } = property as { name?: string };
            if (/^(?:toFixed|toPrecision|toLocale\w*|DateTimeFormat|NumberFormat)$/.test(name)) {
              found.push(`${file}: ${name}`);
            }
          },
        }),
      },
    },
  };
  Deno.lint.runPlugin(plugin, file, source);
  return found;
}

Deno.test("no words for people, and no numbers of theirs, are written outside of the languages' files", () => {
  // Snippets are code, and what stands for a server in a tab says the server's errors.
  const others = /(?:english|german|chinese|japanese|texts|snippets)\.ts$/;
  const panel = "../../browser/playground/model_panel.ts";
  const sources = [
    ...Object.entries(MODULES),
    [panel, Deno.readTextFileSync(new URL(panel, import.meta.url))] as const,
  ];
  const stray = sources.filter(([file]) => !others.test(file)).flatMap(([file, source]) =>
    strayIn(file, source)
  );
  assert.deepEqual(stray, []);
  assert.deepEqual(
    strayIn("a.ts", 'h("p", {}, "Some words"); tell(`Cannot ${x}`); (2).toFixed(1)'),
    [
      ...["a.ts: Some words", "a.ts: Cannot ", "a.ts: toFixed"],
    ],
  );
});
