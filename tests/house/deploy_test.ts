/** What lies in deploy/: it names only what there is. */

import { strict as assert } from "node:assert";
import type { Command, Option } from "commander";
import { parse, parseAllDocuments } from "yaml";
import { SERVE_FLAGS, WORKER_FLAGS } from "../../commands/flags.ts";
import { variableOf } from "../../commands/own_defaults.ts";
import type { Flags } from "../../generation/flag.ts";
import { createProgram } from "../../commands/program.ts";
import { testService } from "../fakes/service.ts";

/** A container of ours, wherever it is described. */
interface Container {
  readonly name: string;
  readonly args: readonly string[];
  readonly variables: readonly string[];
}

const read = (path: string) =>
  Deno.readTextFileSync(new URL(`../../deploy/${path}`, import.meta.url));

function composed(): Container[] {
  interface Service {
    image: string;
    command?: string[];
    environment?: Record<string, string>;
    depends_on?: Record<string, unknown> | string[];
    volumes?: string[];
  }
  const { services, volumes } = parse(read("compose.yaml"), { merge: true }) as {
    services: Record<string, Service>;
    volumes: Record<string, null>;
  };
  for (const [name, service] of Object.entries(services)) {
    assert.match(service.image, /^[\w./-]+:[\w.-]+$/, `${name} has an image of a version`);
    const others = service.depends_on ?? [];
    for (const other of Array.isArray(others) ? others : Object.keys(others)) {
      assert.ok(services[other], `${name} depends on ${other}`);
    }
    for (const volume of service.volumes ?? []) {
      assert.ok(volume.split(":")[0]! in volumes, `${name} mounts ${volume}`);
    }
  }
  return Object.entries(services).filter(([, { image }]) => image.startsWith("denoise:"))
    .map(([name, { command, environment }]) => ({
      name,
      args: command ?? [],
      variables: Object.keys(environment ?? {}),
    }));
}

function orchestrated(): Container[] {
  interface Manifest {
    kind: string;
    metadata: { name: string; namespace?: string };
    stringData?: Record<string, string>;
    spec?: {
      selector?: Record<string, unknown> & { matchLabels?: Record<string, string> };
      template?: {
        metadata: { labels: Record<string, string> };
        spec: {
          terminationGracePeriodSeconds?: number;
          containers: {
            name: string;
            image: string;
            args?: string[];
            envFrom?: { secretRef: { name: string } }[];
          }[];
        };
      };
    };
  }
  const documents = parseAllDocuments(read("kubernetes.yaml"));
  for (const { errors } of documents) assert.deepEqual(errors, []);
  const manifests = documents.map((document) => document.toJS() as Manifest);
  const secrets = new Map(
    manifests.filter(({ kind }) => kind === "Secret")
      .map(({ metadata, stringData }) => [metadata.name, Object.keys(stringData ?? {})]),
  );
  const found: Container[] = [];
  for (const { kind, metadata, spec } of manifests) {
    if (kind !== "Namespace") assert.equal(metadata.namespace, "denoise", metadata.name);
    if (!spec?.template) continue;
    assert.deepEqual(spec.selector?.matchLabels, spec.template.metadata.labels, metadata.name);
    for (const { name, image, args = [], envFrom = [] } of spec.template.spec.containers) {
      const variables = envFrom.flatMap(({ secretRef }) => {
        assert.ok(secrets.has(secretRef.name), `${name} has the secret ${secretRef.name}`);
        return secrets.get(secretRef.name)!;
      });
      if (image.startsWith("denoise:")) found.push({ name, args, variables });
    }
  }
  return found;
}

/** Checks a command line against the program's own, and gives its settings. */
function checkArgs({ name, args }: Container): Map<string, string | undefined> {
  const [first, ...flags] = args;
  const program = createProgram(() => {}) as Command;
  const command = program.commands.find((command) => command.name() === first);
  assert.ok(command, `${name} runs a command that there is: ${first}`);
  const settings = new Map<string, string | undefined>();
  for (const flag of flags) {
    const [long = "", value] = flag.split(/=(.*)/s);
    const option: Option | undefined = command.options.find((option) => option.long === long);
    assert.ok(option, `${name}: denoise ${first} has ${long}`);
    assert.equal(value !== undefined, option.required, `${name}: ${flag}`);
    if (value !== undefined) option.parseArg?.(value, undefined as never);
    settings.set(long, value);
  }
  return settings;
}

