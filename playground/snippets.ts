/** A recipe as code that makes the result again: for a shell, the command line, Deno and Python. */

import { useState } from "preact/hooks";
import { apiKey, host } from "./api.ts";
import { h, type VNode } from "./elements.ts";
import type { Job, Recipe } from "./jobs.ts";
import { t } from "./texts.ts";

const KEY = "DENOISE_API_KEY";

/** Names and texts; inputs are not kept, so that what had any has no code. */
function snippetsOf({ kind }: Job, recipe: Recipe): [string, string][] {
  const inputs = Object.entries(recipe).filter(([name]) => name.startsWith("input_"));
  if (host.current.Corner || inputs.some(([, value]) => value)) return [];
  const server = new URL(".", location.href).href.replace(/\/$/, "");
  const fields = Object.fromEntries(
    Object.entries(recipe).filter(([name, value]) =>
      !name.startsWith("input_") && value !== null && String(value) !== ""
    ),
  );
  const text = JSON.stringify(fields);
  const route = `${server}/v1/${kind === "video" ? "videos" : "images/generations"}`;
  const hasKey = apiKey() !== "";
  const curl = [
    `curl ${route} -H 'content-type: application/json'`,
    ...hasKey ? [`-H "authorization: Bearer $${KEY}"`] : [],
    `-d ${quoted(text)}`,
  ].join(" ");
  const options = JSON.stringify({ url: server }).slice(0, -1) +
    (hasKey ? `,"apiKey":Deno.env.get("${KEY}")}` : "}");
  const extension = recipe["output_format"] ?? (kind === "video" ? "mp4" : "png");
  const deno = `import { Client } from "denoise/client";

const client = new Client(${options});
for await (const event of client.${kind}(${JSON.stringify(fields, null, 2)})) {
  if (event.type !== "completed") continue;
  for (const [index, output] of event.job.outputs!.entries()) {
    await Deno.writeFile(\`result-\${index}.${extension}\`, (await client.download(output)).stream());
  }
}
`;
  const python = `import base64, json, os, urllib.request

headers = {"content-type": "application/json"${
    hasKey ? `, "authorization": "Bearer " + os.environ["${KEY}"]` : ""
  }}
body = ${JSON.stringify(text)}.encode()
call = urllib.request.Request("${route}", body, headers)
for index, image in enumerate(json.load(urllib.request.urlopen(call))["data"]):
    with open(f"result-{index}.${extension}", "wb") as file:
        file.write(base64.b64decode(image["b64_json"]))
`;
  return [
    ["curl", curl],
    [t("commandLine"), commandLine(fields)],
    ["Deno", deno],
    ...kind === "image" ? [["Python", python] as [string, string]] : [],
  ];
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** Fields that have a flag of another name, or none. */
const FLAGS: Readonly<Record<string, string>> = { n: "num-outputs", model: "model-path" };
const NO_FLAGS = ["prompt", "loras", "output_format"];

function commandLine(fields: Record<string, unknown>): string {
  const flags = Object.entries(fields).filter(([name, value]) =>
    !NO_FLAGS.includes(name) && value !== false
  ).map(([name, value]) => {
    const flag = `--${FLAGS[name] ?? name.replaceAll("_", "-")}`;
    const values = name === "seed" ? [value].flat().slice(0, 1) : [value].flat();
    return value === true
      ? flag
      : `${flag} ${values.map((each) => quoted(String(each))).join(" ")}`;
  });
  const loras = (fields["loras"] ?? []) as { path: string; strength: number }[];
  return [
    `./denoise generate ${quoted(String(fields["prompt"]))}`,
    ...flags,
    ...loras.map(({ path, strength }) => `--lora ${quoted(`${path}:${strength}`)}`),
  ].join(" ");
}

/** Puts a text on the clipboard; without encryption browsers allow only what is selected. */
async function copy(text: string): Promise<void> {
  if (navigator.clipboard) return await navigator.clipboard.writeText(text);
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

export function CopyAs({ job, recipe }: { job: Job; recipe: Recipe }): VNode {
  const [copied, setCopied] = useState("");
  const texts = [
    [t("prompt"), recipe.prompt],
    [t("link"), location.href],
    ...snippetsOf(job, recipe),
  ];
  return h(
    "div",
    { class: "copy-as" },
    h("span", { role: "status" }, copied ? t("copied", { name: copied }) : t("copyAs")),
    ...texts.map(([name = "", text = ""]) =>
      h("button", {
        key: name,
        class: "chip",
        onClick: () => void copy(text).then(() => setCopied(name)),
      }, name)
    ),
  );
}
