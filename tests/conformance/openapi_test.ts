/** The OpenAPI document: sound in itself, and true of the server. */

import { strict as assert } from "node:assert";
import {
  imageEditFieldTable,
  imageFieldTable,
  videoFieldTable,
} from "../../server/contract/generation_fields.ts";
import { loraFieldTables } from "../../server/contract/lora_requests.ts";
import { type AnswerName, ANSWERS } from "../../server/contract/answers.ts";
import { samplesOf } from "../../server/openapi/samples.ts";
import { openApiDocument } from "../../server/openapi/document.ts";
import { FIELD_NOTES, LORA_FIELD_NOTES } from "../../server/openapi/field_notes.ts";
import { ROUTES } from "../../server/routes/table.ts";
import { testService, until } from "../fakes/service.ts";

/** Every value in a document under a key. */
function valuesOf(node: unknown, key: string): unknown[] {
  if (typeof node !== "object" || node === null) return [];
  return Object.entries(node).flatMap(([name, value]) =>
    name === key ? [value] : valuesOf(value, key)
  );
}

Deno.test("GET /openapi.json names every route that is mounted, and nothing else", async () => {
  await using service = await testService();
  const { paths } = await (await service.get("/openapi.json")).json();
  const documented = Object.entries(paths).flatMap(([path, methods]) =>
    Object.keys(methods as object).map((method) => `${method.toUpperCase()} ${path}`)
  );
  // The routes of another program have its documents.
  const isOurs = ({ method, path }: { method: string; path: string }) =>
    method !== "ALL" && !/^\/(?:sdapi|controlnet)\//.test(path);
  const mounted = service.app.routes.filter(isOurs)
    .map(({ method, path }) => `${method} ${path.replace(/:(\w+)(?:\{[^}]*\})?/g, "{$1}")}`);
  assert.deepEqual(documented.sort(), [...new Set(mounted)].sort());
});

