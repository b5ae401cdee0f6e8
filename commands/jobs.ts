/** `denoise ps` and `denoise jobs`: what a running server does and has done. */

import type { WorkerRecord } from "../server/mod.ts";
import { Client, type Job } from "../client/mod.ts";
import type { JobsFlags, PsFlags } from "./flags.ts";
import { duration } from "./progress_bar.ts";
import { columns, print } from "./print.ts";

/** Characters of a prompt that a line shows. */
const PROMPT = 60;

export async function runPs(flags: PsFlags, fetcher?: typeof fetch): Promise<number> {
  const client = new Client({ ...flags, ...(fetcher && { fetch: fetcher }) });
  const models = await client.models();
  const list = await client.jobs(1);
  const jobs = list.data.filter(({ ended_at }) => ended_at === null);
  const { data: workers } = await client.json<{ data: WorkerRecord[] }>("/v1/workers");
  if (flags.json) {
    print(JSON.stringify({ models, jobs, workers }, undefined, 2));
    return 0;
  }
  const names = models.map(({ id }) => id).join(", ");
  print(
    `${flags.url} serves ${names}: ${list.running} at work, ${list.waiting} ${
      list.waiting === 1 ? "waits" : "wait"
    }`,
  );
  if (workers.length === 0) print("No worker is there: jobs wait until one joins the fleet");
  if (workers.length > 1) print(tableOfWorkers(workers));
  if (jobs.length > 0) print(tableOf(jobs));
  return 0;
}

export async function runJobs(
  id: string | undefined,
  flags: JobsFlags,
  fetcher?: typeof fetch,
): Promise<number> {
  const client = new Client({ ...flags, ...(fetcher && { fetch: fetcher }) });
  if (flags.cancel !== undefined) {
    const { status } = await client.cancel(flags.cancel);
    print(`${flags.cancel} is ${status.replace("_", " ")}`);
    return 0;
  }
  if (id !== undefined) {
    const job = await client.job(id);
    print(flags.json ? JSON.stringify(job, undefined, 2) : describeJob(job));
    return 0;
  }
  const list = await client.jobs(flags.limit);
  if (flags.json) print(JSON.stringify(list, undefined, 2));
  else print(list.data.length === 0 ? "There are no jobs" : tableOf(list.data));
  return 0;
}

function tableOf(jobs: readonly Job[]): string {
  const rows = jobs.map((job) => [
    job.id,
    stateOf(job),
    job.task_type ?? "",
    job.size ?? "",
    timeOf(job),
    shortPrompt(job.prompt),
  ]);
  return columns([["job", "state", "task", "size", "time", "prompt"], ...rows]);
}

function tableOfWorkers(workers: readonly WorkerRecord[]): string {
  const rows = workers.map(({ gpu, host, device, state, utilisation, job, models }) => [
    `${host} ${gpu}`,
    device ?? "",
    state,
    `${Math.round(utilisation * 100)} %`,
    models.filter(({ state }) => state === "loaded").map(({ id }) => id).join(", "),
    job ?? "",
  ]);
  return columns([["gpu", "device", "state", "at work", "loaded", "job"], ...rows]);
}

function describeJob(job: Job): string {
  const lines = [
    ["state", stateOf(job)],
    ["task", job.task_type ?? ""],
    ["size", job.size ?? ""],
    ["time", timeOf(job)],
    ["prompt", job.prompt ?? "another client's"],
    ...(job.error ? [["error", job.error.message]] : []),
    ...(job.outputs ?? []).map(({ url, seed }) => ["result", `${url}, seed ${seed}`]),
  ];
  return `${job.id}\n${columns(lines)}`;
}

function stateOf({ status, progress, place }: Job): string {
  if (status === "in_progress") return `${progress} %`;
  return status === "queued" && place !== null ? `waits, place ${place}` : status;
}

function timeOf({ started_at, ended_at }: Job): string {
  if (started_at === null) return "";
  // The server tells whole seconds.
  const seconds = (ended_at ?? Math.floor(Date.now() / 1000)) - started_at;
  return seconds < 1 ? "below 1 s" : seconds < 10 ? `${seconds} s` : duration(seconds);
}

function shortPrompt(prompt: string | null): string {
  if (prompt === null) return "(another client's)";
  const line = prompt.replace(/\s+/g, " ");
  return line.length > PROMPT ? `${line.slice(0, PROMPT - 1)}…` : line;
}
