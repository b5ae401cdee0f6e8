/** The document as one page, which asks no other host for anything; its script only runs operations. */

import { stripTypeScriptTypes } from "node:module";
// @ts-types="../playground/text.d.ts"
import source from "../../playground/docs_script.ts" with { type: "text" };
import { type JsonSchema, NO_EFFECT, type OpenApiDocument } from "./document.ts";
import type { Operation } from "./operation.ts";
import { LANGUAGES, sampleRequest, samplesOf } from "./samples.ts";

/** Text of the page's script, without types. */
export const DOCS_SCRIPT: string = stripTypeScriptTypes(source);

const STYLE = `
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font: 0.875em/1.5 ui-monospace, monospace; }
details { border: 1px solid color-mix(in srgb, currentColor 20%, transparent);
  border-radius: 6px; margin: 0.5rem 0; padding: 0 1rem; }
summary { cursor: pointer; padding: 0.5rem 0; display: flex; gap: 1rem; flex-wrap: wrap; }
summary b { min-width: 4rem; text-transform: uppercase; }
table { border-collapse: collapse; width: 100%; margin: 0.5rem 0 1rem; }
td { border-top: 1px solid color-mix(in srgb, currentColor 15%, transparent);
  padding: 0.25rem 1rem 0.25rem 0; vertical-align: top; }
@media (max-width: 40rem) {
  table, tbody, tr, td { display: block; }
  tr { border-top: 1px solid color-mix(in srgb, currentColor 15%, transparent); padding: 0.25rem 0; }
  td { border: 0; padding: 0; overflow-wrap: anywhere; }
}
pre { overflow-x: auto; padding: 0.75rem;
  background: color-mix(in srgb, currentColor 8%, transparent); border-radius: 6px; }
${
  LANGUAGES.map((name) => `body:not([data-language="${name}"]) .sample.${name} { display: none; }`)
    .join("\n")
}
form { display: grid; grid-template-columns: minmax(0, 1fr); gap: 0.5rem; margin: 0.5rem 0 1rem; }
input, textarea, select, button { font: inherit; padding: 0.25rem 0.5rem; max-width: 100%; }
textarea { font: 0.875em/1.5 ui-monospace, monospace; }
button { justify-self: start; padding: 0.25rem 1rem; }
img, video { display: block; max-width: 100%; }
`;

export function docsPage(
  document: OpenApiDocument,
  operations: readonly Operation[],
  base: string,
): string {
  const { info, security } = document;
  const needsKey = security.some((scheme) => "key" in scheme);
  const tags = [...new Set(operations.map(({ tag }) => tag))];
  const chapters = tags.map((tag) => {
    const parts = operations.filter((operation) => operation.tag === tag)
      .map((operation) => operationPart(operation, document, base));
    return `<h2>${escape(tag)}</h2>${parts.join("")}`;
  });
  return `<!doctype html><html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>${escape(info.title)} API</title><style>${STYLE}</style></head>
<body data-language="${LANGUAGES[0]}">
<h1>${escape(info.title)} ${escape(info.version)}</h1>
<p>${prose(info.description)} For programs: <a href="openapi.json">openapi.json</a>.</p>
<p class="scripted" hidden><label>Examples in <select id="language">${
    LANGUAGES.map((name) => `<option>${name}</option>`).join("")
  }</select></label>${needsKey ? KEY_FIELD : ""}</p>
<main>${chapters.join("\n")}</main>
<script type="module">${DOCS_SCRIPT}</script>
</body></html>`;
}

function operationPart(operation: Operation, document: OpenApiDocument, base: string): string {
  const { method, path, summary, query = [], body, answer } = operation;
  const { schemas } = document.components;
  const asked = query.map(([name, type, note]) => row(name, type, note));
  const isForm = body !== undefined && !body.types.includes("application/json");
  const fields = body ? schemas[isForm ? `${body.schema}Form` : body.schema] : undefined;
  const samples = Object.entries(samplesOf(operation, base, document)).map(([name, text]) =>
    `<pre class="sample ${name}">${escape(text)}</pre>`
  );
  const tables = [
    asked.length > 0 ? `<h4>Query</h4><table>${asked.join("")}</table>` : "",
    fields ? `<h4>Body: ${escape(body!.types.join(", "))}</h4>${fieldTable(fields)}` : "",
    "json" in answer
      ? `<h4>Answer</h4>${fieldTable(schemas[answer.json]!)}`
      : `<h4>Answer: ${escape(answer.types.join(", "))}</h4>`,
  ];
  const request = escape(JSON.stringify(sampleRequest(operation)));
  return `<details id="${operation.id}" data-request="${request}"><summary><b>${method}</b><code>${
    escape(path)
  }</code>` +
    `<span>${prose(summary)}</span></summary>${samples.join("")}` +
    `<div class="tables">${tables.join("")}</div></details>`;
}

const KEY_FIELD = ' <label>Key <input id="key" type="password" autocomplete="off"></label>';

function fieldTable(schema: JsonSchema): string {
  const fields = [...fieldsOf(schema, "")];
  const rows = fields.filter(({ note }) => note !== NO_EFFECT)
    .map(({ name, type, note }) => row(name, type, note));
  const idle = fields.filter(({ note }) => note === NO_EFFECT)
    .map(({ name }) => `<code>${escape(name)}</code>`);
  const rest = idle.length > 0 ? `<p>${NO_EFFECT}: ${idle.join(", ")}.</p>` : "";
  return `<table>${rows.join("")}</table>${rest}`;
}

/** Fields with those of the objects and lists in them, such as `data[].url`. */
function* fieldsOf({ properties = {} }: JsonSchema, prefix: string): Iterable<
  { name: string; type: string; note: string }
> {
  for (const [own, field] of Object.entries(properties)) {
    const name = prefix + own;
    const note = field.description ?? "";
    yield { name, type: typeName(field), note };
    yield* fieldsOf(field, `${name}.`);
    if (field.items) yield* fieldsOf(field.items, `${name}[].`);
  }
}

function row(name: string, type: string, note: string): string {
  return `<tr><td><code>${escape(name)}</code></td><td>${escape(type)}</td>` +
    `<td>${prose(note)}</td></tr>`;
}

/** Such as `integer`, `string or list`; that most fields may be null is omitted. */
function typeName({ anyOf, type, items, contentMediaType }: JsonSchema): string {
  if (contentMediaType) return "file";
  const names = anyOf?.map(typeName) ??
    [type ?? "any"].flat().map((name) =>
      name === "array" ? `list of ${items ? typeName(items) : "any"}` : name
    );
  return [...new Set(names)].filter((name) => name !== "null").join(" or ") || "null";
}

function prose(text: string): string {
  return escape(text).replace(/`([^`]+)`/g, "<code>$1</code>");
}

function escape(text: string): string {
  const entities: Record<string, string> = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
  };
  return text.replace(/[&<>"]/g, (sign) => entities[sign]!);
}