Deno.test("GET /openapi.json is a document of version 3.1 whose references resolve", async () => {
  await using service = await testService();
  const response = await service.get("/openapi.json");
  assert.equal(response.headers.get("content-type"), "application/json");
  const document = await response.json();
  assert.match(document.openapi, /^3\.1\.\d$/);
  assert.ok(document.info.title && document.info.version);
  const references = valuesOf(document, "$ref") as string[];
  assert.ok(references.length > 20);
  for (const reference of references) {
    const parts = reference.replace(/^#\//, "").split("/");
    const found = parts.reduce((node, part) => node?.[part], document);
    assert.ok(found, reference);
  }
  const ids = new Set<string>();
  for (const [path, methods] of Object.entries(document.paths)) {
    // deno-lint-ignore no-explicit-any -- the document is what is tested
    for (const operation of Object.values(methods as Record<string, any>)) {
      ids.add(operation.operationId);
      assert.ok(operation.summary && operation.tags.length === 1);
      assert.ok(operation.responses["200"].description);
      assert.ok(operation.responses.default);
      const declared = (operation.parameters ?? [])
        .filter((parameter: { in: string }) => parameter.in === "path")
        .map(({ name }: { name: string }) => name);
      assert.deepEqual(declared, [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name), path);
    }
  }
  assert.equal(ids.size, ROUTES.length, "ids are unique");
});

Deno.test("GET /openapi.json has the fields of requests with types and meaning", async () => {
  await using service = await testService();
  const { components: { schemas }, paths } = await (await service.get("/openapi.json")).json();
  const { properties, required } = schemas.ImageGeneration;
  assert.deepEqual(required, ["prompt"]);
  assert.deepEqual(properties.prompt, { type: "string", description: "What to make; required" });
  assert.deepEqual(properties.width.type, ["integer", "null"]);
  assert.equal(properties.style.description, "Accepted, without effect");
  const edit = paths["/v1/images/edits"].post.requestBody.content["multipart/form-data"];
  assert.deepEqual(edit.schema, { $ref: "#/components/schemas/ImageEditForm" });
  assert.equal(
    schemas.ImageEditForm.properties.image.anyOf[0].contentMediaType,
    "application/octet-stream",
  );
});

Deno.test("GET /openapi.json has the values that fields may have, and the server takes no others", async () => {
  await using service = await testService();
  const { components: { schemas }, paths } = await (await service.get("/openapi.json")).json();
  const path = "/v1/images/generations";
  const { properties } = schemas.ImageGeneration;
  const choices = (name: string): string[] | undefined =>
    (properties[name].enum ?? properties[name].anyOf?.[0].enum)?.filter(Boolean);
  const listed = Object.keys(properties).filter(choices);
  assert.ok(["quality", "fit", "sampler", "output_format"].every((name) => listed.includes(name)));
  const bodies = [
    ...listed.map((name) => ({ [name]: "none of these" })),
    ...Object.entries<{ minimum?: number; maximum?: number }>(properties).flatMap(
      ([name, { minimum, maximum }]) => [
        ...minimum === undefined ? [] : [{ [name]: minimum - 1 }],
        ...maximum === undefined ? [] : [{ [name]: maximum + 1 }],
      ],
    ),
  ];
  for (const body of bodies) {
    const response = await service.post(path, { prompt: "a", ...body });
    const { error } = await response.json();
    assert.equal(response.status, 400, JSON.stringify(body));
    assert.equal(error.param, Object.keys(body)[0]);
  }
  for (const list of ["/v1/jobs", "/v1/videos"]) {
    // deno-lint-ignore no-explicit-any -- the document is what is tested
    const limit = paths[list].get.parameters.find(({ name }: any) => name === "limit").schema;
    for (const [asked, status] of [[limit.maximum, 200], [limit.maximum + 1, 422], [0, 422]]) {
      const response = await service.get(`${list}?limit=${asked}`);
      await response.body?.cancel();
      assert.equal(response.status, status, `${list} ${asked}`);
    }
  }
});

Deno.test("every field that has an effect is explained", () => {
  for (const { known, withoutEffect } of [imageFieldTable, imageEditFieldTable, videoFieldTable]) {
    for (const name of known) {
      assert.ok(withoutEffect.has(name) || FIELD_NOTES[name], `${name} has no note`);
    }
  }
  for (const name of Object.values(loraFieldTables).flatMap(({ known }) => known)) {
    assert.ok(LORA_FIELD_NOTES[name], `${name} has no note`);
  }
});

Deno.test("answers are what the document says", async () => {
  await using service = await testService();
  const check = async (name: AnswerName, response: Response | Promise<Response>) => {
    const body = await (await response).json();
    const { error } = ANSWERS[name].safeParse(body);
    assert.equal(error, undefined, `${name}: ${error?.message}\n${JSON.stringify(body)}`);
    return body;
  };
  await check("Images", service.post("/v1/images/generations", { prompt: "a" }));
  const form = new FormData();
  form.set("prompt", "a");
  await check("Error", service.get("/v1/images/edits", { method: "POST", body: form }));
  const { id } = await check("Video", service.post("/v1/videos", { prompt: "a" }));
  await until(async () => (await service.store.get(id))?.status === "completed");
  await check("Video", service.get(`/v1/videos/${id}`));
  await check("VideoList", service.get("/v1/videos"));
  await check("Video", service.get(`/v1/videos/${id}/cancel`, { method: "POST" }));
  await check("JobList", service.get("/v1/jobs"));
  await check("DeletedVideo", service.get(`/v1/videos/${id}`, { method: "DELETE" }));
  await check("Error", service.get(`/v1/videos/${id}`));
  await check("Error", service.post("/v1/images/generations", { prompt: 1 }));
  for (const { method, path, answer } of ROUTES) {
    if (method !== "get" || path.includes("{") || !("json" in answer)) continue;
    await check(answer.json, service.get(path));
  }
  await check("Model", service.get("/v1/models/gradients"));
});

Deno.test("GET /docs is one page that asks no other host for anything, with samples in three languages", async () => {
  await using service = await testService();
  const response = await service.get("http://example.test/docs");
  assert.match(response.headers.get("content-type") ?? "", /^text\/html/);
  assert.match(response.headers.get("content-security-policy") ?? "", /^default-src 'none'/);
  const page = (await response.text()).replace(/<script type="module">.*?<\/script>/s, "");
  assert.doesNotMatch(page, /<script|<link|<img|@import|url\(/i);
  for (const [address] of page.matchAll(/https?:\/\/[\w.]+/g)) {
    assert.equal(address, "http://example.test");
  }
  for (const { id, path } of ROUTES) assert.ok(page.includes(`id="${id}"`), path);
  assert.ok(page.includes("<code>num_inference_steps</code>"));
  const operation = (id: string) => ROUTES.find((route) => route.id === id)!;
  const samples = (id: string) => samplesOf(operation(id), "http://a", { security: [{ key: [] }] });
  assert.deepEqual(samples("imageContent"), {
    curl: 'curl http://a/v1/images/$ID/content -H "Authorization: Bearer $KEY" -o result',
    Python: `import requests

response = requests.get(
    f"http://a/v1/images/{id}/content",
    headers={"Authorization": f"Bearer {key}"},
)
open("result", "wb").write(response.content)`,
    JavaScript: "const response = await fetch(`http://a/v1/images/${id}/content`, {\n" +
      "  headers: { authorization: `Bearer ${key}` },\n});\nconst file = await response.blob();",
  });
  assert.match(
    samples("editImage").Python,
    /data={"prompt":"in winter"},\n.*files={"image": open\(/,
  );
  assert.match(
    samples("createImage").JavaScript,
    /body: JSON.stringify\({"prompt":"a red circle"}\)/,
  );
});

Deno.test("GET /docs and /openapi.json need no key, and say that the rest does", async () => {
  await using service = await testService({ settings: { apiKeys: ["k"] } });
  const { security } = await (await service.get("/openapi.json")).json();
  assert.deepEqual(security, [{ key: [] }]);
  assert.deepEqual(openApiDocument(ROUTES, false).security, [{}]);
  const page = await (await service.get("/docs")).text();
  assert.ok(page.includes("Authorization: Bearer $KEY"));
});