Deno.test("deploy/: containers run commands with flags that the program has", () => {
  const known = [SERVE_FLAGS, WORKER_FLAGS].flatMap((table: Flags) =>
    Object.entries(table).map(([row, flag]) => variableOf(row, flag))
  );
  for (const containers of [composed(), orchestrated()]) {
    const roles = containers.map(({ args }) => args[0]).toSorted();
    assert.deepEqual(roles, ["serve", "worker"]);
    const buckets = new Set<string | undefined>();
    for (const container of containers) {
      const settings = checkArgs(container);
      buckets.add(settings.get("--s3-bucket"));
      assert.ok(container.variables.includes("DENOISE_DATABASE_URL"), container.name);
      const ours = container.variables.filter((name) => name.startsWith("DENOISE_"));
      for (const name of ours) assert.ok(known.includes(name), `${name} is read by the program`);
    }
    assert.equal(buckets.size, 1, "all keep their results in one place");
  }
});

Deno.test("deploy/Containerfile has the launcher's Deno, and copies what there is", () => {
  const text = read("Containerfile");
  const launcher = Deno.readTextFileSync(new URL("../../denoise", import.meta.url));
  const [, version] = /^version=(\S+)/m.exec(launcher)!;
  assert.equal(/denoland\/deno:bin-(\S+)/.exec(text)?.[1], version);
  assert.match(text, /NVIDIA_DRIVER_CAPABILITIES=graphics/);
  for (const name of ["mesa-vulkan-drivers", "libvulkan1", "ca-certificates"]) {
    assert.ok(text.includes(name), name);
  }
  assert.match(text, /^USER denoise$/m);
  const entry = JSON.parse(/^ENTRYPOINT (.*)$/m.exec(text)![1]!) as string[];
  assert.deepEqual(entry.slice(-1), ["/app/denoise"]);
  const args = JSON.parse(/^CMD (.*)$/m.exec(text)![1]!) as string[];
  checkArgs({ name: "the image", args: [`${args[0]}`, `${args[1]}=${args[2]}`], variables: [] });
  const kept = read("Containerfile.dockerignore").split("\n")
    .filter((line) => line.startsWith("!")).map((line) => line.slice(1));
  for (const path of kept) Deno.statSync(new URL(`../../${path}`, import.meta.url));
  for (const folder of ["commands", "engine", "server", "playground", "models"]) {
    assert.ok(kept.includes(folder), folder);
  }
});

Deno.test("deploy/grafana.json asks for metrics that /metrics has", async () => {
  await using service = await testService({ settings: { enableMetrics: true } });
  const text = await (await service.get("/metrics")).text();
  const types = new Map(
    [...text.matchAll(/^# TYPE (\w+) (\w+)$/gm)].map(([, name, type]) => [name!, type!]),
  );
  const board = JSON.parse(read("grafana.json")) as {
    panels: { id: number; title: string; targets: { expr: string }[] }[];
  };
  assert.equal(new Set(board.panels.map(({ id }) => id)).size, board.panels.length);
  const asked = new Set<string>();
  for (const { title, targets } of board.panels) {
    for (const { expr } of targets) {
      assert.equal(expr.split("(").length, expr.split(")").length, `${title}: ${expr}`);
      for (const [name] of expr.matchAll(/\b(?:denoise|process)_\w+/g)) {
        const family = types.has(name) ? name : name.replace(/_(?:bucket|sum|count)$/, "");
        const type = types.get(family);
        assert.ok(type, `${title}: ${name}`);
        assert.equal(family !== name, type === "histogram", `${title}: ${name} is a ${type}`);
        asked.add(family);
      }
    }
  }
  for (const name of ["denoise_queue_oldest_age_seconds", "denoise_job_failures_total"]) {
    assert.ok(asked.has(name), name);
  }
});
