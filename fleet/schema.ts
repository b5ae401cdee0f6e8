/** The tables of a fleet. Servers of an older and of a newer version work side by side, so changes only add. */

import type { Database } from "./database.ts";

/** Says whose lock it is; any number that nobody else uses. */
const LOCK = 0x64656e6f;

/** Steps from one version of the tables to the next. A version that was released never changes. */
const MIGRATIONS: readonly string[] = [
  `
  CREATE FUNCTION denoise_now() RETURNS bigint LANGUAGE sql AS
    'SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint';

  CREATE TABLE denoise_jobs (
    id text PRIMARY KEY,
    seq bigint GENERATED ALWAYS AS IDENTITY,
    kind text NOT NULL,
    status text NOT NULL,
    progress integer NOT NULL DEFAULT 0,
    created_at bigint NOT NULL DEFAULT denoise_now(),
    started_at bigint,
    ended_at bigint,
    request text NOT NULL,
    request_key text,
    request_body text,
    summary text,
    revised_prompt text,
    result text,
    error text,
    error_status integer,
    client text NOT NULL DEFAULT '',
    model text,
    loras text[] NOT NULL DEFAULT '{}',
    priority integer NOT NULL DEFAULT 0,
    turn double precision NOT NULL DEFAULT 0,
    memory bigint NOT NULL DEFAULT 0,
    passed_at bigint,
    taken bigint,
    front text,
    is_ready boolean NOT NULL DEFAULT true,
    owner text,
    lease_until timestamptz,
    deaths integer NOT NULL DEFAULT 0,
    cancel boolean NOT NULL DEFAULT false,
    refused_by text[] NOT NULL DEFAULT '{}',
    is_told boolean NOT NULL DEFAULT false
  );
  CREATE INDEX denoise_jobs_by_seq ON denoise_jobs (seq) WHERE status IN ('queued', 'in_progress');
  CREATE INDEX denoise_jobs_by_priority ON denoise_jobs (model, priority DESC, turn, seq)
    WHERE status = 'queued';
  CREATE INDEX denoise_jobs_by_turn ON denoise_jobs (model, turn, seq) WHERE status = 'queued';
  CREATE INDEX denoise_jobs_taken ON denoise_jobs (priority, taken DESC) WHERE taken IS NOT NULL;
  CREATE INDEX denoise_jobs_by_time ON denoise_jobs (created_at, seq);
  CREATE INDEX denoise_jobs_by_end ON denoise_jobs (ended_at) WHERE ended_at IS NOT NULL;
  CREATE INDEX denoise_jobs_untold ON denoise_jobs (seq) WHERE NOT is_told AND ended_at IS NOT NULL;
  CREATE INDEX denoise_jobs_by_owner ON denoise_jobs (owner) WHERE status = 'in_progress';
  CREATE UNIQUE INDEX denoise_jobs_by_request ON denoise_jobs (request_key)
    WHERE request_key IS NOT NULL;

  CREATE TABLE denoise_inputs (
    job text NOT NULL,
    name text NOT NULL,
    part integer NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (job, name, part)
  );
  ALTER TABLE denoise_inputs ALTER bytes SET STORAGE EXTERNAL;

  CREATE UNLOGGED TABLE denoise_live (
    job text PRIMARY KEY,
    progress text,
    preview bytea,
    about text,
    outputs jsonb
  );

  CREATE TABLE denoise_clients (
    client text NOT NULL,
    priority integer NOT NULL,
    next double precision,
    PRIMARY KEY (client, priority)
  );
  CREATE SEQUENCE denoise_taken;

  CREATE TABLE denoise_members (
    id text PRIMARY KEY,
    kind text NOT NULL,
    name text NOT NULL,
    joined_at timestamptz NOT NULL DEFAULT now(),
    seen_at timestamptz NOT NULL DEFAULT now(),
    state text NOT NULL
  );

  CREATE TABLE denoise_models (
    name text PRIMARY KEY,
    about text NOT NULL,
    first_at timestamptz NOT NULL DEFAULT now(),
    seen_at timestamptz NOT NULL DEFAULT now()
  );

  CREATE TABLE denoise_calls (
    id text PRIMARY KEY,
    member text NOT NULL,
    asked_at timestamptz NOT NULL DEFAULT now(),
    question text NOT NULL,
    answer text
  );
  CREATE INDEX denoise_calls_by_member ON denoise_calls (member) WHERE answer IS NULL;

  CREATE TABLE denoise_settings (
    name text PRIMARY KEY,
    value text NOT NULL
  );

  CREATE FUNCTION denoise_job_changes() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF NEW.status = 'queued' AND NEW.cancel THEN
      NEW.status := 'cancelled';
      NEW.ended_at := denoise_now();
    END IF;
    IF NEW.status <> 'in_progress' THEN NEW.lease_until := NULL; END IF;
    IF NEW.status = 'queued' AND OLD.status = 'in_progress' THEN
      NEW.owner := NULL;
      NEW.started_at := NULL;
      NEW.progress := 0;
    END IF;
    RETURN NEW;
  END $$;
  CREATE TRIGGER denoise_job_changes BEFORE UPDATE OF status ON denoise_jobs
    FOR EACH ROW EXECUTE FUNCTION denoise_job_changes();

  CREATE FUNCTION denoise_job_changed() RETURNS trigger LANGUAGE plpgsql AS $$
  BEGIN
    IF TG_OP = 'DELETE' THEN
      PERFORM pg_notify('denoise_jobs', OLD.id || ' deleted');
    ELSIF TG_OP = 'INSERT' OR NEW.status <> OLD.status OR NEW.is_ready <> OLD.is_ready THEN
      PERFORM pg_notify('denoise_jobs', NEW.id || ' ' || NEW.status);
    END IF;
    IF TG_OP = 'DELETE' OR NEW.status IN ('completed', 'failed', 'cancelled') THEN
      DELETE FROM denoise_inputs WHERE job = coalesce(NEW.id, OLD.id);
      DELETE FROM denoise_live WHERE job = coalesce(NEW.id, OLD.id);
    END IF;
    RETURN NULL;
  END $$;
  CREATE TRIGGER denoise_job_changed
    AFTER INSERT OR DELETE OR UPDATE OF status, is_ready ON denoise_jobs
    FOR EACH ROW EXECUTE FUNCTION denoise_job_changed();
  `,
];

export const SCHEMA_VERSION = MIGRATIONS.length;

/** Brings the tables up to date, once for all that start together; @throws {Error} when a newer version's cannot be worked with */
export async function migrate(database: Database): Promise<void> {
  await database.transaction(async (sql) => {
    await sql`SELECT pg_advisory_xact_lock(${LOCK})`;
    await sql`CREATE TABLE IF NOT EXISTS denoise_schema (version integer NOT NULL, least integer NOT NULL)`;
    const [row] = await sql`SELECT version, least FROM denoise_schema`;
    const { version = 0, least = 0 } = row ?? {};
    if (least > SCHEMA_VERSION) {
      throw new Error(
        `Cannot use the database: its tables are of version ${version}, and this program knows ` +
          `version ${SCHEMA_VERSION}; install a newer one`,
      );
    }
    if (version >= SCHEMA_VERSION) return;
    for (const step of MIGRATIONS.slice(version)) await sql.unsafe(step).simple();
    await sql`DELETE FROM denoise_schema`;
    await sql`INSERT INTO denoise_schema VALUES (${SCHEMA_VERSION}, 1)`;
  });
}
