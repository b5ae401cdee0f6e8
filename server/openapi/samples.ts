/** How an operation is called from a shell, from Python and from JavaScript. */

import type { OpenApiDocument } from "./document.ts";
import type { BodyName, Operation } from "./operation.ts";

export const LANGUAGES = ["curl", "Python", "JavaScript"] as const;

const EXAMPLE_BODY = { prompt: "a red circle" };
/** Examples of bodies that have no prompt. */
const EXAMPLE_BODIES: Readonly<Partial<Record<BodyName, object>>> = {
  SetLora: { lora_nickname: "style", lora_path: "style.safetensors", strength: 0.8 },
  MergeLora: { strength: 0.8 },
  UnmergeLora: { target: "all" },
  ChangeParts: { control_nets: ["control_v11p_sd15_canny"] },
  PullModel: { model: "z-image-turbo" },
  ArchiveResults: { results: ["img_…"] },
};
const EXAMPLE_FORM = { prompt: "in winter" };
const EXAMPLE_LORA = "style.safetensors";
const EXAMPLE_FILE = { field: "image", name: "image.png" };

/** What a request of an operation has, for the samples and for the page that runs it. */
export interface SampleRequest {
  readonly method: string;
  /** Path with parameters in braces. */
  readonly path: string;
  readonly query: readonly string[];
  /** The fields of the body; absent where there is none. */
  readonly body?: object;
  /** Whether the body is a file by itself. */
  readonly isFileBody?: boolean;
  /** The field of a form that an example file goes into. */
  readonly fileField?: string;
}

export function sampleRequest({ method, path, query = [], body }: Operation): SampleRequest {
  const isFileBody = body?.schema === "File";
  const isForm = body !== undefined && !isFileBody && !body.types.includes("application/json");
  return {
    method: method.toUpperCase(),
    path,
    query: query.map(([name]) => name),
    ...(isFileBody && { isFileBody }),
    ...(body && body.schema !== "File" && {
      body: isForm ? EXAMPLE_FORM : EXAMPLE_BODIES[body.schema] ?? EXAMPLE_BODY,
    }),
    ...(isForm && { fileField: EXAMPLE_FILE.field }),
  };
}

/** One sample for each of {@link LANGUAGES}. */
export function samplesOf(
  operation: Operation,
  base: string,
  { security }: Pick<OpenApiDocument, "security">,
): Record<typeof LANGUAGES[number], string> {
  const request = sampleRequest(operation);
  const needsKey = security.some((scheme) => "key" in scheme);
  const isFile = "types" in operation.answer;
  return {
    curl: curl(request, base, needsKey, isFile),
    Python: python(request, base, needsKey, isFile),
    JavaScript: javaScript(request, base, needsKey, isFile),
  };
}

type Sample = (request: SampleRequest, base: string, needsKey: boolean, isFile: boolean) => string;

const curl: Sample = ({ method, path, body, isFileBody, fileField }, base, needsKey, isFile) => {
  const named = path.replaceAll(/\{(\w+)\}/g, (_, name) => `$${name.toUpperCase()}`);
  const data = isFileBody
    ? ` -H "content-type: application/octet-stream" --data-binary @${EXAMPLE_LORA}`
    : body === undefined
    ? ""
    : fileField
    ? Object.entries(body).map(([name, value]) => ` -F ${name}="${value}"`).join("") +
      ` -F ${fileField}=@${EXAMPLE_FILE.name}`
    : ` -H "content-type: application/json" -d '${JSON.stringify(body)}'`;
  return `curl${method === "GET" ? "" : ` -X ${method}`} ${base}${named}` +
    `${needsKey ? ' -H "Authorization: Bearer $KEY"' : ""}${data}${isFile ? " -o result" : ""}`;
};

const python: Sample = ({ method, path, body, isFileBody, fileField }, base, needsKey, isFile) => {
  const url = JSON.stringify(base + path);
  const lines = [
    `f${url}`.replace(/^f(?=[^{]*$)/, ""),
    ...(needsKey ? ['headers={"Authorization": f"Bearer {key}"}'] : []),
    ...(body ? [`${fileField ? "data" : "json"}=${JSON.stringify(body)}`] : []),
    ...(isFileBody ? [`data=open("${EXAMPLE_LORA}", "rb")`] : []),
    ...(fileField ? [`files={"${fileField}": open("${EXAMPLE_FILE.name}", "rb")}`] : []),
  ];
  const end = isFile ? 'open("result", "wb").write(response.content)' : "print(response.json())";
  return `import requests\n\nresponse = requests.${method.toLowerCase()}(\n` +
    `${lines.map((line) => `    ${line},\n`).join("")})\n${end}`;
};

const javaScript: Sample = (
  { method, path, body, isFileBody, fileField },
  base,
  needsKey,
  isFile,
) => {
  const named = path.replaceAll(/\{(\w+)\}/g, "${$1}");
  const url = named === path ? JSON.stringify(base + path) : `\`${base}${named}\``;
  const headers = [
    ...(needsKey ? ["authorization: `Bearer ${key}`"] : []),
    ...(body && !fileField ? ['"content-type": "application/json"'] : []),
  ];
  const options = [
    ...(method === "GET" ? [] : [`method: "${method}"`]),
    ...(headers.length > 0 ? [`headers: { ${headers.join(", ")} }`] : []),
    ...(isFileBody ? ["body: file"] : []),
    ...(body ? [fileField ? "body: form" : `body: JSON.stringify(${JSON.stringify(body)})`] : []),
  ];
  const form = !fileField || !body ? "" : "const form = new FormData();\n" +
    Object.entries(body).map(([name, value]) => `form.append("${name}", "${value}");\n`).join("") +
    `form.append("${fileField}", file); // of an <input type="file">\n`;
  const given = options.length > 0 ? `, {\n${options.map((line) => `  ${line},\n`).join("")}}` : "";
  const end = isFile
    ? "const file = await response.blob();"
    : "console.log(await response.json());";
  return `${form}const response = await fetch(${url}${given});\n` +
    (fileField && isFile ? end.replace("file", "result") : end);
};
